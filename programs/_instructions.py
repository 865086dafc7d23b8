"""What IFBench and IFEval share: the layout of their rows, and files of responses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from evaluators.instructions import check_instructions
from programs._files import read_jsonl

__all__ = ["examples_of", "paired_responses"]

Pairs = list[tuple[dspy.Example, dspy.Prediction]]

_FORMS = '{"prompt": …, "response": …} or {"key": …, "prediction": …}'


def examples_of(path: Path, limit: int | None = None) -> list[dspy.Example]:
    """Read rows ``{"key", "prompt", "instruction_id_list", "kwargs"}``.

    Args:
        path: A file of JSON lines.
        limit: Keep the first so many.

    Returns:
        Examples with the one input ``prompt``, an ``id`` (the key), the labels
        ``instruction_id_list`` and ``kwargs`` (arguments that are null left out), and what
        corrections may be sorted by: ``category`` and ``family``, those of the first
        instruction, and ``categories`` and ``families``, those of all.

    Raises:
        ValueError: A negative limit, or a row that cannot be used: a field is missing, a key or
            a prompt comes twice, an instruction is unknown, or its arguments do not fit. The
            message names the row and what is wrong with it.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    found: dict[str, dspy.Example] = {}
    prompts: set[str] = set()
    for number, row in enumerate(read_jsonl(path), 1):
        example = _example(row, f"{path}, row {number}")
        if example.id in found:
            raise ValueError(f"{path}, row {number}: the key {example.id!r} comes twice.")
        if example.prompt in prompts:
            raise ValueError(f"{path}, row {number}: its prompt is that of an earlier row.")
        found[example.id] = example
        prompts.add(example.prompt)
    return list(found.values())[:limit]


def paired_responses(path: str | os.PathLike[str], examples: Sequence[dspy.Example]) -> Pairs:
    """Read responses in the order of the file, each with the example that it answers.

    A line is ``{"prompt": …, "response": …}`` or names its example by ``"key"`` or ``"id"``; its
    response may stand under ``"prediction"`` too. Further fields are left alone. A response that
    is null is an empty one. What the file leaves out is not scored.

    Raises:
        ValueError: The file cannot be read or is empty, a line has not this form, or no example
            has its prompt or key.
    """
    by_prompt = {example.prompt: example for example in examples}
    trimmed = {prompt.strip(): example for prompt, example in by_prompt.items()}
    by_key = {example.id: example for example in examples}
    pairs: Pairs = []
    for number, row in enumerate(read_jsonl(Path(path)), 1):
        where = f"{path}, prediction {number}"
        field = next((name for name in ("prompt", "key", "id") if name in row), None)
        said = next((name for name in ("response", "prediction") if name in row), None)
        if field is None or said is None:
            raise ValueError(f"{where}: expected {_FORMS}, got the fields {', '.join(row)}.")
        response = "" if row[said] is None else row[said]
        if not isinstance(response, str):
            raise ValueError(f"{where}: {said} must be a text, got {response!r}.")
        name = str(row[field])
        if field == "prompt":
            example = by_prompt.get(name) or trimmed.get(name.strip())
        else:
            example = by_key.get(name)
        if example is None:
            raise ValueError(f"{where}: no example has the {field} {name[:80]!r}.")
        pairs.append((example, dspy.Prediction(response=response)))
    if not pairs:
        raise ValueError(f"{path} holds no prediction; each line is {_FORMS}.")
    return pairs


def _example(row: Mapping[str, Any], where: str) -> dspy.Example:
    for field in ("key", "prompt", "instruction_id_list", "kwargs"):
        if row.get(field) is None:
            raise ValueError(f"{where}: it has no {field}.")
    key, prompt, ids = row["key"], row["prompt"], row["instruction_id_list"]
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"{where}: prompt must be a text, got {prompt!r}.")
    if not isinstance(ids, list) or not ids:
        raise ValueError(f"{where}: instruction_id_list must be a list with ids, got {ids!r}.")
    try:
        checks = check_instructions(ids, row["kwargs"], prompt)
    except ValueError as error:
        raise ValueError(f"{where} (key {key}): {error}") from error
    families = list(dict.fromkeys(known.family for known, _ in checks))
    return dspy.Example(
        id=str(key),
        prompt=prompt,
        instruction_id_list=list(ids),
        kwargs=[
            {name: value for name, value in (given or {}).items() if value is not None}
            for given in row["kwargs"]
        ],
        category=ids[0],
        family=families[0],
        categories=list(dict.fromkeys(ids)),
        families=families,
    ).with_inputs("prompt")
