"""When two results agree: the three scorings, each with a name and a version.

Values compare as Python values, as StreamBench does: ``1 == 1.0``, ``1 != '1'``, floats exactly,
text by its characters, blobs by their bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.sql.rewrite import orders_rows, without_distinct
from evaluators.sql.text import extract_sql, streambench_sql

__all__ = ["SCORINGS", "Faithful", "Repaired", "Row", "Scoring", "TestSuite", "same_columns"]

Row = tuple[Any, ...]
Rows = Sequence[Row]

_SEARCH_WORK = 1_500_000  # values looked at beyond what a search without detours needs


class Scoring(ABC):
    """One contract of comparison.

    Attributes:
        name: What ``compare=`` says.
        version: Goes up when any verdict may change.
        counts_duplicates: A row given twice differs from the row given once.
        permutes_columns: The order of the columns does not matter.
        empty_is_wrong: An empty result is wrong, whatever was expected.
    """

    name: str
    version: str = "1"
    counts_duplicates: bool = False
    permutes_columns: bool = False
    empty_is_wrong: bool = False

    def statement(self, text: str) -> str:
        """Return the statement to run for an answer.

        Raises:
            NotOneStatement: The answer holds none or several.
        """
        return extract_sql(text)

    def gold(self, sql: str) -> str:
        """Return the gold query as it is run."""
        return sql

    def ordered(self, gold: str) -> bool:
        """Tell whether this gold query makes the order of rows count."""
        return False

    @abstractmethod
    def agree(self, expected: Rows, got: Rows, *, ordered: bool) -> bool:
        """Tell whether a result is right.

        Raises:
            EvaluationFailed: It would take too long to find out.
        """


class Repaired(Scoring):
    """Sets of rows, columns in order; two empty results agree.

    StreamBench's comparison without its accidents: lower-case SQL, WITH and leading comments
    are accepted, and an empty result can be right.
    """

    name = "repaired"

    def agree(self, expected: Rows, got: Rows, *, ordered: bool) -> bool:
        return set(expected) == set(got)


class Faithful(Scoring):
    """StreamBench's released code: sets of rows, an empty result on either side is wrong.

    An answer that does not begin with ``SELECT`` in capitals gets it put before it. Unlike the
    released code, a gold query that fails is *not judged*, undecodable text is no error, and
    nothing is ever written.
    """

    name = "faithful"
    empty_is_wrong = True

    def statement(self, text: str) -> str:
        return streambench_sql(text)

    def agree(self, expected: Rows, got: Rows, *, ordered: bool) -> bool:
        return bool(expected) and bool(got) and set(expected) == set(got)


class TestSuite(Scoring):
    """The official test-suite script on one database, with its default options.

    Multisets of rows under any permutation of the columns; the order of rows counts where the
    gold query has ORDER BY anywhere; DISTINCT is removed from both queries. Unlike the script,
    no other character of a query is changed (it rewrites ``value`` and ``> =``), and text that
    is not UTF-8 keeps its bytes.

    Zhong, Yu and Klein, "Semantic Evaluation for Text-to-SQL with Distilled Test Suites", 2020.
    """

    __test__ = False  # pytest: not a test class
    name = "test_suite"
    counts_duplicates = True
    permutes_columns = True

    def statement(self, text: str) -> str:
        return without_distinct(extract_sql(text))

    def gold(self, sql: str) -> str:
        return without_distinct(sql)

    def ordered(self, gold: str) -> bool:
        return orders_rows(gold)

    def agree(self, expected: Rows, got: Rows, *, ordered: bool) -> bool:
        return len(expected) == len(got) and same_columns(expected, got, ordered=ordered)


SCORINGS: dict[str, Scoring] = {s.name: s for s in (Repaired(), Faithful(), TestSuite())}
"""The scorings by name, the default first."""


def same_columns(expected: Rows, got: Rows, *, ordered: bool = False) -> bool:
    """Tell whether two tables are equal up to a permutation of columns.

    Rows are a multiset, or a sequence if ``ordered``.

    Raises:
        EvaluationFailed: So many columns look alike that the search was given up.

    >>> same_columns([(1, "a"), (2, "b")], [("b", 2), ("a", 1)])
    True
    >>> same_columns([(1, "a"), (2, "b")], [("b", 1), ("a", 2)])
    False
    """
    if len(expected) != len(got):
        return False
    if not expected:
        return True
    if len(expected[0]) != len(got[0]):
        return False
    ours, theirs = list(zip(*expected, strict=True)), list(zip(*got, strict=True))
    if ordered:
        return Counter(ours) == Counter(theirs)
    return _Matching(ours, theirs).exists()


class _Matching:
    """Search for an assignment of columns that makes the rows equal as multisets.

    Columns are assigned one after the other; after each, the rows' beginnings must agree as
    multisets, which cuts off a wrong choice at once.
    """

    def __init__(self, ours: Sequence[Row], theirs: Sequence[Row]) -> None:
        self.ours, self.theirs = ours, theirs
        bags = [Counter(column) for column in theirs]
        self.candidates: list[list[int]] = []
        for index, column in enumerate(ours):
            bag = Counter(column)
            alike = [j for j, other in enumerate(bags) if other == bag]
            # The same place first: most answers have their columns in order.
            self.candidates.append(sorted(alike, key=lambda j, i=index: (j != i, j)))  # type: ignore[misc]
        self.order = sorted(range(len(ours)), key=lambda i: len(self.candidates[i]))
        self.work = 0
        self.limit = _SEARCH_WORK + 2 * len(ours) * len(ours[0])

    def exists(self) -> bool:
        if not all(self.candidates):
            return False
        height = len(self.ours[0])
        return self._assign(0, frozenset(), [0] * height, [0] * height)

    def _assign(self, depth: int, used: frozenset[int], left: list[int], right: list[int]) -> bool:
        if depth == len(self.order):
            return True
        column = self.ours[self.order[depth]]
        for choice in self.candidates[self.order[depth]]:
            if choice in used:
                continue
            self.work += 2 * len(column)
            if self.work > self.limit:
                raise EvaluationFailed("Too many columns look alike to match them up.")
            names: dict[tuple[int, Any], int] = {}
            new_left = [names.setdefault(key, len(names)) for key in zip(left, column, strict=True)]
            new_right = [
                names.setdefault(key, len(names))
                for key in zip(right, self.theirs[choice], strict=True)
            ]
            if Counter(new_left) == Counter(new_right) and self._assign(
                depth + 1, used | {choice}, new_left, new_right
            ):
                return True
        return False
