"""Schedules: what is in force when, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from drpg_dspy.constraints import Constraint, Operation, Schedule, read_schedule

ADD = Operation("add", "Length", "Under 9 words.")
EDIT = Operation("edit", "Length", "Under 5 words.")
BACK = Operation("edit", "Length", "Under 9 words.")
DELETE = Operation("delete", "Length")
COMMAS = Operation("add", "No_Commas", "No commas.")


def test_edits_replace_in_place_and_leave_shadows() -> None:
    plan = Schedule("s", ((ADD,), (COMMAS,), (EDIT,), (DELETE,)))

    assert [one.text for one in plan.active(2)] == ["Under 5 words.", "No commas."]
    assert [one.type for one in plan.active(3)] == ["No_Commas"]
    shadows = plan.shadows(3)
    assert [(s.constraint.text, s.since, s.by) for s in shadows] == [
        ("Under 9 words.", 2, "edit"),
        ("Under 5 words.", 3, "delete"),
    ]


def test_a_text_that_is_in_force_again_is_no_shadow() -> None:
    plan = Schedule("s", ((ADD,), (EDIT,), (BACK,)))

    assert [shadow.constraint.text for shadow in plan.shadows(2)] == ["Under 5 words."]


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (((ADD,), (ADD,)), "Step 1 of 's' adds Length, which is in force already"),
        (((EDIT,), (ADD,)), "Step 0 of 's' would edit Length, which is added only later"),
        (((COMMAS,), (DELETE,)), "would delete Length, which is not in force"),
        (((ADD,), (DELETE,), (EDIT,)), "would edit Length, which is not in force"),
        (((ADD,), ()), "Step 1 of 's' has no operation"),
        ((), "has no steps"),
    ],
)
def test_a_schedule_that_cannot_be_played_is_refused(
    steps: tuple[tuple[Operation, ...], ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Schedule("s", steps)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("move", "Length", "x"), "op must be one of add, edit, delete, got 'move'"),
        (("add", "Colour", "x"), "no constraint type 'Colour'"),
        (("add", "Length", " "), "needs a text"),
        (("add", "Length", "x" * 2001), "at most 2000 characters"),
        (("delete", "Length", "x"), "A deletion has no text"),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused(
    arguments: tuple[str, str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Operation(*arguments)  # type: ignore[arg-type]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return path


def test_a_file_gives_the_schedule_that_its_plain_form_gives(tmp_path: Path) -> None:
    text = """
        name: tight
        steps:
          - {op: add, type: Length, text: Under 9 words., step: 0}
          - - {op: edit, type: Length, text: Under 5 words.}
            - {op: add, type: no commas, text: No commas.}
    """
    plan = read_schedule(written(tmp_path, text))

    assert plan == Schedule("tight", ((ADD,), (EDIT, COMMAS)))
    assert Schedule.from_plain(plan.to_plain()) == plan


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "steps: [{op: add, type: Length, text: a, step: 1}]",
            "says that it is step 1: steps count",
        ),
        ("steps: [{op: add}]", r"an operation is \{op, type, text\}"),
        ("steps: [{op: add, type: Length, text: a, when: 2}]", r"an operation is"),
        ("- 1", "A schedule is a mapping"),
        ("steps: {", "cannot be read as YAML"),
    ],
)
def test_a_broken_file_is_refused_by_name_and_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"s\.yaml") as error:
        read_schedule(written(tmp_path, text))
    assert error.match(why)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_schedule(tmp_path / "none.yaml")


def test_a_constraint_says_where_and_until_when_it_holds() -> None:
    one = Constraint("Tone", "Be kind.", routes=("answer",), expires=10.0)

    assert one.holds("answer", now=9.0)
    assert not one.holds("answer", now=10.0)
    assert not one.holds("search", now=9.0)
    assert one.id == Constraint("Tone", "Be kind.", routes=("answer",)).id


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"routes": "answer"}, "routes must be names of predictors"),
        ({"step": -1}, "step must be a whole number"),
        ({"expires": float("nan")}, "expires must be seconds"),
    ],
)
def test_a_constraint_with_wrong_fields_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Constraint("Tone", "Be kind.", **fields)  # type: ignore[arg-type]
