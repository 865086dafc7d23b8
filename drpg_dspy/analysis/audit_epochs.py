"""What the epochs of a learner came to, as its memory keeps it for the audit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drpg_dspy.analysis.audit import Answered, Paired, compare_answers
from drpg_dspy.memory.base import Memory

__all__ = [
    "EPOCHS_KEY",
    "ROUTED_AS",
    "Answers",
    "Epoch",
    "Tried",
    "kinds_of",
    "read_epochs",
    "write_epochs",
]

EPOCHS_KEY = "nlpg:epochs"
"""Setting of a memory under which its epochs stand (a JSON array), the one under way last."""

ROUTED_AS = "routed as"
"""Kind of an item: the category under which its policies were looked up."""

_KINDS = {"category": "categories", "family": "families", "level": "levels"}
"""What items are sorted by, and the name that the field has where it is a list."""

Answers = Mapping[str, Answered]
"""An item's answer, by the item's id."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One correction on the selection items.

    Attributes:
        id, route, category, text: The instruction.
        accepted: It stays.
        before, after: The selection items without it and with it.
    """

    id: str
    route: str
    category: str
    text: str
    accepted: bool
    before: Answers = field(repr=False)
    after: Answers = field(repr=False)

    @property
    def paired(self) -> Paired:
        """Without it, then with it."""
        return compare_answers(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Epoch:
    """What an epoch came to.

    Attributes:
        construction: How many construction items were right, and how many were judged; ``None``
            while they are not all answered.
        tried: Every correction that was put up, in order.
        before: The items of ``"selection"`` and ``"test"`` under the policies from before the
            epoch.
        after: The same under those that it left; empty while the epoch is under way.
        kinds: By item: what it may be sorted by, as ``{"category": ("comparison",)}``. An item
            may be of several kinds.
    """

    construction: tuple[int, int] | None = None
    tried: tuple[Tried, ...] = ()
    before: Mapping[str, Answers] = field(default_factory=dict, repr=False)
    after: Mapping[str, Answers] = field(default_factory=dict, repr=False)
    kinds: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict, repr=False)

    @property
    def finished(self) -> bool:
        """Whether it was brought to its end."""
        return bool(self.after)

    @property
    def accepted(self) -> tuple[Tried, ...]:
        """Corrections that stay."""
        return tuple(tried for tried in self.tried if tried.accepted)

    @property
    def selection(self) -> Paired:
        """The selection items before the epoch and after it."""
        return self.paired("selection")

    @property
    def test(self) -> Paired | None:
        """The same of the test items; ``None`` without any."""
        return self.paired("test") if self.before.get("test") else None

    def paired(self, part: str) -> Paired:
        """Return the items of a part before the epoch and after it."""
        return compare_answers(self.before.get(part, {}), self.after.get(part, {}))

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "construction": None if self.construction is None else list(self.construction),
            "tried": [
                {**_fields(one), "before": _plain(one.before), "after": _plain(one.after)}
                for one in self.tried
            ],
            "before": {part: _plain(answers) for part, answers in self.before.items()},
            "after": {part: _plain(answers) for part, answers in self.after.items()},
            "kinds": {
                item: {name: list(values) for name, values in kinds.items()}
                for item, kinds in self.kinds.items()
            },
        }

    @classmethod
    def from_plain(cls, row: Mapping[str, Any]) -> Epoch:
        """Undo :meth:`as_plain`."""
        built = row["construction"]
        return cls(
            construction=None if built is None else (int(built[0]), int(built[1])),
            tried=tuple(
                Tried(**{**one, "before": _answers(one["before"]), "after": _answers(one["after"])})
                for one in row["tried"]
            ),
            before={part: _answers(answers) for part, answers in row["before"].items()},
            after={part: _answers(answers) for part, answers in row["after"].items()},
            kinds={
                item: {name: tuple(values) for name, values in kinds.items()}
                for item, kinds in row["kinds"].items()
            },
        )


def read_epochs(memory: Memory) -> list[Epoch]:
    """Return the epochs of a memory, the one under way last; none where none was begun."""
    return [Epoch.from_plain(row) for row in json.loads(memory.get_meta(EPOCHS_KEY) or "[]")]


def write_epochs(memory: Memory, epochs: Sequence[Epoch]) -> None:
    """Keep the epochs of a memory."""
    rows = [epoch.as_plain() for epoch in epochs]
    memory.set_meta(EPOCHS_KEY, json.dumps(rows, ensure_ascii=False))


def kinds_of(example: Any) -> dict[str, tuple[str, ...]]:
    """Return what an example may be sorted by: its category, family and level, where it has them.

    >>> import dspy
    >>> kinds_of(dspy.Example(category="count:numbers", families=["count", "format"]))
    {'category': ('count:numbers',), 'family': ('count', 'format')}
    """
    found = {}
    for name, several in _KINDS.items():
        value = example.get(several) or example.get(name)
        values = value if isinstance(value, (list, tuple)) else [value]
        if value not in (None, ""):
            found[name] = tuple(dict.fromkeys(map(str, values)))
    return found


def _fields(tried: Tried) -> dict[str, Any]:
    names = (f.name for f in dataclasses.fields(tried) if f.name not in ("before", "after"))
    return {name: getattr(tried, name) for name in names}


def _plain(answers: Answers) -> dict[str, list[Any]]:
    return {item: [one.rollout, one.right] for item, one in answers.items()}


def _answers(plain: Mapping[str, Sequence[Any]]) -> dict[str, Answered]:
    return {item: Answered(rollout, right) for item, (rollout, right) in plain.items()}
