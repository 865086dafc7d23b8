"""DS-1000: data science questions from Stack Overflow, answered with a few lines of Python.

Paper:      Lai et al., "DS-1000: A Natural and Reliable Benchmark for Data Science Code
            Generation", ICML 2023. As a stream: Wu et al., "StreamBench", 2024, and DRPG.
Licence:    CC BY-SA 4.0, as its problems come from Stack Overflow.
Source:     https://huggingface.co/datasets/xlangai/DS-1000 (``test.jsonl``), or
            https://github.com/xlang-ai/DS-1000 (``data/ds1000.jsonl.gz``).
Sizes:      1,000 problems: Pandas 291, NumPy 220, Matplotlib 155, scikit-learn 115, SciPy 106,
            PyTorch 68, TensorFlow 45.
Example:    problem  How do I get the dimensions of an array? For instance, this is (2, 2):
                     a = np.array([[1,2],[3,4]]) …
            frame    import numpy as np … a = test_input … [insert]
            code     result = a.shape
Metric:     pass@1 (:mod:`evaluators.code`), ``compare="repaired"`` version 1 unless asked
            otherwise: one answer, run in the row's own tests. ``"faithful"`` is the official
            script, in one process.
Version:    1.
Deviations: the model sees the problem and the *frame*, the program that its lines are put into.
            StreamBench shows the whole ``code_context``, which holds the reference solution;
            that is not offered, not even as ``"faithful"``. A line of a frame that is also a
            line of the reference, and not in the problem, is shown as ``...`` (one row).
            The library that a row needs may be absent: such rows are *not judged*, and counted;
            ``libraries=`` leaves them out.
Versions:   the references were written for pandas 1.5, NumPy 1.26, SciPy 1.12, scikit-learn 1.4,
            Matplotlib 3.8. ``make ds1000``, or pip with ``evaluators/code``'s
            ``requirements-ds1000.txt``, builds an environment with them; name its interpreter in
            ``DRPG_DS1000_PYTHON``.

The data is looked for in the folder given, or in ``$DRPG_DATA``, ``../shared/data`` and
``data``; each may be the data set's own folder or hold it as ``ds1000``.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.code import SCORINGS, PassAtOne, test_frame
from evaluators.code.frame import INSERT
from programs._files import Data, answers_by_id, find_folder, read_jsonl, text_lines

__all__ = [
    "BENCHMARK",
    "LIBRARIES",
    "evaluator",
    "key",
    "load",
    "program",
    "read_predictions",
    "shown_frame",
]

LIBRARIES = ("Pandas", "Numpy", "Matplotlib", "Sklearn", "Scipy", "Pytorch", "Tensorflow")
"""As the data set writes them."""

_FILES = ("ds1000.jsonl", "ds1000.jsonl.gz", "test.jsonl", "data/ds1000.jsonl.gz")
_GET_IT = (
    "Get it with: hf download xlangai/DS-1000 test.jsonl --repo-type dataset "
    "--local-dir data/ds1000, and pass data/ds1000 as --data, or set DRPG_DATA to data."
)
_TELLING = 15  # characters; shorter lines give nothing away


class FillIn(dspy.Signature):
    """Write the Python lines that solve the problem. They replace [insert] in the frame."""

    frame: str = dspy.InputField(desc="The program; your lines replace [insert] and see its names.")
    examples: str = ShotsField()
    policy: str = PolicyField()
    problem: str = dspy.InputField()
    code: str = dspy.OutputField(
        desc="Only the lines for [insert], indented as they stand there: no explanation, "
        "nothing that the frame has already. They assign the variable that is asked for."
    )


class DS1000Program(dspy.Module):
    """One call: frame and problem in, the missing lines out."""

    def __init__(self) -> None:
        super().__init__()
        self.fill_in = dspy.Predict(FillIn)

    def forward(self, frame: str, problem: str) -> dspy.Prediction:
        """Answer one problem."""
        return self.fill_in(frame=frame, problem=problem)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "test",
    libraries: Iterable[str] = (),
    limit: int | None = None,
) -> list[dspy.Example]:
    """Read the problems in their own order.

    Args:
        data: The folder with ``ds1000.jsonl``, ``ds1000.jsonl.gz`` or ``test.jsonl``, or one
            that holds it as ``ds1000``; ``None`` = look in the places named above.
        split: ``"test"``, the only one.
        libraries: Keep these only, by their names in :data:`LIBRARIES` in any case; none = all.
        limit: Keep the first so many of what remains.

    Returns:
        Examples with the inputs ``frame`` and ``problem``, the labels ``library``,
        ``code_context`` and ``reference_code``, a unique ``id`` such as ``"pandas-0012"`` (the
        library and the number within it), the number ``problem_id`` in the whole set, and the
        ``perturbation`` of the original question.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: An unknown split or library, a negative limit, or a row without a field, or
            that comes twice.
    """
    if split != "test":
        raise ValueError(f"DS-1000 has the split test; got {split!r}.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    wanted = _wanted(libraries)
    examples: dict[str, dspy.Example] = {}
    for number, row in enumerate(_rows(data), 1):
        example = _example(row, number)
        if example.id in examples:
            raise ValueError(f"Row {number} of DS-1000: {example.id} comes twice.")
        examples[example.id] = example
    return [e for e in examples.values() if e.library in wanted][:limit]


def program() -> dspy.Module:
    """Return the program: one predictor; the prompt's parts in the paper's order."""
    return DS1000Program()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> PassAtOne:
    """Return the judge; it needs no data beside the examples.

    Args:
        data: Not looked at.
        compare: ``"repaired"`` or ``"faithful"``.
        options: Passed on to :class:`evaluators.code.PassAtOne`.
    """
    return PassAtOne(compare=compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the problem alone. An embedder cuts it at its limit."""
    return str(inputs["problem"])


def shown_frame(context: str, reference: str, problem: str) -> str:
    """Return a row's frame without lines that would give its reference away.

    >>> shown_frame('exec_context = "df = test_input\\\\n[insert]\\\\n"', "df = df.T", "")
    'df = test_input\\n[insert]'
    """
    telling = {line.strip() for line in reference.splitlines() if len(line.strip()) >= _TELLING}
    lines = []
    for line in test_frame(context).split("\n"):
        text = line.strip()
        hidden = text in telling and text not in problem and not _imports(text)
        lines.append(line.replace(text, "...") if hidden and text != INSERT else line)
    return "\n".join(lines)


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted code in either of two forms.

    * JSON lines ``{"id": "pandas-0012", "prediction": …}`` in any order;
    * the official script's JSON lines ``{"id": 12, "code": …}``, where ``id`` is the number in
      the whole set (``metadata.problem_id``, where a line has it); ``code`` may be a list, of
      which the first counts.

    An example without a prediction gets an empty one, which is wrong. Answers to examples that
    were left out when loading are left out as well.

    Raises:
        ValueError: The file cannot be read, a line has neither form, or an id is unknown or
            comes twice.
    """
    rows = read_jsonl(Path(path))
    if any("prediction" in row for row in rows):
        found = answers_by_id(path, _known_ids(examples, rows))
        return [dspy.Prediction(code=str(found[example.id])) for example in examples]
    codes: dict[int, str] = {}
    for line, row in enumerate(rows, 1):
        number, code = _official(path, line, row)
        if number in codes:
            raise ValueError(f"{path}, answer {line}: the id {number} comes twice.")
        codes[number] = code
    return [dspy.Prediction(code=codes.get(example.problem_id, "")) for example in examples]


BENCHMARK = Benchmark(
    name="ds1000",
    title="DS-1000: data science problems, answered with a few lines of Python",
    paper="Lai et al., ICML 2023",
    licence="CC BY-SA 4.0",
    metric="pass@1",
    k=4,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
    note="judged by the Python in DRPG_DS1000_PYTHON; docs/cli.md (drpg score) says how to make "
    "it. Without it rows whose libraries are absent or too new are not judged.",
)
"""All of it, for ``drpg run ds1000``."""


def _wanted(libraries: Iterable[str]) -> set[str]:
    names = [libraries] if isinstance(libraries, str) else list(libraries)
    known = {name.lower(): name for name in LIBRARIES}
    if unknown := [name for name in names if str(name).lower() not in known]:
        raise ValueError(
            f"libraries names {', '.join(map(str, unknown))}; DS-1000 has {', '.join(LIBRARIES)}."
        )
    return {known[name.lower()] for name in names} or set(LIBRARIES)


def _rows(data: Data) -> list[dict[str, Any]]:
    folder = find_folder(data, "ds1000", _FILES, title="DS-1000", get_it=_GET_IT)
    path = next(folder / name for name in _FILES if (folder / name).is_file())
    if path.suffix != ".gz":
        return read_jsonl(path)
    try:
        with gzip.open(path, "rb") as raw, text_lines(path, raw) as file:
            return [json.loads(line) for line in file if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as gzipped JSON lines: {error}.") from error


def _example(row: Mapping[str, Any], number: int) -> dspy.Example:
    try:
        metadata = row["metadata"]
        library = str(metadata["library"])
        problem, context = str(row["prompt"]), str(row["code_context"])
        reference = str(row["reference_code"])
        within, whole = int(metadata["library_problem_id"]), int(metadata["problem_id"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"Row {number} of DS-1000 lacks {error}: it needs prompt, reference_code, "
            "code_context, and metadata with library, library_problem_id and problem_id."
        ) from error
    if library not in LIBRARIES:
        raise ValueError(f"Row {number} of DS-1000: {library!r} is none of {', '.join(LIBRARIES)}.")
    try:
        frame = shown_frame(context, reference, problem)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"Row {number} of DS-1000: {error}") from error
    return dspy.Example(
        id=f"{library.lower()}-{within:04d}",
        frame=frame,
        problem=problem,
        library=library,
        code_context=context,
        reference_code=reference,
        problem_id=whole,
        perturbation=str(metadata.get("perturbation_type", "")),
    ).with_inputs("frame", "problem")


def _imports(line: str) -> bool:
    return line.startswith(("import ", "from "))


def _known_ids(examples: Sequence[dspy.Example], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the examples' ids, and those of libraries that were left out."""
    left_out = set(LIBRARIES) - {example.library for example in examples}
    prefixes = tuple(f"{library.lower()}-" for library in left_out)
    others = [str(row.get("id")) for row in rows]
    return [e.id for e in examples] + [n for n in others if prefixes and n.startswith(prefixes)]


def _official(path: Data, line: int, row: Mapping[str, Any]) -> tuple[int, str]:
    metadata = row.get("metadata")
    number = metadata.get("problem_id") if isinstance(metadata, dict) else None
    number = row.get("id") if number is None else number
    code = row.get("code")
    if isinstance(code, list) and code:
        code = code[0]
    if not isinstance(number, int) or not isinstance(code, str):
        raise ValueError(
            f'{path}, answer {line}: expected {{"id": "pandas-0012", "prediction": …}} or '
            f'{{"id": 12, "code": …}}, got the fields {", ".join(row) or "none"}.'
        )
    return number, code
