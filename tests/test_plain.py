from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
from typing import Any

import dspy
import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpg_dspy.exceptions import StorageError
from drpg_dspy.plain import digest, dumps, loads, sendable, to_plain


class Colour(enum.Enum):
    RED = "red"


class Item(pydantic.BaseModel):
    name: str
    when: dt.date


@dataclasses.dataclass
class Point:
    x: int
    y: float


VALUES = [
    None,
    True,
    7,
    1.5,
    "text",
    "\ud800 lone surrogate",
    b"\x00\xff",
    {"a", "b"},
    frozenset({1, 2}),
    dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    dt.date(2026, 1, 2),
    dt.time(3, 4),
    {"$set": [1]},
    {"$float": "nan", "other": 1},
    [1, [2, {"k": (3, 4)}]],
    "x" * 2_000_000,
]


def shown(value: object) -> str:
    """Name a value alike in every process: the order of a set of texts is not."""
    return "set of texts" if isinstance(value, set) else repr(value)[:30]


@pytest.mark.parametrize("value", VALUES, ids=shown)
def test_written_read_and_written_again_is_the_same_text(value: Any) -> None:
    text = dumps(value)

    assert dumps(loads(text)) == text
    assert text.isascii()


@pytest.mark.parametrize("value", [v for v in VALUES if not isinstance(v, list)], ids=shown)
def test_marked_kinds_come_back_as_they_were(value: Any) -> None:
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_floats_that_json_lacks_come_back(value: float) -> None:
    back = loads(dumps([value]))[0]

    assert math.isnan(back) if math.isnan(value) else back == value


def test_objects_take_their_documented_plain_form() -> None:
    assert to_plain(Colour.RED) == "red"
    assert to_plain(Point(1, 2.0)) == {"x": 1, "y": 2.0}
    assert to_plain(Item(name="a", when=dt.date(2026, 1, 2))) == {"name": "a", "when": "2026-01-02"}
    assert to_plain(dspy.Prediction(answer="x")) == {"answer": "x"}
    assert to_plain(dspy.Example(q="x").with_inputs("q")) == {"q": "x"}
    assert to_plain(np.array([1.5, 2.0])) == [1.5, 2.0]
    history = dspy.History(messages=[{"question": "q", "answer": "a"}])
    assert to_plain(history)["messages"] == [{"question": "q", "answer": "a"}]


@pytest.mark.parametrize("value", [object(), len, open, (x for x in ())])
def test_what_cannot_be_kept_is_named(value: Any) -> None:
    with pytest.raises(StorageError, match=r"inputs\['f'\]"):
        to_plain({"f": value}, where="inputs")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(StorageError, match="contains itself"):
        to_plain(loop)


def test_keys_that_would_collide_are_refused() -> None:
    with pytest.raises(StorageError, match="two keys"):
        to_plain({1: "a", "1": "b"})
    with pytest.raises(StorageError, match="has the key"):
        to_plain({(1, 2): "a"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(json_values)
def test_any_nested_value_survives(value: Any) -> None:
    text = dumps(value)

    assert dumps(loads(text)) == text


def test_digests_depend_on_every_part() -> None:
    assert digest("a", "b") != digest("ab")
    assert digest({"x": 1, "y": 2}) == digest({"y": 2, "x": 1})


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert sendable("a\ud800b") == "a\ufffdb"
    assert sendable("\ud83d\ude00") == "😀"
    assert sendable("ok é") == "ok é"
    assert sendable(3) == 3


def test_texts_inside_lists_and_dicts_are_sendable_as_well() -> None:
    image = dspy.Image("https://example.org/a.png")

    assert sendable({"cases": ["a\ud800", ("b", "\udfffc")]}) == {
        "cases": ["a\ufffd", ("b", "\ufffdc")]
    }
    assert sendable(image) is image
