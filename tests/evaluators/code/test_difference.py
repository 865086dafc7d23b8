from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluators.code.difference import difference

NAN = float("nan")


@pytest.mark.parametrize(
    ("result", "expected", "words"),
    [
        (1, 2, "Expected 2, got 1."),
        (1.0, 1.0 + 1e-9, ""),
        (NAN, NAN, ""),
        ("1", 1, "Expected int 1, got str '1'."),
        (None, [1], "Expected list of length 1, got NoneType None."),
        ([1], [1, 2], "Expected list of length 2, got list of length 1."),
        ([[1], [2, 3]], [[1], [2, 4]], "At [1][1]: expected 4, got 3."),
        ({"a": 1}, {"b": 1}, "At keys: expected ['b'], got ['a']."),
        ({"a": [1]}, {"a": [2]}, "At ['a'][0]: expected 2, got 1."),
        (np.zeros((2, 3)), np.zeros((3, 2)), "At shape: expected (3, 2), got (2, 3)."),
        (np.array([1, 2]), np.array([1, 3]), "At element 1: expected 3, got 2."),
        (np.array([1, 2]), np.array([1.0, 2.0]), "At dtype: expected float64, got int64."),
        (np.array([1, 2]), np.array([1, 2]), ""),
        ([1], np.array([2]), "Expected ndarray of shape (1,), got list of length 1."),
        ("x" * 500, "y", None),
    ],
)
def test_the_first_difference_is_named(result: Any, expected: Any, words: str | None) -> None:
    found = difference(result, expected)
    assert len(found) < 300
    assert words is None or found == words


def test_frames_differ_in_columns_rows_values_index_and_type() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    other = frame.copy()
    assert difference(frame, other) == ""
    assert difference(frame.rename(columns={"a": "c"}), frame) == (
        "At columns: expected ['a', 'b'], got ['c', 'b']."
    )
    assert difference(frame[:1], frame) == "Expected 2 rows, got 1 rows."
    other.loc[1, "a"] = 5
    assert difference(other, frame) == "At 'a' row 1: expected 2, got 5."
    assert difference(frame.set_index(pd.Index([5, 6])), frame) == (
        "At index: expected [0, 1], got [5, 6]."
    )
    assert difference(frame.astype({"a": float}), frame).startswith("At 'a' dtype: expected int64")
    assert difference(frame["a"], frame).startswith(
        "Expected DataFrame of shape (2, 2), got Series"
    )
    assert difference(frame["a"].rename("z"), frame["a"]) == "At name: expected 'a', got 'z'."


def test_a_value_that_cannot_be_compared_or_shown_gives_no_words_and_no_error() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            raise RuntimeError

    assert difference(Odd(), Odd()) == ""
