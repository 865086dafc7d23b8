from __future__ import annotations

import re

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpg_dspy.injection.fields import completed, shots_text

SIGNATURE = dspy.Signature("question, context -> answer")
NAMES = ("question", "context", "answer")


def read_back(text: str) -> list[dict[str, str]]:
    """Read a text of shots by the rules that shots_text documents."""
    shots: list[dict[str, str]] = [{}]
    lines = text.split("\n")
    while lines:
        line = lines.pop(0)
        if not line:
            shots.append({})
            continue
        name, _, rest = line.partition(":")
        assert name in NAMES
        if rest.startswith(" "):
            shots[-1][name] = rest[1:]
            continue
        value = []
        if re.fullmatch(r'"{3,}', lines[0]):
            fence = lines.pop(0)
            while lines[0] != fence:
                value.append(lines.pop(0))
            lines.pop(0)
        else:
            while lines and lines[0] and not re.match(rf"(?:{'|'.join(NAMES)}):", lines[0]):
                value.append(lines.pop(0))
        shots[-1][name] = "\n".join(value)
    return shots


LINE = st.sampled_from(
    ["a", "answer: b", "question:", "", '"""', '""""', "  x", "\t", "context", "é", "\u2028", "\r"]
) | st.text(max_size=6)
VALUE = st.lists(LINE, max_size=4).map("\n".join)
SHOT = st.fixed_dictionaries({"answer": VALUE}, optional={"question": VALUE, "context": VALUE})


@given(st.lists(SHOT, min_size=1, max_size=4))
def test_shots_shown_as_one_text_can_be_told_apart_whatever_they_contain(shots) -> None:
    assert read_back(shots_text(shots, SIGNATURE, "r")) == shots


def test_simple_shots_cost_no_more_than_their_labels() -> None:
    shots = [{"question": "q1", "answer": "a1"}, {"question": "q2", "answer": "a2"}]
    text = shots_text(shots, SIGNATURE, "r")
    assert text == "question: q1\nanswer: a1\n\nquestion: q2\nanswer: a2"


def test_values_that_are_no_texts_are_shown_as_json() -> None:
    text = shots_text([{"question": ["a", "é"], "answer": 3}], SIGNATURE, "r")
    assert text == 'question: ["a", "é"]\nanswer: 3'


def test_fields_that_the_signature_does_not_have_are_left_out() -> None:
    assert shots_text([{"schema": "t(a)", "answer": "a"}], SIGNATURE, "r") == "answer: a"


@pytest.mark.parametrize("show", [completed, shots_text])
def test_a_shot_without_an_answer_is_refused(show) -> None:
    with pytest.raises(ValueError, match=r"route 'hop'.*\['question'\].*output.*\(answer\)"):
        show([{"question": "q", "answer": None}, {"question": "q"}][1:], SIGNATURE, "hop")


def test_missing_inputs_of_a_demo_are_filled_and_missing_outputs_are_not() -> None:
    signature = dspy.Signature("question, context -> reasoning, answer")
    (demo,) = completed([{"question": "q", "answer": "a"}], signature, "r")
    assert demo == {"question": "q", "context": "(omitted)", "answer": "a"}
