from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from drpg_dspy.optimizers.corrections.guiding import for_good, guide, named
from drpg_dspy.optimizers.corrections.instructions import (
    EVERY_ROUTE,
    Instruction,
    PolicyMemory,
    Selection,
)
from drpg_dspy.types import Rollout

Draw = Callable[[Instruction], bool | None]
NUMBERS = "one two three four five six seven eight nine ten".split()


def write(text: str, route: str = "a", category: str = "", **more: object) -> Instruction:
    return Instruction.write(route, category, text, **{"status": "accepted", **more})


def memory(*instructions: Instruction, most: int = 4, max_chars: int = 1_000) -> PolicyMemory:
    made = PolicyMemory(most, max_chars)
    for one in instructions:
        made.put(one)
    return made


def select(policies: PolicyMemory, draw: Draw, route: str = "a", category: str = "") -> Selection:
    pool = policies.pool(route, category)
    return policies.select(pool, [draw(one) for one in pool])


def nothing(pool: Sequence[Instruction]) -> tuple[None, ...]:
    return (None,) * len(pool)


def shown(policies: PolicyMemory, route: str = "a", category: str = "") -> list[str]:
    return [one.text for one in select(policies, lambda one: None, route, category).shown]


def test_a_route_gets_its_own_and_those_for_every_route() -> None:
    policies = memory(
        write("mine alone"), write("his alone", route="b"), write("for all", route=EVERY_ROUTE)
    )

    assert set(shown(policies)) == {"mine alone", "for all"}
    assert shown(policies, "c") == ["for all"]


def test_a_category_gets_its_own_and_the_general_ones_and_an_unseen_one_the_general_ones() -> None:
    policies = memory(write("general"), write("of x", category="x"), write("of y", category="y"))

    assert set(shown(policies, category="x")) == {"general", "of x"}
    assert shown(policies, category="never seen") == ["general"]
    guidance = guide(policies, ["a"], "never seen", nothing)
    assert guidance.counts["category_unseen"] == 1
    assert "category_unseen" not in guide(policies, ["a"], "x", nothing).counts


def test_a_category_gets_what_holds_for_its_family_after_its_own() -> None:
    policies = memory(
        write("for all"), write("of counts", category="count"),
        write("of numbers", category="count:numbers"), write("of words", category="words"),
    )  # fmt: skip

    pool = [one.text for one in policies.pool("a", "count:numbers")]
    assert pool == ["of numbers", "of counts", "for all"]
    assert [one.text for one in policies.pool("a", "count:other")] == ["of counts", "for all"]
    assert "category_unseen" not in guide(policies, ["a"], "count:other", nothing).counts
    assert guide(policies, ["a"], "format:list", nothing).counts["category_unseen"] == 1


def test_a_policy_is_of_the_narrowest_category_of_its_instructions() -> None:
    policies = memory(write("for all"), write("of counts", category="count"))

    def category(of: str) -> str:
        return guide(policies, ["a"], of, nothing).policies["a"].category

    assert (category("count:numbers"), category("count"), category("words")) == ("count",) * 2 + (
        "",
    )


def test_the_best_come_first_and_no_more_than_fit() -> None:
    ranked = [
        write(f"{word} apples", tally=(10 - i, i, 5, 5), born=i) for i, word in enumerate(NUMBERS)
    ]
    policies = memory(*reversed(ranked), most=3)

    assert shown(policies) == [one.text for one in ranked[:3]]


def test_a_policy_is_never_longer_than_it_may_be() -> None:
    long = [write(f"{word} " * 30, tally=(9 - i, i, 5, 5)) for i, word in enumerate(NUMBERS)]
    policies = memory(*long, most=10, max_chars=400)

    guidance = guide(policies, ["a"], "", nothing)

    assert 0 < len(guidance.policies["a"].text) <= 400


def test_one_that_does_not_fit_leaves_room_for_a_shorter_one() -> None:
    policies = memory(write("x" * 200, tally=(9, 0, 0, 9)), write("short one"), max_chars=100)

    assert shown(policies) == ["short one"]


def test_what_says_the_same_is_shown_once_the_better_one() -> None:
    policies = memory(
        write("Divide the amount by 100."),
        write("Always divide amount by 100", category="x", tally=(5, 0, 0, 5)),
    )

    assert shown(policies, category="x") == ["Always divide amount by 100"]


def test_one_on_trial_is_added_for_its_half_and_leaves_no_trace_in_the_other() -> None:
    old = [
        write(f"old number {word}", tally=(9 - i, i, 5, 5)) for i, word in enumerate(NUMBERS[:3])
    ]
    new = write("the new one", status="trial", born=7)
    without = memory(*old, most=3)
    policies = memory(*old, new, most=3)

    given = select(policies, lambda one: True if one.status == "trial" else None)
    withheld = select(policies, lambda one: False if one.status == "trial" else None)

    assert [one.text for one in given.shown] == [old[0].text, old[1].text, "the new one"]
    assert [one.text for one in withheld.shown] == shown(without)
    assert (given.given, given.withheld) == ((new,), ())
    assert (withheld.given, withheld.withheld) == ((), (new,))


def test_one_that_is_to_replace_another_stands_in_its_place_or_not_at_all() -> None:
    old = write("Use LEFT JOIN.")
    new = write("Never use LEFT JOIN.", status="trial", replaces=old.id)
    policies = memory(old, new)

    given = select(policies, lambda one: True)
    withheld = select(policies, lambda one: one.status == "accepted")

    assert [one.text for one in given.shown] == ["Never use LEFT JOIN."]
    assert [one.text for one in withheld.shown] == ["Use LEFT JOIN."]
    assert old not in (*given.given, *withheld.given)  # its own calls are not counted meanwhile


def test_of_two_trials_with_room_for_one_only_one_is_drawn() -> None:
    first, second = write("of x", category="x", status="trial"), write("general", status="trial")
    policies = memory(first, second, most=1)

    given, withheld = (
        select(policies, lambda one, up=up: up, category="x") for up in (True, False)
    )

    assert [one.id for one in given.given] == [one.id for one in withheld.withheld]
    assert len(given.given) == 1


def test_one_that_waits_is_given_to_nobody() -> None:
    assert shown(memory(write("waits", status="waiting"))) == []


def test_a_withheld_one_makes_room_for_the_next() -> None:
    policies = memory(
        write("first", tally=(9, 0, 0, 9)), write("second", tally=(5, 0, 0, 5)), most=1
    )

    chosen = select(policies, lambda one: one.text != "first")

    assert [one.text for one in chosen.shown] == ["second"]
    assert [one.text for one in chosen.withheld] == ["first"]
    assert chosen.given == ()  # it stands there by chance of another, not by its own


def test_a_rollout_says_what_it_was_given_with_the_failures_behind() -> None:
    one, two = write("first", sources=("r1", "r2")), write("second", status="trial")
    draw = {one.id: None, two.id: False}
    guidance = guide(memory(one, two), ["a", "b"], "", lambda pool: tuple(draw[o.id] for o in pool))
    rollout = Rollout("r", 1, {}, {}, guidance=guidance)

    assert set(named(rollout)) == {("standing", one.id), ("withheld", two.id)}
    assert guidance.retrieved[f"standing {one.id}"] == ("r1", "r2")
    assert guidance.policies["a"].rules[0].id == one.id
    assert guidance.policies["a"].author == "nlpg"


def test_what_is_kept_for_good_says_its_category_and_is_bounded() -> None:
    policies = memory(
        write("of towns", category="town"),
        write("for all", tally=(1, 0, 0, 0)),
        write("it did harm", tally=(0, 5, 5, 0)),
        write("on trial", status="trial"),
        write("x" * 90),
        max_chars=80,
    )

    kept = for_good(policies, ["a", "b"])

    assert {route: policy.text for route, policy in kept.policies.items()} == {
        "a": "- for all\n- For inputs of the kind 'town': of towns"
    }


def test_evidence_is_bounded_and_all_of_it_is_counted() -> None:
    one = write("x y z")
    for n in range(30):
        one = one.supported([f"for {n}"]).doubted([f"against {n}"])

    assert one.cases == one.failures == 30
    assert (one.sources[0], one.against[-1]) == ("for 0", "against 29")
    assert len(one.sources) == len(one.against) == 8


def test_instructions_survive_being_written_down() -> None:
    policies = memory(
        write("x", tally=(1, 2, 3, 4), sources=("r",), helped=0.25),
        write("y", status="trial", outcomes="Rw", judged=("r1", "r2"), replaces="i-1"),
    )
    twin = PolicyMemory(4, 1_000)

    twin.load_plain(json.loads(json.dumps(policies.as_plain())))

    assert tuple(twin) == tuple(policies)


def test_a_snapshot_does_not_change() -> None:
    policies = memory(write("x"))
    before = policies.snapshot()
    policies.put(write("y"))
    policies.remove(next(iter(before)).id)

    assert [one.text for one in before] == ["x"]
    assert [one.text for one in policies] == ["y"]


@pytest.mark.parametrize("extra", [0, 3])
def test_there_is_a_limit_to_how_many_there_are(extra: int) -> None:
    policies = memory(
        *(write(f"x{n}", category=f"c{n}", born=n) for n in range(500 + extra))
    )  # fmt: skip

    assert [one.born for one in policies.crowded_out()] == list(range(extra))


def test_a_trial_for_more_inputs_is_not_drawn_where_the_same_stands() -> None:
    narrow = write("Divide by 100.", category="count:numbers")
    wide = write("Divide by 100.", category="count", status="trial")
    policies = memory(narrow, wide)

    assert policies.pool("a", "count:numbers") == (narrow,)
    assert policies.pool("a", "count:words") == (wide,)
