"""What language-model calls cost, counted where DSPy sends them.

DSPy's own tracker sees no failed call, no latency and no price, and is copied for each worker
of ``dspy.Parallel``, so that what a worker spends is lost. The meter looks at the one place that
every ``dspy.LM`` call passes, sync or async (``dspy.clients.execution``), and does nothing there
while no meter runs. A DSPy callback would see the calls too, but makes each predictor call about
half a millisecond slower, because it is told of modules and adapters as well.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dspy.clients import execution
from dspy.utils.exceptions import LMConfigurationError, LMUnsupportedFeatureError

from drpg_dspy.carrier import carried, carry
from drpg_dspy.exceptions import BudgetSpent
from drpg_dspy.types import Usage

__all__ = ["Purse", "UsageMeter", "meter", "paid_from", "watch_calls"]

_METERS = "drpg_meters"
_WATCHER = "drpg_call_watcher"
_METERED = "_drpg_metered"
# Refused before anything is sent to a provider.
_NOT_SENT = (LMConfigurationError, LMUnsupportedFeatureError)


class UsageMeter:
    """A running total of language-model calls; safe to read and write from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._by_model: dict[str, Usage] = {}

    def add(self, model: str, usage: Usage) -> None:
        """Count the usage of one or more calls of a model."""
        with self._lock:
            self._by_model[model] = self._by_model.get(model, Usage()) + usage

    def admit(self) -> None:
        """Be asked before each call; :meth:`settle` follows, whatever becomes of the call."""

    def settle(self, model: str, usage: Usage | None) -> None:
        """Count a call that is over; ``None`` = it cost nothing."""
        if usage is not None:
            self.add(model, usage)

    def total(self) -> Usage:
        """Return the sum over all models so far."""
        return sum(self.by_model().values(), Usage())

    def by_model(self) -> dict[str, Usage]:
        """Return the sums so far by model name, in order of first use."""
        with self._lock:
            return dict(self._by_model)


class Purse(UsageMeter):
    """A meter that refuses the call which its owner can no longer pay.

    Calls that are under way count as one each, so that several threads together send no more
    than is left. What a call costs in tokens or dollars is known when it is over: the one that
    crosses such a limit is the last.

    Args:
        exceeded: Given what was spent, returns why nothing more may be, or ``""``
            (``Budget(...).exceeded``).
        spent: What earlier processes spent of it.

    Attributes:
        refused: Calls that were not sent.
        why: The reason of the first refusal; ``""`` = there was none.
    """

    def __init__(self, exceeded: Callable[[Usage, float], str], spent: Usage = Usage()) -> None:
        super().__init__()
        self.refused = 0
        self.why = ""
        self._exceeded = exceeded
        self._before = spent
        self._under_way = 0
        self._begun = time.monotonic()

    def total(self) -> Usage:
        """Return what was spent, earlier processes included."""
        return self._before + super().total()

    def admit(self) -> None:
        """Let a call pass.

        Raises:
            BudgetSpent: It cannot be paid.
        """
        with self._lock:
            committed = self.total() + Usage(calls=self._under_way)
            if reason := self._exceeded(committed, time.monotonic() - self._begun):
                self.refused += 1
                self.why = self.why or reason
                raise BudgetSpent(reason)
            self._under_way += 1

    def settle(self, model: str, usage: Usage | None) -> None:
        """Count a call that is over; ``None`` = it cost nothing."""
        with self._lock:
            super().settle(model, usage)
            self._under_way -= 1


@contextmanager
def paid_from(purse: UsageMeter) -> Iterator[None]:
    """Have a purse, or any meter, count the language-model calls inside the block.

    Like :func:`meter`, with a meter that is at hand: one purse may pay for several blocks.
    """
    _watch_execution()
    with carry(_METERS, (*(carried(_METERS) or ()), purse)):
        yield


@contextmanager
def meter() -> Iterator[UsageMeter]:
    """Count what the language-model calls inside the block cost.

    Counts calls of any ``dspy.LM``, by predictors or direct, in async tasks, DSPy's workers and
    plain threads started inside. Meters nest: what an inner one counts, the outer ones count
    too. Answers from DSPy's cache cost nothing and are not counted. A call that fails counts as
    one call; so does one that the client itself repeated (``num_retries``) until it succeeded.
    A call for n completions counts as n where the provider is asked n times.

    Yields:
        The meter; read it inside the block or after it.

    >>> import dspy
    >>> from drpg_dspy.testing.scripted import ScriptedLM, fields
    >>> with meter() as usage:
    ...     _ = dspy.Predict("question -> answer")(
    ...         question="6 x 7?", lm=ScriptedLM([fields(answer="42")])
    ...     )
    >>> usage.total().calls
    1
    """
    counter = UsageMeter()
    with paid_from(counter):
        yield counter


@contextmanager
def watch_calls(watcher: Callable[[Any], None]) -> Iterator[None]:
    """Have a function called before each language-model call inside the block.

    Args:
        watcher: Receives the ``dspy.LM``; the settings are those of the call.
    """
    _watch_execution()
    with carry(_WATCHER, watcher):
        yield


def _watch_execution() -> None:
    if not hasattr(execution.execute, _METERED):
        execution.execute = _metered(execution.execute)
    if not hasattr(execution.aexecute, _METERED):
        execution.aexecute = _metered_async(execution.aexecute)


def _metered(execute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(execute)
    def metered(lm: Any, call: Any) -> Any:
        if not _observed(lm):
            return execute(lm, call)
        with _one_call(lm) as seen:
            seen.append(execute(lm, call))
        return seen[0]

    setattr(metered, _METERED, True)
    return metered


def _metered_async(aexecute: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Any]:
    @functools.wraps(aexecute)
    async def metered(lm: Any, call: Any) -> Any:
        if not _observed(lm):
            return await aexecute(lm, call)
        with _one_call(lm) as seen:
            seen.append(await aexecute(lm, call))
        return seen[0]

    setattr(metered, _METERED, True)
    return metered


def _observed(lm: Any) -> bool:
    if watcher := carried(_WATCHER):
        watcher(lm)
    return bool(carried(_METERS))


@contextmanager
def _one_call(lm: Any) -> Iterator[list[Any]]:
    """Charge one call; inside it no meter runs, since an LM may be made of other LMs."""
    meters: tuple[UsageMeter, ...] = carried(_METERS)
    model = str(getattr(lm, "model", type(lm).__name__))
    admitted: list[UsageMeter] = []
    seen: list[Any] = []
    usage: Usage | None = None
    started = time.perf_counter()
    try:
        for counter in meters:
            counter.admit()
            admitted.append(counter)
        usage = Usage(calls=1)
        with carry(_METERS, ()):
            yield seen
    except _NOT_SENT:
        usage = None
        raise
    finally:
        seconds = time.perf_counter() - started
        if seen and seen[0].cache_hit:
            usage = None
        elif usage is not None:
            usage = _usage(seen[0], seconds) if seen else replace(usage, seconds=seconds)
        for counter in admitted:
            counter.settle(model, usage)


def _usage(result: Any, seconds: float) -> Usage:
    reported = result.usage or {}
    details = reported.get("prompt_tokens_details") or reported.get("input_tokens_details") or {}
    return Usage(
        calls=len(result.responses) or 1,
        prompt_tokens=_count(reported, "prompt_tokens", "input_tokens"),
        completion_tokens=_count(reported, "completion_tokens", "output_tokens"),
        cached_tokens=_count(details, "cached_tokens"),
        cost=float(result.cost or 0.0),
        seconds=seconds,
    )


def _count(reported: Any, *names: str) -> int:
    for name in names:
        value = reported.get(name) if isinstance(reported, Mapping) else getattr(reported, name, 0)
        if value:
            return int(value)
    return 0
