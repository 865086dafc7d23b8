"""RECAP's test prompts: instructions without any constraint of their own.

The benchmark adds constraints itself, so an instruction that already limits its answer would be
tested against two masters. Rows whose instruction speaks of length, form, keywords or the like
are left out, and so are those that refer to a text that is not there.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Mapping
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing
from programs._files import find_file, read_json

__all__ = ["HUB", "clean_instructions", "from_hub", "from_muldimif", "load_prompts"]

HUB = "allenai/tulu-3-sft-personas-instruction-following"
"""A name for ``hub``: Tulu 3 Persona IF, on which RECAST-30K is built."""

_FILE = "muldimif_test.json"
_GET_IT = (
    "Get Data/test.json of Junjie-Ye/MulDimIF on GitHub, put it as muldimif_test.json in "
    "data/constraints, and pass the folder as --data or set DRPG_DATA to it; or use --hub with "
    "the package datasets."
)
_RULES = re.compile(r"\s*the output must follow the following rules.*", re.I | re.S)
_OWN = re.compile(
    r"\b(?:must|should|ensure|ensuring|keywords?|at\s+least|at\s+most|more\s+than|exceed\w*|words?"
    r"|sentences?|paragraphs?|tables?|markdown|headings?|bullet\w*|lists?|json|xml|format\w*"
    r"|capital\w*|uppercase|lowercase|punctuation|commas?|limit\w*|concise\w*|brief\w*|short"
    r"|long|length|style|tone|using|single-page|compilation|step-by-step|translate|spanish"
    r"|chinese|french|german|start\s+with|end\s+with|exactly)\b",
    re.I,
)
_ABSENT = re.compile(
    r"\b(?:the\s+(?:text|passage|article|following|given|provided|above|specified)|this\s+(?:text"
    r"|code|passage)|below|attached|my\s+website)\b",
    re.I,
)
_SHORTEST, _LONGEST = 20, 300


def load_prompts(
    data: str | os.PathLike[str] | None,
    count: int,
    seed: int,
    hub: str | None = None,
) -> list[dspy.Example]:
    """Return some test prompts, the same for the same arguments.

    Args:
        data: The folder of ``muldimif_test.json``, or one that holds it as ``constraints``;
            ``None`` = the usual places.
        count: How many.
        seed: Of the choice.
        hub: A data set of the Hugging Face hub instead (:data:`HUB`, or RECAST-30K where one has
            it); needs the package ``datasets``.

    Returns:
        Examples with an ``id`` and the input ``prompt``.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: ``count`` is not positive, or larger than what there is.
    """
    known = list(from_hub(hub) if hub else from_muldimif(data))
    if not 1 <= count <= len(known):
        raise ValueError(f"There are {len(known)} prompts; got a wish for {count}.")
    return random.Random(seed).sample(known, count)


def from_muldimif(data: str | os.PathLike[str] | None) -> Iterable[dspy.Example]:
    """Yield the instructions of MulDimIF's test part whose constraints can be taken off.

    Those are the rows of the pattern *Listing*: an instruction, then its rules as a list.
    """
    path = find_file(data, "constraints", [_FILE], title="MulDimIF", get_it=_GET_IT)
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} holds no list of rows.")
    return clean_instructions(
        (str(row["id"]), _RULES.sub("", row["conversations"][-1]["content"]))
        for row in rows
        if row.get("constraint_pattern") == "Listing"
    )


def from_hub(name: str) -> Iterable[dspy.Example]:
    """Yield the instructions of a data set of the hub that are free of constraints.

    Looked at is the first field of a row that is there: ``base_instruction``, ``instruction``,
    ``prompt``, ``question``; RECAST-30K has the constraints apart, Tulu 3 Persona IF in the text.

    Raises:
        BenchmarkDataMissing: The package ``datasets`` or the data set cannot be had.
    """
    try:
        import datasets
    except ImportError as error:
        raise BenchmarkDataMissing(
            f"--hub {name} needs the package datasets: pip install datasets."
        ) from error
    try:
        rows: Any = datasets.load_dataset(name, split="train")
    except (OSError, ValueError) as error:  # no network, no such data set
        raise BenchmarkDataMissing(f"The hub's data set {name!r} cannot be had: {error}") from error
    return clean_instructions(
        (str(row.get("id", number)), _instruction(row)) for number, row in enumerate(rows)
    )


def clean_instructions(rows: Iterable[tuple[str, str]]) -> Iterable[dspy.Example]:
    """Yield the instructions without constraints of their own, each text once.

    >>> rows = [("a", "Explain what a harbour is for."), ("b", "Explain it in 20 words, please.")]
    >>> [one.id for one in clean_instructions(rows)]
    ['a']
    """
    seen: set[str] = set()
    for name, text in rows:
        bare = " ".join(text.split())
        whole = _SHORTEST <= len(bare) <= _LONGEST and bare[-1:] in ".?!"
        if whole and bare not in seen and not _OWN.search(bare) and not _ABSENT.search(bare):
            seen.add(bare)
            yield dspy.Example(id=name, prompt=bare).with_inputs("prompt")


def _instruction(row: Mapping[str, Any]) -> str:
    for field in ("base_instruction", "instruction", "prompt", "question"):
        if isinstance(row.get(field), str):
            return str(row[field])
    return ""
