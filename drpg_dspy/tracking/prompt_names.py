"""What the prompts of a learner are called in MLflow's registry."""

from __future__ import annotations

import re
from collections.abc import Iterable

from drpg_dspy.plain import digest

__all__ = ["distinct_name", "prompt_names", "slug"]

_MAX_NAME = 200


def slug(text: str) -> str:
    """Return ``text`` in the letters that MLflow allows in a prompt's name.

    >>> slug("subs[0].answer"), slug("sql assistant / v2")
    ('subs.0.answer', 'sql-assistant-v2')
    """
    text = re.sub(r"\[(\d+)\]", r".\1", text)
    text = re.sub(r"\[(['\"])(.*?)\1\]", r".\2", text)
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "x"


def prompt_names(name: str, routes: Iterable[str]) -> dict[str, str]:
    """Return the prompt's name for each route: ``NAME.ROUTE.policy``, slugged.

    Routes that would share a name get a digest of the route in it, all of them, so that the
    names do not depend on the order of the routes.

    >>> prompt_names("first", ["predict", "a b", "a/b"])["predict"]
    'first.predict.policy'
    >>> len(set(prompt_names("first", ["predict", "a b", "a/b"]).values()))
    3
    """
    routes = list(dict.fromkeys(routes))
    plain = {route: _name(name, slug(route)) for route in routes}
    # Two names that differ only in case are one file on some stores.
    taken = [full.lower() for full in plain.values()]
    return {
        route: full if taken.count(full.lower()) == 1 else distinct_name(name, route)
        for route, full in plain.items()
    }


def distinct_name(name: str, route: str) -> str:
    """Return a prompt name that no other learner and route has."""
    return _name(name, f"{slug(route)}-{digest(name, route, length=8)}")


def _name(name: str, route: str) -> str:
    full = f"{slug(name)}.{route}.policy"
    if len(full) <= _MAX_NAME:
        return full
    return f"{full[: _MAX_NAME - 20]}-{digest(full, length=10)}.policy"
