"""Construction, selection and test: parts of a set of examples that have nothing in common."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.arguments import whole
from drpg_dspy.plain import digest

__all__ = ["PARTS", "Group", "check_disjoint", "item_id", "share_out"]

PARTS = ("construction", "selection", "test")
"""Corrections are written from the first, chosen on the second, measured on the third."""

_OPTIONAL = ("group", "id")

Group = Callable[[dspy.Example], Any] | str
"""What items of two parts must not have in common: a field's name, or a function."""


def share_out(
    examples: Sequence[dspy.Example],
    sizes: Mapping[str, int],
    *,
    group: Group = "group",
    seed: int = 1,
) -> dict[str, list[dspy.Example]]:
    """Share out examples among parts; no two parts share a group, or the same inputs.

    Groups are taken in the order of their hash, so that which part one falls into depends on
    its name and the seed alone. What is left of the group with which a part is filled is not
    used.

    Args:
        examples: All there are.
        sizes: Examples of each part, by its name, at least 0 each.
        group: A field's name, or a function of an example. Examples without the field are each
            their own group.
        seed: Another one gives other parts.

    Raises:
        ValueError: There are not enough examples for these sizes, or none has the field.

    >>> rows = [dspy.Example(id=str(n), user=str(n % 4), q=n).with_inputs("q") for n in range(8)]
    >>> parts = share_out(rows, {"construction": 3, "test": 2}, group="user")
    >>> {name: [(row.id, row.user) for row in part] for name, part in parts.items()}
    {'construction': [('0', '0'), ('4', '0'), ('1', '1')], 'test': [('3', '3'), ('7', '3')]}
    """
    for name, size in sizes.items():
        whole(name, size, 0)
    _check_known(examples, group)
    members: dict[str, list[dspy.Example]] = {}
    first: dict[str, str] = {}  # the group in which certain inputs stood first takes them all
    for example in examples:
        name = first.setdefault(_inputs(example), group_of(example, group))
        members.setdefault(name, []).append(example)
    order = sorted(members, key=lambda name: (_place(name, seed), name))
    parts: dict[str, list[dspy.Example]] = {name: [] for name in sizes}
    waiting = iter(order)
    for name, size in sizes.items():
        part = parts[name]
        while len(part) < size and (taken := next(waiting, None)) is not None:
            part += members[taken][: size - len(part)]
    if any(len(parts[name]) < size for name, size in sizes.items()):
        wanted = " + ".join(f"{size} {name}" for name, size in sizes.items())
        raise ValueError(
            f"{len(examples)} examples in {len(members)} groups are too few for {wanted}; "
            f"give smaller parts."
        )
    return parts


def check_disjoint(parts: Mapping[str, Sequence[dspy.Example]], group: Group) -> None:
    """Refuse parts that share a group, or items with the same inputs.

    Raises:
        ValueError: Two do; the message names both, and the groups or the items. Or no item has
            the field that ``group`` names.
    """
    _check_known([one for part in parts.values() for one in part], group)
    groups = {name: {group_of(one, group) for one in part} for name, part in parts.items()}
    names = list(groups)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            shared = sorted(groups[one] & groups[other])
            if shared:
                more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
                raise ValueError(
                    f"The {one} and {other} items overlap: {', '.join(map(repr, shared[:5]))}"
                    f"{more} (by {group if isinstance(group, str) else 'group'}). Corrections "
                    "must be chosen and measured on items that they were not written from."
                )
            there = {_inputs(example): item_id(example) for example in parts[one]}
            twins = [(there[key], item_id(example)) for example in parts[other]
                     if (key := _inputs(example)) in there]  # fmt: skip
            if twins:
                more = f" and {len(twins) - 5} more" if len(twins) > 5 else ""
                pairs = ", ".join(f"{a!r} and {b!r}" for a, b in twins[:5])
                raise ValueError(
                    f"The {one} and {other} items overlap: {pairs}{more} have the same inputs. "
                    "Give them one group, or leave some out."
                )


def _check_known(examples: Sequence[dspy.Example], group: Group) -> None:
    """Refuse a field that no item has, unless it is one that need not be there."""
    if not isinstance(group, str) or group in _OPTIONAL or not examples:
        return
    if all(example.get(group) is None for example in examples):
        fields = ", ".join(examples[0].keys())
        raise ValueError(f"No item has a field {group!r} to group by; they have: {fields}.")


def _inputs(example: dspy.Example) -> str:
    return digest(dict(example.inputs().items()))


def group_of(example: dspy.Example, group: Group) -> str:
    """Return the group of an example: its own id where it has no such field."""
    if callable(group):
        return str(group(example))
    found = example.get(group)
    return item_id(example) if found is None else str(found)


def item_id(example: dspy.Example) -> str:
    """Return an example's id; one without is named after its inputs."""
    found = example.get("id")
    return f"#{digest(dict(example.inputs().items()), length=12)}" if found is None else str(found)


def _place(group: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{group}".encode(), digest_size=8).digest()
