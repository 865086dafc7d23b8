from __future__ import annotations

import json

import pytest

from drpg_dspy.optimizers.corrections.clusters import Correction, Gradient
from drpg_dspy.optimizers.corrections.instructions import Instruction, PolicyMemory
from drpg_dspy.optimizers.corrections.trials import Gate
from drpg_dspy.optimizers.corrections.updates import PolicyUpdates

TEXT = "Divide the amount by 100."


GATE = Gate()


def updates(gate: Gate | None = GATE, max_changes: int = 3) -> PolicyUpdates:
    return PolicyUpdates(PolicyMemory(4, 1_000), gate, max_changes)


def correction(text: str = TEXT, cases: int = 2, given: tuple[str, ...] = (), start: int = 0):
    gradients = tuple(
        Gradient(f"case {start + n}", "a", "", text, given) for n in range(cases)
    )  # fmt: skip
    return Correction("a", "", text, gradients)


def only(policies: PolicyUpdates) -> Instruction:
    (one,) = policies.instructions
    return one


def judge(policies: PolicyUpdates, id: str, letters: str, start: int = 0) -> None:
    """Deliver verdicts on calls that the instruction was drawn for, deciding after each."""
    verdicts = {}
    for n, letter in enumerate(letters, start):
        verdicts[f"r{n}"] = letter in "Rr"
        policies.note(id, letter.isupper(), f"r{n}", letter in "Rr", revised=False)
        policies.decide([id], lambda rollout: verdicts.get(rollout, True))


def outcomes(policies: PolicyUpdates) -> list[str]:
    return [decision.outcome for decision in policies.log.last]


def test_a_correction_that_recurs_is_tried_and_one_that_does_not_waits() -> None:
    policies = updates()

    rare = policies.admit([correction(), correction("Name the year.", 1)], {})

    assert [c.text for c in rare] == ["Name the year."]
    assert (only(policies).text, only(policies).status) == (TEXT, "trial")
    assert only(policies).sources == ("case 0", "case 1")


def test_a_correction_for_a_category_supports_the_same_one_of_its_family() -> None:
    policies = updates()
    family = Correction("a", "count", TEXT, correction().gradients)
    kind = Correction("a", "count:numbers", TEXT, correction(start=7).gradients)

    policies.admit([family], {})
    policies.admit([kind], {})

    assert (only(policies).category, only(policies).cases) == ("count", 4)


def test_a_window_changes_no_more_than_it_may() -> None:
    policies = updates(max_changes=2)
    words = ("year", "town", "river", "king")

    policies.admit([correction(f"Name the {word}.") for word in words], {})

    assert len(policies.instructions) == 2
    assert policies.counters["corrections_over_limit"] == 2


def test_one_trial_at_a_time_for_a_route_and_category_and_the_next_moves_up() -> None:
    policies = updates()
    policies.admit([correction("Name the year."), correction("Name the town.")], {})
    assert [one.status for one in policies.instructions] == ["trial", "waiting"]

    judge(policies, next(iter(policies.instructions)).id, "wW" * 3 + "Wr" * 40)

    assert [(one.text, one.status) for one in policies.instructions] == [
        ("Name the town.", "trial")
    ]


def test_what_helps_is_accepted_with_its_figures() -> None:
    policies = updates()
    policies.admit([correction()], {})

    judge(policies, only(policies).id, "Rw" * 10)

    one, last = only(policies), policies.log.last[-1]
    assert one.status == "accepted"
    assert one.helped > 0.4
    assert last.outcome == "accepted"
    assert last.evidence >= 10
    assert last.counts["given_right"] == last.counts["withheld_wrong"] >= 4
    assert "given_wrong" not in last.counts


def test_what_harms_and_what_shows_nothing_is_given_up_and_not_tried_again_at_once() -> None:
    for letters in ("Wr" * 10, "RrWw" * 10):
        policies = updates(Gate(calls=40))
        policies.admit([correction()], {})

        judge(policies, only(policies).id, letters)
        policies.admit([correction(start=10)], {})

        assert len(policies.instructions) == 0
        assert outcomes(policies) == ["tried", "given up", "unchanged"]
        assert policies.counters["corrections_known"] == 1


def test_a_verdict_that_was_taken_back_or_changed_counts_as_it_stands() -> None:
    policies = updates()
    policies.admit([correction()], {})
    id = only(policies).id
    for n in range(12):
        policies.note(id, n % 2 == 0, f"r{n}", n % 2 == 0, revised=False)
    assert Gate().finding(only(policies).outcomes) == "helps"

    policies.note(id, True, "r0", False, revised=True)
    assert only(policies).outcomes.startswith("Ww")
    policies.decide([id], lambda rollout: None if rollout in ("r2", "r4", "r6", "r8") else False)

    assert only(policies).status == "trial"
    assert only(policies).outcomes == "WwwwwwWw"


def test_an_accepted_instruction_that_stops_helping_is_retired() -> None:
    policies = updates()
    policies.admit([correction()], {})
    id = only(policies).id
    judge(policies, id, "Rw" * 10)
    helping = "RRRRw" * 30

    judge(policies, id, helping, start=100)
    assert only(policies).status == "accepted"
    judge(policies, id, "WWWWr" * 30, start=1_000)

    assert len(policies.instructions) == 0
    assert outcomes(policies)[-1] == "retired"
    assert policies.log.last[-1].counts["withheld_right"] > 0


def test_failures_despite_an_instruction_speak_against_it_and_others_for_it() -> None:
    policies = updates()
    policies.admit([correction()], {})
    id = only(policies).id

    policies.admit([correction(start=5)], {})
    policies.admit([correction(given=(id,), start=8)], {})

    assert only(policies).cases == 4
    assert only(policies).against == ("case 8", "case 9")
    assert policies.counters["corrections_repeated"] == 2


def test_a_correction_that_contradicts_what_stands_takes_its_place_when_it_helps() -> None:
    policies = updates()
    policies.admit([correction("Give dates as DD/MM/YYYY.")], {})
    old = only(policies).id
    judge(policies, old, "Rw" * 10)

    policies.admit([correction("Do not give dates as DD/MM/YYYY.", start=50)], {})
    new = next(one for one in policies.instructions if one.id != old)
    assert (new.status, new.replaces) == ("trial", old)
    judge(policies, new.id, "Rw" * 10, start=100)

    assert only(policies).id == new.id
    assert outcomes(policies)[-2:] == ["superseded", "accepted"]


def test_the_same_words_in_another_order_are_a_revision_once_they_failed() -> None:
    policies = updates()
    policies.admit([correction("Dates are DD/MM.")], {})
    old = only(policies).id
    judge(policies, old, "Rw" * 10)

    policies.admit([correction("Dates are MM/DD.", given=(old,), start=50)], {})

    assert [one.replaces for one in policies.instructions] == ["", old]


def test_without_a_gate_what_comes_is_adopted() -> None:
    policies = updates(gate=None)

    policies.admit([correction(cases=1)], {})

    assert only(policies).status == "accepted"
    assert outcomes(policies) == ["adopted"]


def test_a_window_that_gave_nothing_is_a_decision_with_its_counts() -> None:
    policies = updates()

    policies.admit([], {"verdicts": 20, "gradients": 0})

    assert outcomes(policies) == ["unchanged"]
    assert policies.log.last[-1].counts == {"verdicts": 20}


def test_a_trial_can_be_settled_on_the_same_items() -> None:
    policies = updates()
    policies.admit([correction()], {})

    policies.settle(only(policies).id, 6, 1, (20, 30), 0.0625, accept=True)

    assert only(policies).tally == (20, 10, 15, 15)
    assert policies.log.last[-1].counts["fixed"] == 6
    assert policies.log.last[-1].evidence == 0.0625


def test_everything_survives_being_written_down() -> None:
    policies = updates()
    policies.admit([correction(), correction("Name the year.")], {"verdicts": 3})
    judge(policies, next(iter(policies.instructions)).id, "Wr" * 20)
    twin = updates()

    twin.load_plain(json.loads(json.dumps(policies.as_plain())))

    assert twin.as_plain() == policies.as_plain()
    for one in (policies, twin):
        judge(one, only(one).id, "Rw" * 10, start=500)
    assert twin.as_plain() == policies.as_plain()


def placed(category: str, text: str = TEXT, start: int = 0) -> Correction:
    return Correction("a", category, text, correction(start=start).gradients)


def test_a_correction_for_more_than_where_it_stands_is_tried_and_takes_its_place() -> None:
    policies = updates()
    policies.admit([placed("count:numbers")], {})
    judge(policies, only(policies).id, "RwRwRwRwRwRwRwRw")
    policies.admit([placed("count", start=7)], {})
    narrow, wide = policies.instructions

    assert (narrow.category, narrow.status, narrow.cases) == ("count:numbers", "accepted", 2)
    assert (wide.category, wide.status) == ("count", "trial")
    judge(policies, wide.id, "RwRwRwRwRwRwRwRw", start=50)
    assert (only(policies).category, only(policies).status) == ("count", "accepted")
    assert outcomes(policies)[-2:] == ["superseded", "accepted"]


def test_without_a_gate_a_wider_correction_takes_the_place_of_narrower_ones() -> None:
    policies = updates(gate=None)
    for place in ("x", "y"):
        policies.admit([placed(place)], {})
    policies.admit([placed("")], {})

    assert only(policies).category == ""


def test_what_was_given_up_in_one_category_is_tried_in_another() -> None:
    policies = updates()
    policies.admit([placed("names")], {})
    judge(policies, only(policies).id, "WrWrWrWrWrWrWrWrWrWr")
    policies.admit([placed("names", start=4)], {})
    policies.admit([placed("dates", start=8)], {})

    assert outcomes(policies)[:2] == ["tried", "given up"]
    assert policies.counters["corrections_known"] == 1
    assert (only(policies).category, only(policies).status) == ("dates", "trial")


def test_what_was_given_up_before_categories_were_kept_is_known_still() -> None:
    policies = updates()
    policies.load_plain({**policies.as_plain(), "dropped": [["a", TEXT]]})
    policies.admit([placed("")], {})

    assert policies.counters["corrections_known"] == 1


@pytest.mark.parametrize("now", [None, "reversed"])
def test_what_was_accepted_on_verdicts_that_stand_no_more_is_withdrawn(now: str | None) -> None:
    policies = updates()
    policies.admit([correction()], {})
    letters = "RwRwRwRwRwRwRwRw"
    judge(policies, only(policies).id, letters)
    accepted = only(policies)
    grounds = len(accepted.grounds)

    policies.review(lambda rollout: letters[int(rollout[1:])] == "R")
    assert only(policies) == accepted
    policies.review(lambda rollout: None if now is None else letters[int(rollout[1:])] != "R")

    assert accepted.status == "accepted"
    assert accepted.marks == letters[:grounds]
    assert not list(policies.instructions)
    assert outcomes(policies)[-1] == "withdrawn"
    policies.admit([correction(start=30)], {})  # nothing speaks against trying it again
    assert only(policies).status == "trial"
