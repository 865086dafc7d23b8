"""Who consumed whose output: the module graph of a rollout, read off its trace.

Nobody declares the graph. An output that turns up in a later call's inputs went there; one that
turns up in the program's answer went there. Where the program's own code stands between two
calls (a retriever turns a query into passages), no value turns up; then the next call with
inputs of unknown origin is taken for the consumer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drpg_dspy.injection import named_media
from drpg_dspy.types import REVISION, Call, Rollout

__all__ = ["ModuleGraph", "own_calls", "show_calls"]

_MAX_CALLS = 64
"""Calls of a rollout that are looked at: of each route the first and the last ones."""

_SHOWN_CALLS = 24
_SHOWN_CHARS = 12_000
_LONGEST, _SHORTEST = 1_500, 60
_CONTAINED = 12
"""Characters from which a text inside a longer one is no coincidence."""


@dataclass(frozen=True, slots=True)
class ModuleGraph:
    """The calls of a rollout and what flowed between them.

    Attributes:
        calls: The calls that are looked at, in the order in which they ended; of a long trace
            not all, but some of every route.
        consumers: For each, the places of the calls that used its output.
        answering: Places of the calls whose output is part of the answer.
        steps: The numbers of these calls in the whole trace, from 1.
        trace: The routes of all calls, in order.
    """

    calls: tuple[Call, ...]
    consumers: tuple[tuple[int, ...], ...]
    answering: frozenset[int]
    steps: tuple[int, ...] = ()
    trace: tuple[str, ...] = ()

    @classmethod
    def of(cls, rollout: Rollout) -> ModuleGraph:
        """Read the graph off a rollout's trace.

        >>> calls = (
        ...     Call("query", {"question": "Who?"}, {"terms": "wrote Dune"}),
        ...     Call("reply", {"question": "Who?", "terms": "wrote Dune"}, {"answer": "Herbert"}),
        ... )
        >>> graph = ModuleGraph.of(
        ...     Rollout("r", 1, {"question": "Who?"}, {"answer": "Herbert"}, trace=calls)
        ... )
        >>> graph.consumers, graph.routes(), graph.feeders("reply")
        (((1,), ()), ['reply', 'query'], ['query'])
        """
        whole = own_calls(rollout)
        places = _sample(whole, range(len(whole)), _MAX_CALLS)
        calls = tuple(whole[place] for place in places)
        given = [_Value(name, value) for name, value in rollout.inputs.items()]
        received = [[_Value(n, v) for n, v in call.inputs.items()] for call in calls]
        made = [[_Value(n, v) for n, v in (call.outputs or {}).items()] for call in calls]
        consumers = _consumers(given, received, made)
        answer = [_Value(name, value) for name, value in (rollout.outputs or {}).items()]
        answering = {i for i, values in enumerate(made) if _flows(values, answer)}
        if calls and not answering:  # the program's own code made the answer out of the last one
            answering = {len(calls) - 1}
        steps, trace = tuple(place + 1 for place in places), tuple(call.route for call in whole)
        return cls(calls, consumers, frozenset(answering), steps, trace)

    def routes(self) -> list[str]:
        """Return the routes from the answer back to the first module.

        Nearest to the answer first; of equally near ones the one that was called last.
        """
        depth: dict[int, int] = {}
        reached, distance = sorted(self.answering), 0
        while reached:
            for place in reached:
                depth.setdefault(place, distance)
            distance += 1
            reached = [i for i, users in enumerate(self.consumers) if i not in depth
                       and any(user in depth for user in users)]  # fmt: skip
        # A call that nothing was seen to use comes last.
        order = sorted(range(len(self.calls)), key=lambda i: (depth.get(i, len(self.calls)), -i))
        return list(dict.fromkeys(self.calls[i].route for i in order))

    def feeders(self, route: str) -> list[str]:
        """Return the other routes whose output a route used, the one called last first."""
        found = [
            call.route
            for call, users in zip(self.calls, self.consumers, strict=True)
            if call.route != route and any(self.calls[user].route == route for user in users)
        ]
        return list(dict.fromkeys(reversed(found)))

    @property
    def left_out(self) -> int:
        """How many calls of a long trace are not looked at."""
        return len(self.trace) - len(self.calls)

    def route_at(self, step: int) -> str:
        """Return the route of a step as :func:`show_calls` numbers it, from 1; ``""`` = none."""
        return self.trace[step - 1] if 1 <= step <= len(self.trace) else ""


def own_calls(rollout: Rollout) -> tuple[Call, ...]:
    """Return the predictor calls of a rollout, without the entry for a revised answer."""
    return tuple(call for call in rollout.trace if call.route not in ("", REVISION))


def show_calls(graph: ModuleGraph, route: str = "") -> str:
    """Return calls as text: numbered steps with what each received and gave, and who used it.

    Args:
        graph: The rollout's.
        route: Only the calls of this one; ``""`` = all.

    Returns:
        At most some 12,000 characters: of many calls the first and the last few of each route,
        long values cut, both visibly.
    """
    places = [i for i, call in enumerate(graph.calls) if route in ("", call.route)]
    shown = _sample(graph.calls, places, _SHOWN_CALLS)
    fields = sum(
        len(graph.calls[i].inputs) + len(graph.calls[i].outputs or {"error": ""}) for i in shown
    )
    limit = max(_SHORTEST, min(_LONGEST, _SHOWN_CHARS // max(1, fields) - 40))
    blocks = [_show_call(graph, i, limit) for i in shown]
    hidden = sum(route in ("", each) for each in graph.trace) - len(shown)
    if hidden:
        blocks.insert(len(blocks) // 2, f"[{hidden} more steps of the same kind are not shown]")
    return "\n\n".join(blocks) or "(no step)"


def _show_call(graph: ModuleGraph, place: int, limit: int) -> str:
    call = graph.calls[place]
    lines = [f"[step {graph.steps[place]}] module: {call.route}"]
    lines += [f"received {name}: {_cut(value, limit)}" for name, value in call.inputs.items()]
    if call.outputs is None:
        lines.append(f"failed: {_cut(call.error, limit)}")
    else:
        lines += [f"gave {name}: {_cut(value, limit)}" for name, value in call.outputs.items()]
    users = [f"step {graph.steps[user]}" for user in graph.consumers[place]]
    users += ["the answer"] * (place in graph.answering)
    lines.append(f"used by: {', '.join(users) or 'nothing that is known'}")
    return "\n".join(lines)


def _sample(calls: Sequence[Call], places: Sequence[int], most: int) -> list[int]:
    """Return about ``most`` places at most: the first and the last ones of each route.

    Where the routes that were called seldom leave room, the others get it.
    """
    if len(places) <= most:
        return list(places)
    by_route: dict[str, list[int]] = {}
    for place in places:
        by_route.setdefault(calls[place].route, []).append(place)
    kept: list[int] = []
    waiting = sorted(by_route.values(), key=len)
    for number, own in enumerate(waiting):
        each = max(2, (most - len(kept)) // (len(waiting) - number))
        kept += own if len(own) <= each else own[: each // 2] + own[-(each - each // 2) :]
    return sorted(kept)


def _cut(value: Any, limit: int) -> str:
    text = named_media(value if isinstance(value, str) else _as_text(value))
    return text if len(text) <= limit else f"{text[:limit]} […{len(text) - limit} more characters]"


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class _Value:
    """A field's value, ready to be looked for in others."""

    __slots__ = ("name", "parts", "text")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.text = (value if isinstance(value, str) else _as_text(value)).strip()
        items = value if isinstance(value, (list, tuple)) else ()
        self.parts = frozenset(item.strip() for item in items if isinstance(item, str))

    def went_into(self, other: _Value) -> bool:
        """Tell whether this output is what, or part of what, an input holds."""
        if not self.text:
            return False
        if self.text == other.text:
            # "yes" equals "yes" anywhere; a short value must have kept its name as well.
            return self.name == other.name or len(self.text) >= _CONTAINED // 2
        if self.text in other.parts:
            return True
        if len(self.text) < _CONTAINED:
            return self.name == other.name and self.text in other.text
        return self.text in other.text


def _flows(made: Iterable[_Value], received: Sequence[_Value]) -> bool:
    return any(value.went_into(other) for value in made for other in received)


def _consumers(
    given: Sequence[_Value], received: Sequence[Sequence[_Value]], made: Sequence[Sequence[_Value]]
) -> tuple[tuple[int, ...], ...]:
    known = {value.text for value in given}
    n = len(received)
    users = [
        [j for j in range(i + 1, n) if _flows([v for v in made[i] if v.text not in known],
                                              received[j])]
        for i in range(n)
    ]  # fmt: skip
    fed: Mapping[int, set[str]] = _explained(given, received, made)
    for i in range(n - 1):
        if not users[i] and made[i]:
            unexplained = (
                j for j in range(i + 1, n) if any(v.text not in fed[j] for v in received[j])
            )
            users[i] = [j for j in [next(unexplained, None)] if j is not None]
    return tuple(map(tuple, users))


def _explained(
    given: Sequence[_Value], received: Sequence[Sequence[_Value]], made: Sequence[Sequence[_Value]]
) -> dict[int, set[str]]:
    """Return, for each call, the inputs that came from the program's inputs or an output."""
    found = {}
    for j, values in enumerate(received):
        sources = [*given, *(value for earlier in made[:j] for value in earlier)]
        found[j] = {v.text for v in values if any(s.went_into(v) for s in sources) or not v.text}
    return found
