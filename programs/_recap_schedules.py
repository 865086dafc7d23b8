"""RECAP's schedules: the three of the paper, those of a file, and a seeded generator."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from drpg_dspy.constraints import RULE_TYPES, TYPES, Operation, Schedule, known_type, read_schedule

__all__ = ["VALUES", "generate", "named_schedules", "schedule"]

VALUES: Mapping[str, tuple[str, ...]] = {
    "Length": (
        "Keep the answer under 40 words.",
        "Write between 60 and 100 words.",
        "Write exactly 2 sentences.",
    ),
    "Keyword": (
        'Mention the word "practical" at least twice.',
        'Mention the word "reliable" at least twice.',
        'Use the word "together" once or more.',
    ),
    "Format": (
        "Answer as a bulleted list.",
        "Answer in running paragraphs without any list.",
        "Answer as a numbered list of 3 items.",
    ),
    "Start_With": (
        'Start the answer with the word "Note".',
        'Start the answer with the word "First".',
        'Begin with the words "In short".',
    ),
    "End_With": (
        'End the answer with the words "that is all".',
        'End the answer with the words "more on request".',
        "End with a question mark.",
    ),
    "No_Commas": ("Do not use any commas.",),
    "All_Lower": ("Write everything in lowercase letters.",),
    "All_Upper": ("Write everything in uppercase letters.",),
    "Tone": ("Use a formal tone.", "Use a playful tone."),
    "Topic": ("Relate the answer to working in a team.", "Relate the answer to the sea."),
    "Style": ("Write it as a letter to a friend.", "Write it as a radio news report."),
    "Emotion": ("Let the answer convey confidence.", "Let the answer convey regret."),
    "Helpfulness": (
        "Name one thing that the reader can do today.",
        "Say where the reader can get help.",
    ),
    "Example": ("Give one example from everyday life.", "Give one example from history."),
    "Audience": ("Write for children of seven.", "Write for experts of the field."),
    "Role": ("Speak as a ship's captain.", "Speak as a museum guide."),
    "Language": ("Use short and common words only.", "Use British spelling."),
    "Structure": ("First the answer, then one reason.", "First one reason, then the answer."),
    "Factuality": ("Say where you are not sure.", "Say what a source for this would be."),
    "Safety": ("Name one risk.", "Advise to ask a professional."),
    "Background": (
        "Take into account that the reader is in a hurry.",
        "Take into account that the reader is a beginner.",
    ),
}
"""Texts by type, for generated schedules. A type with one text is never edited."""

_CLASHES = ({"All_Lower", "All_Upper"},)
"""Types of which no more than one is in force in a generated schedule."""


def named_schedules() -> list[str]:
    """Return the names of the schedules that come with the benchmark."""
    folder = resources.files("programs.recap_schedules")
    found = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml"))


def schedule(name: str | os.PathLike[str]) -> Schedule:
    """Return a schedule by its name, from a YAML file, or a generated one.

    Args:
        name: ``"rule-only-15"``, ``"interleaved-20"``, ``"clustered-20"``; a path to a YAML
            file; or ``"random-STEPS-SEED"``, with ``"rules-STEPS-SEED"`` for types that are
            checked by rule.

    Raises:
        ValueError: There is no such schedule, or the file holds none.
    """
    text = os.fspath(name)
    if text in named_schedules():
        with resources.as_file(
            resources.files("programs.recap_schedules") / f"{text}.yaml"
        ) as path:
            return read_schedule(path)
    kind, _, rest = text.partition("-")
    steps, _, seed = rest.partition("-")
    if kind in ("random", "rules") and steps.isdigit() and seed.isdigit():
        made = generate(int(seed), int(steps), RULE_TYPES if kind == "rules" else TYPES)
        return dataclasses.replace(made, name=f"{kind}-{int(steps)}-{int(seed)}")
    if Path(text).suffix in (".yaml", ".yml"):
        return read_schedule(text)
    raise ValueError(
        f"There is no schedule {text!r}; there are {', '.join(named_schedules())}, "
        "random-STEPS-SEED, rules-STEPS-SEED, and files that end in .yaml."
    )


def generate(seed: int, steps: int = 20, types: Sequence[str] = TYPES) -> Schedule:
    """Return a random schedule, the same for the same arguments.

    Of its operations about 11 in 20 add, 5 edit and 4 delete, as in Interleaved-20; a type that
    was deleted may come back, an edit takes another text than the one in force.

    Args:
        seed: Of the choices.
        steps: Number of operations, one a step, at least 1.
        types: Types to choose from.

    Raises:
        ValueError: No steps, no types, or an unknown type.

    >>> generate(7, 12) == generate(7, 12), len(generate(7, 12).steps)
    (True, 12)
    """
    if steps < 1 or not types:
        raise ValueError(f"A schedule needs steps and types; got {steps} steps, types {types!r}.")
    known = [known_type(one) for one in types]
    rng = random.Random(seed)
    force: dict[str, str] = {}
    made: list[tuple[Operation, ...]] = []
    for _ in range(steps):
        one = _operation(rng, known, force)
        if one.op == "delete":
            del force[one.type]
        else:
            force[one.type] = one.text
        made.append((one,))
    return Schedule(f"random-{steps}-{seed}", tuple(made))


def _operation(rng: random.Random, types: list[str], force: Mapping[str, str]) -> Operation:
    shut = {one for clash in _CLASHES if clash & force.keys() for one in clash}
    free = [one for one in types if one not in force and one not in shut]
    editable = [one for one in force if len(VALUES[one]) > 1]
    ops = {"add": 11 * bool(free), "edit": 5 * bool(editable), "delete": 4 * bool(len(force) > 1)}
    if not any(ops.values()):  # one type, with one text, in force
        return Operation("delete", next(iter(force)))
    op = rng.choices(list(ops), list(ops.values()))[0]
    if op == "delete":
        return Operation("delete", rng.choice(list(force)))
    if op == "add":
        kind = rng.choice(free)
        return Operation("add", kind, rng.choice(VALUES[kind]))
    kind = rng.choice(editable)
    others = [text for text in VALUES[kind] if text != force[kind]]
    return Operation("edit", kind, rng.choice(others))
