"""What a memory gives back in plain form is shown as the program's own types."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Any, Literal

import dspy
import pydantic
import pytest
from dspy.experimental import Document

from drpg_dspy.injection import as_type, attach, holds_media, named_media, use_policy
from drpg_dspy.plain import from_plain, to_plain
from drpg_dspy.types import ShotsField


class Colour(enum.Enum):
    RED = "red"


class Thought(pydantic.BaseModel):
    why: str
    answer: int
    colour: Colour = Colour.RED
    on: dt.date = dt.date(2026, 1, 2)

    @pydantic.field_validator("why")
    @classmethod
    def _odd(cls, value: str) -> str:
        if value == "odd":
            raise KeyError(value)
        return value


THOUGHT = Thought(why="because", answer=1)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (THOUGHT, Thought),
        ([THOUGHT], list[Thought]),
        ({"a": THOUGHT}, dict[str, Thought]),
        (THOUGHT, Thought | None),
        (None, Thought | None),
        (Colour.RED, Colour),
        ((1, "a"), tuple[int, str]),
        (dspy.History(messages=[{"q": "a"}]), dspy.History),
        (dspy.Image("data:image/png;base64,aGVsbG8="), dspy.Image),
        ([dspy.Image("https://example.org/a.png")], list[dspy.Image]),
        (dspy.File(b"hello"), dspy.File),
        (dspy.Audio(data="aGVsbG8=", audio_format="wav"), dspy.Audio),
        ("x", str),
        (["x"], list[str]),
        ("a", Literal["a", "b"]),
        ({"x": [1]}, dict[str, Any]),
    ],
)
def test_a_value_comes_back_as_the_type_that_was_declared(value: Any, annotation: Any) -> None:
    back = as_type(from_plain(to_plain(value)), annotation)

    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("some text", Thought),
        ({"why": "because"}, Thought),
        ({"why": "odd", "answer": 1}, Thought),
        ("blue", Colour),
        ([1], dict),
        ("x", Any),
        ("x", type("Unknown", (), {})),
    ],
)
def test_what_does_not_fit_stays_as_it_is(value: Any, annotation: Any) -> None:
    assert as_type(value, annotation) == value


def test_what_dspy_marks_in_another_way_stays_text() -> None:
    document = Document(data="text", title="title")

    assert as_type(from_plain(to_plain(document)), Document) == to_plain(document)


def test_media_in_a_text_are_named() -> None:
    text = f"photo: {dspy.Image('data:image/png;base64,aGVsbG8=')!s}, file: {dspy.File(b'x')!s}."

    assert named_media(text) == "photo: [image_url], file: [file]."


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (dspy.Image, True),
        (list[dspy.Image], True),
        (dspy.File | None, True),
        (str, False),
        (list[str], False),
        (dspy.History, False),
        (Any, False),
    ],
)
def test_fields_of_media_are_known_by_their_type(annotation: Any, expected: bool) -> None:
    assert holds_media(annotation) is expected


class Think(dspy.Signature):
    question: str = dspy.InputField()
    thought: Thought = dspy.OutputField()


class ThinkWithShots(dspy.Signature):
    shots: str = ShotsField()
    question: str = dspy.InputField()
    thought: Thought = dspy.OutputField()


@pytest.mark.parametrize("signature", [Think, ThinkWithShots])
def test_an_example_keeps_the_order_in_which_a_model_declares_its_members(
    make_lm: Any, signature: type[dspy.Signature]
) -> None:
    """A memory sorts them; "answer" before "why" would teach the model not to think first."""
    lm = make_lm(thought={"why": "so", "answer": 2})
    program = dspy.Predict(signature)
    attach(program)
    shot = {"question": "q", "thought": {"answer": 1, "on": "2026-01-02", "why": "because"}}
    with dspy.context(lm=lm), use_policy({}, {"self": [shot]}):
        program(question="r")

    shown = '{"why": "because", "answer": 1, "colour": "red", "on": "2026-01-02"}'
    assert shown in lm.texts()[0]
