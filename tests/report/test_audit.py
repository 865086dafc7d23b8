"""The tables of an audit, from items whose fates are given by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from drpg_dspy.analysis.audit_reading import AuditedItem, Side, scorings_of
from drpg_dspy.optimizers.corrections.decisions import Decision
from drpg_dspy.report.audit_tables import RunAudit, audit_tables
from drpg_dspy.report.tables import Table

RULES = {"answer": ("i-1",)}


def side(strict: bool | None, loose: bool | None, given: Mapping[str, tuple[str, ...]]) -> Side:
    right = {"pass": strict} if strict is None else {"pass": strict, "strict": strict}
    if loose is not None:
        right["loose"] = loose
    return Side("r", right, frozenset({"query", "answer"}), given)


def item(id: str, before: str, after: str, family: str, *, reached: bool = True) -> AuditedItem:
    """Make an item from two letters for each side: strict, loose; ``+`` right, ``-`` wrong."""
    sides = [
        side(text[0] == "+", text[1] == "+", given)
        for text, given in ((before, {}), (after, RULES if reached else {}))
    ]
    return AuditedItem(id, {"family": (family,), "level": ("hard",)}, *sides)


# Strict: 2 of 5 right before, 3 after; a and b repaired, c broken. Loose: 3, then 4; a and e
# repaired, c broken.
ITEMS = [
    item("a", "--", "++", "count"),
    item("b", "-+", "++", "count"),
    item("c", "++", "--", "words"),
    item("d", "++", "++", "words", reached=False),
    item("e", "--", "-+", "words", reached=False),
]


@pytest.fixture
def tables() -> dict[str, Table]:
    run = RunAudit(
        name="run",
        about="nlpg",
        compare="strict",
        items={"test": ITEMS},
        decisions=[Decision(1, 20, "tried", "i-1", "answer", "", "Be brief."),
                   Decision(2, 20, "given up", "i-2", "query", "", "Be long.")],
        addressed={"answer": 3, "query": 1},
    )  # fmt: skip
    return {table.name: table for table in audit_tables([run])}


def rows(table: Table, *names: str) -> list[tuple[str, ...]]:
    places = [table.columns.index(name) for name in names]
    return [tuple(row[place].text for place in places) for row in table.rows]


def test_figures_are_those_counted_by_hand_strict_and_loose(tables: dict[str, Table]) -> None:
    shown = rows(
        tables["pairs"], "scoring", "items", "before", "after", "after %", "repaired", "repair %",
        "broken", "regression %", "net", "p", "change",
    )  # fmt: skip

    assert shown == [
        ("strict", "5", "2", "3", "60.0", "2", "66.7", "1", "50.0", "+1", "1.0000", "+20.0"),
        ("loose", "5", "3", "4", "80.0", "2", "100.0", "1", "33.3", "+1", "1.0000", "+20.0"),
    ]


def test_categories_that_tell_nothing_apart_are_left_out(tables: dict[str, Table]) -> None:
    shown = rows(tables["categories"], "sorted by", "value", "scoring", "items", "before", "after")

    assert shown == [
        ("family", "count", "strict", "2", "0", "2"),
        ("family", "count", "loose", "2", "1", "2"),
        ("family", "words", "strict", "3", "2", "1"),
        ("family", "words", "loose", "3", "2", "2"),
    ]


def test_a_route_is_measured_on_the_items_whose_policy_there_changed(
    tables: dict[str, Table],
) -> None:
    assert rows(tables["routes"], "route", "scoring", "items", "repaired", "broken") == [
        ("answer", "strict", "3", "2", "1"),
        ("answer", "loose", "3", "1", "1"),
    ]
    assert rows(
        tables["addressed"], "route", "failures addressed to it", "tried", "given up", "accepted"
    ) == [("answer", "3", "1", "0", "0"), ("query", "1", "0", "1", "0")]


def test_every_flip_stands_in_a_table_of_its_own(tables: dict[str, Table]) -> None:
    assert rows(tables["flips"], "scoring", "flip", "item", "instructions after") == [
        ("strict", "repaired", "a", "answer: i-1"),
        ("strict", "repaired", "b", "answer: i-1"),
        ("strict", "broken", "c", "answer: i-1"),
        ("loose", "repaired", "a", "answer: i-1"),
        ("loose", "repaired", "e", "–"),
        ("loose", "broken", "c", "answer: i-1"),
    ]


def test_a_program_that_raised_is_wrong_by_every_scoring_and_no_verdict_is_none() -> None:
    raised, silent = Side("r", {"pass": False}), Side("r", {"pass": None})

    assert [raised.verdict(name) for name in ("strict", "loose")] == [False, False]
    assert silent.verdict("loose") is None
    assert scorings_of(ITEMS, "loose") == ["loose", "strict"]
    assert scorings_of([AuditedItem("x", {}, raised, silent)], None) == ["pass"]


def test_an_item_of_several_categories_counts_in_each() -> None:
    both = AuditedItem("a", {"family": ("count", "words")}, ITEMS[0].before, ITEMS[0].after)
    run = RunAudit("run", "nlpg", "strict", {"test": [both]})
    found = {table.name: table for table in audit_tables([run])}

    assert rows(found["categories"], "value", "scoring", "items") == [
        ("count", "strict", "1"), ("count", "loose", "1"),
        ("words", "strict", "1"), ("words", "loose", "1"),
    ]  # fmt: skip
