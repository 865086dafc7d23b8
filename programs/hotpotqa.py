"""HotpotQA, distractor setting: questions that take two of ten given paragraphs to answer.

Paper:      Yang et al., "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question
            Answering", EMNLP 2018. As a stream: Wu et al., "StreamBench", 2024, and DRPG.
Licence:    CC BY-SA 4.0 (data).
Source:     https://hotpotqa.github.io: ``hotpot_dev_distractor_v1.json`` and
            ``hotpot_train_v1.1.json``, or ``hotpotqa/hotpot_qa`` (``distractor``) on the Hugging
            Face hub, which is asked where the package ``datasets`` is installed and no file is
            here.
Sizes:      dev 7,405 questions, train 90,447; the stream is the first 1,500 of dev.
            ``../shared/data`` holds 591 of dev: the first 500, then 91 of Reflexion's sample of
            100 (9 stand in both). Figures on it are not those of the first 1,500.
Example:    context  Meet Corliss Archer: Meet Corliss Archer, a program from radio's Golden Age, …
            question What government position was held by the woman who portrayed Corliss Archer
                     in the film Kiss and Tell?
            answer   Chief of Protocol
Metric:     exact match (:mod:`evaluators.qa`), ``compare="repaired"`` version 1 unless asked
            otherwise; ``"faithful"`` is StreamBench's released code. Beside it stand the
            official F1 and, for a program that returns ``supporting_facts`` (pairs of a title
            and the number of a sentence, from 0), the official figures of those, alone (``sp_``)
            and jointly with the answer (``joint_``). This one returns the answer
            alone: the paper's verdict is exact match, and the facts would cost more tokens than
            the answer.
Deviations: a paragraph is ``Title: text`` on one line; shots are question and answer, and only
            the question is embedded, on insertion and on look-up (the released code embeds the
            context on insertion).

The data is looked for in the folder given, or in ``$DRPG_DATA``, ``../shared/data`` and
``data``; each may be the folder of the files or hold it as ``hotpotqa``.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.qa import SCORINGS, ExactMatch
from programs._files import Data, find_folder, predictions_by_id, read_json, read_jsonl, read_text

__all__ = ["BENCHMARK", "STREAM", "evaluator", "key", "load", "program", "read_predictions"]

STREAM = 1500
"""Questions of StreamBench's and DRPG's stream: the first so many of dev, shuffled by the run."""

# Files that hold a split, the official one first; the others are read one after the other.
_SHARED = ("dev_distractor_first500.jsonl", "reflexion_distractor100.jsonl")
_DEV = ("hotpot_dev_distractor_v1.json", "hotpot_dev_distractor_v1.jsonl")
_FILES = {
    "stream": (_DEV, _SHARED),
    "dev": (_DEV, _SHARED),
    "train": (("hotpot_train_v1.1.json", "hotpot_train_v1.1.jsonl"), ()),
}
_HUB = "hotpotqa/hotpot_qa"
_HUB_SPLITS = {"stream": "validation", "dev": "validation", "train": "train"}
_URL = "http://curtis.ml.cmu.edu/datasets/hotpot"
_GET_IT = (
    "Get it with: curl --create-dirs --output-dir data/hotpotqa -O "
    f"{_URL}/{{file}}, or pip install datasets, which takes it from {_HUB} on the Hugging Face "
    "hub; pass the folder as --data, or set DRPG_DATA to it."
)


class AnswerQuestion(dspy.Signature):
    """You answer a question from paragraphs. Several of them must be combined, and most of them
    do not matter."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    context: str = dspy.InputField(desc="One paragraph a line, its title first.")
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(
        desc="The shortest text that answers: a name, a number, a date, yes or no. "
        "No sentence, no explanation."
    )


class HotpotQA(dspy.Module):
    """One call: paragraphs and question in, short answer out."""

    def __init__(self) -> None:
        super().__init__()
        self.answer_question = dspy.Predict(AnswerQuestion)

    def forward(self, context: str, question: str) -> dspy.Prediction:
        """Answer one question."""
        return self.answer_question(context=context, question=question)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "stream",
    limit: int | None = None,
) -> list[dspy.Example]:
    """Read a split in its own order; ids that a second file repeats are left out there.

    A run shuffles what it is given (:func:`drpg_dspy.streaming.stream_order`) and then takes the
    first ``--limit`` of that. The paper's stream is the first 1,500 questions of dev, shuffled:
    the split ``"stream"``. Shuffling all of ``"dev"`` and taking 1,500 is another stream.

    Args:
        data: The folder of the files, or one that holds it as ``hotpotqa``; ``None`` = look in
            the places named above, then on the Hugging Face hub.
        split: ``"stream"``, ``"dev"`` or ``"train"``.
        limit: Keep the first so many.

    Returns:
        Examples with the inputs ``context`` and ``question``, the labels ``answer`` and
        ``supporting_facts`` (pairs of title and sentence number), the ``type`` and ``level``
        that the data gives, and the question's own ``id``.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: An unknown split, a negative limit, or a row that cannot be used: one that
            lacks a field, or repeats the id of another one of its file. The message names both.
    """
    if split not in _FILES:
        raise ValueError(f"HotpotQA has the splits {', '.join(_FILES)}; got {split!r}.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    most = STREAM if split == "stream" else None
    wanted = min((n for n in (limit, most) if n is not None), default=None)
    examples: dict[str, dspy.Example] = {}
    for source, rows in _sources(data, split):
        own: set[str] = set()
        for number, row in enumerate(rows, 1):
            example = _example(row, f"{source}, row {number}")
            if example.id in own:
                raise ValueError(f"{source}, row {number}: the _id {example.id!r} comes twice.")
            own.add(example.id)
            examples.setdefault(example.id, example)
    return list(itertools.islice(examples.values(), wanted))


def program() -> dspy.Module:
    """Return the program: one predictor; the prompt's parts in the paper's order."""
    return HotpotQA()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> ExactMatch:
    """Return the judge.

    Args:
        data: Not looked at: the judge needs none.
        compare: ``"repaired"`` or ``"faithful"``.
        options: Passed on to :class:`evaluators.qa.ExactMatch`.
    """
    return ExactMatch(compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the question alone."""
    return str(inputs["question"])


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted answers in either of two forms.

    * the official one, ``{"answer": {id: text}, "sp": {id: [[title, number], …]}}``. Ids that
      are no example's are left alone, and where ``sp`` names any question, one that it leaves out
      has no fact right, as in the official script. Without ``sp`` facts are not scored;
    * JSON lines ``{"id": …, "prediction": …}`` in any order.

    An example without a prediction gets none, which is wrong.

    Raises:
        ValueError: The file cannot be read or has neither form, or none of its ids is an
            example's.
    """
    official = _official(read_text(path))
    if official is None:
        return predictions_by_id(path, examples, "answer")
    answers, facts = official["answer"], official.get("sp", {})
    for name, given in (("answer", answers), ("sp", facts)):
        if not isinstance(given, dict):
            raise ValueError(
                f'{path}: "{name}" must be an object with an entry for each id, got {given!r:.80}.'
            )
    if examples and answers and answers.keys().isdisjoint(example.id for example in examples):
        raise ValueError(
            f"{path}: none of its {len(answers)} answers is to one of the {len(examples)} "
            f"questions, whose ids are like {examples[0].id!r}. Is it for another split?"
        )
    return [
        dspy.Prediction(
            answer=answers.get(example.id),
            **({"supporting_facts": facts.get(example.id)} if facts else {}),
        )
        for example in examples
    ]


BENCHMARK = Benchmark(
    name="hotpotqa",
    title="HotpotQA: questions over two of ten paragraphs",
    paper="Yang et al., EMNLP 2018",
    licence="CC BY-SA 4.0",
    metric="exact match",
    k=4,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run hotpotqa``."""


def _sources(data: Data, split: str) -> list[tuple[str, Iterable[Any]]]:
    """Return the rows of each file of a split, or those of the hub, with their names."""
    official, parts = _FILES[split]
    try:
        folder = find_folder(
            data,
            "hotpotqa",
            (*official, *parts),
            title="HotpotQA",
            get_it=_GET_IT.format(file=official[0]),
            what=f" ({split} split)",
        )
    except BenchmarkDataMissing as missing:
        if data is not None or importlib.util.find_spec("datasets") is None:
            raise
        return [(f"{_HUB} ({_HUB_SPLITS[split]})", _from_hub(_HUB_SPLITS[split], missing))]
    whole = [folder / name for name in official if (folder / name).is_file()]
    paths = whole[:1] or [folder / name for name in parts if (folder / name).is_file()]
    return [(str(path), _rows(path)) for path in paths]


def _rows(path: Path) -> list[Any]:
    if path.suffix == ".jsonl":
        return read_jsonl(path)
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} must hold a list of questions, got {type(rows).__name__}.")
    return rows


def _from_hub(split: str, missing: BenchmarkDataMissing) -> Iterable[Any]:
    datasets = importlib.import_module("datasets")
    try:
        rows: Iterable[Any] = datasets.load_dataset(_HUB, "distractor", split=split)
    except (OSError, ValueError, RuntimeError) as error:
        raise BenchmarkDataMissing(
            f"{missing} The hub was asked for {_HUB} and gave: {error}"
        ) from error
    return rows


def _example(row: Any, where: str) -> dspy.Example:
    """Read a row of the official files or of the hub, which names and nests fields differently."""
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected an object, got {str(row)[:80]!r}.")
    name = "_id" if "_id" in row else "id"
    for field in (name, "question", "answer"):
        value = row.get(field)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{where}: {field} must be a text, got {value!r}.")
    paragraphs = _pairs(row.get("context"), "sentences", f"{where}: context")
    facts = _pairs(row.get("supporting_facts"), "sent_id", f"{where}: supporting_facts")
    return dspy.Example(
        id=row[name],
        context=_context(paragraphs, where),
        question=row["question"].strip(),
        answer=row["answer"].strip(),
        supporting_facts=[[title, number] for title, number in facts],
        type=row.get("type", ""),
        level=row.get("level", ""),
    ).with_inputs("context", "question")


def _pairs(value: Any, second: str, where: str) -> list[tuple[str, Any]]:
    """Return pairs of a title and something, from a list of pairs or from two columns."""
    if isinstance(value, Mapping):
        columns = [value.get("title"), value.get(second)]
        if all(isinstance(column, (list, tuple)) for column in columns):
            value = list(itertools.zip_longest(*columns))
    good = isinstance(value, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)
        for pair in value
    )
    if not good:
        raise ValueError(f"{where} must hold pairs of title and {second}, got {str(value)[:80]!r}.")
    return [(title, item) for title, item in value]


def _context(paragraphs: Iterable[tuple[str, Any]], where: str) -> str:
    lines = []
    for title, sentences in paragraphs:
        if not isinstance(sentences, (list, tuple)):
            raise ValueError(f"{where}: context has no list of sentences for {title!r}.")
        text = " ".join(" ".join(map(str, sentences)).split())
        lines.append(f"{title.strip()}: {text}")
    return "\n".join(lines)


def _official(text: str) -> dict[str, Any] | None:
    """Return predictions in the official form; ``None`` for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "answer" in value else None
