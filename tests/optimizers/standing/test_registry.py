from __future__ import annotations

import datetime as dt
import math

import pytest

from drpg_dspy.constraints import TYPES, Constraint
from drpg_dspy.optimizers.standing.changes import Change, author_name, expiry_time
from drpg_dspy.optimizers.standing.registry import Registry


def many() -> tuple[Constraint, ...]:
    return tuple(
        Constraint(kind, f"Keep to {kind} on {route}.", routes=(route,))
        for route in ("a", "b")
        for kind in TYPES
    )


def test_one_pass_over_all_routes_gives_what_each_route_gives_alone() -> None:
    mixed = (
        *many()[:10],
        Constraint("Safety", "Be careful."),
        Constraint("Tone", "x y", expires=5),
    )
    registry = Registry(mixed, number=1, routes=("a", "b", "c"))

    for now in (0.0, 10.0):
        together = registry.policies(("a", "b", "c"), now)
        for route in ("a", "b", "c"):
            alone = registry.policy(route, now)
            assert together.get(route) == (alone if alone.rules else None)


def test_the_text_depends_on_what_is_in_force_and_not_on_how_it_came_about() -> None:
    one, other = Registry(many()), Registry(many()[::-1])

    assert one.policy("a", 0).text == other.policy("a", 0).text
    assert one.policy("a", 0).text.count("\n") == len(TYPES) - 1


def test_a_registry_comes_back_as_it_was() -> None:
    registry = Registry(
        (Constraint("Tone", 'Say "hi" \\ {x} 規則', expires=9.5), Constraint("Length", "Kurz.")),
        overrides=(("x", "y"),),
        number=3,
        author="person:anna",
        message="edit Tone",
        routes=("a",),
    )

    assert Registry.from_text(registry.to_text()) == registry
    assert Registry.from_text(None) == Registry()


def test_a_change_takes_what_has_expired_out() -> None:
    registry = Registry((Constraint("Tone", "Be kind.", expires=5),))

    after = registry.changed(
        into=Constraint("Length", "Be short."), now=6, author="person", message="add"
    )

    assert [one.type for one in after.constraints] == ["Length"]
    assert after.number == 1


def test_a_change_comes_back_as_it_was() -> None:
    one = Constraint("Tone", "Be kind.")
    change = Change(
        3, "edit", one, Constraint("Tone", "Be firm."), "person:anna", 7.5, (), ("c-1",)
    )

    assert Change.from_plain(change.as_plain()).as_plain() == change.as_plain()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, math.inf),
        (5000, 5000.0),
        (dt.timedelta(minutes=2), 1120.0),
        ("90m", 6400.0),
        (" 2 H ", 8200.0),
        ("1w", 605800.0),
        ("2030-01-01T00:00+00:00", 1893456000.0),
        (dt.datetime(2030, 1, 1, tzinfo=dt.UTC), 1893456000.0),
    ],
)
def test_when_a_constraint_expires_can_be_said_in_several_ways(
    given: object, expected: float
) -> None:
    assert expiry_time(given, now=1000.0) == expected


@pytest.mark.parametrize("given", ["", "5", "soon", True, math.nan, [], 999, "1970-01-01"])
def test_a_time_that_is_none_or_past_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="expires"):
        expiry_time(given, now=1000.0)


@pytest.mark.parametrize("given", ["", "  ", "a\nb", "x" * 81, None, 7])
def test_an_author_is_a_short_name_in_one_line(given: object) -> None:
    with pytest.raises(ValueError, match="author"):
        author_name(given)
