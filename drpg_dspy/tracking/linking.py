"""From a trace to the policy versions that it was made under, and back, in MLflow's own terms.

The tags of :mod:`drpg_dspy.tracking.traces` name our version numbers. A *linked prompt* is a link
in the UI: from the trace to the version's page, and from there to all traces of the version.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from drpg_dspy.tracking.traces import current_trace_id
from drpg_dspy.types import Rollout

__all__ = ["TraceLinks"]

_log = logging.getLogger(__name__)

_SETTLED = 2.0
"""Seconds after which an answer's trace is looked for: MLflow stores it once its call is over."""

_MOST = 10_000
_TRIES = 5
_LAST_SECONDS = 20.0


@dataclass(slots=True)
class _Waiting:
    versions: set[tuple[str, int]] = field(default_factory=set)  # places, our numbers
    since: float = 0.0
    tries: int = 0


class TraceLinks:
    """The traces of this process that are not linked yet.

    A version is registered after the call that brought it, and a trace is stored after its call:
    so links are made behind both, by the thread that registers.

    Attributes:
        made: Traces that were linked.
        lost: Traces that were not: more than 10,000 waited, MLflow never stored the trace or
            refused, or the run ended before. They have their tags all the same.
    """

    def __init__(self) -> None:
        self.made = 0
        self.lost = 0
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._lock = threading.Lock()
        self._said = False

    def note(self, rollout: Rollout) -> None:
        """Remember the trace that is open on this thread, for the policies of a rollout."""
        given = rollout.guidance.policies.values()
        versions = {(policy.place, policy.version) for policy in given if policy.rules}
        trace_id = current_trace_id()
        if not versions or not trace_id:
            return
        with self._lock:
            waiting = self._waiting.setdefault(trace_id, _Waiting())
            waiting.versions |= versions
            waiting.since = time.monotonic()
            while len(self._waiting) > _MOST:
                self._waiting.popitem(last=False)
                self.lost += 1

    def send(
        self, client: Any, find: Callable[[str, int], tuple[str, int] | None], *, last: bool = False
    ) -> None:
        """Link the traces whose versions are registered; those that MLflow lacks wait.

        A failure is counted and never raised: the records of a run do not wait for links.

        Args:
            client: An ``mlflow.MlflowClient``.
            find: Gives a prompt's name and MLflow's number for a place and our number, or
                ``None`` when that version is not registered.
            last: No more will be sent: let MLflow store what it holds, and wait for nothing.
        """
        from mlflow.exceptions import MlflowException

        end = time.monotonic() + _LAST_SECONDS
        if last and self._waiting:
            _store_traces(_LAST_SECONDS / 2)
        for trace_id, waiting in self._due(last):
            found = [find(place, number) for place, number in sorted(waiting.versions)]
            if not last and None in found:
                continue
            try:
                linked = time.monotonic() < end and _link(client, trace_id, found)
            except MlflowException as error:
                if self._again(waiting, error, last):
                    continue
                linked = False
            self.made += linked
            self.lost += not linked
            with self._lock:
                self._waiting.pop(trace_id, None)

    def _due(self, last: bool) -> list[tuple[str, _Waiting]]:
        now = time.monotonic()
        with self._lock:
            return [
                (trace_id, waiting)
                for trace_id, waiting in self._waiting.items()
                if last or now - waiting.since >= _SETTLED
            ]

    def _again(self, waiting: _Waiting, error: Any, last: bool) -> bool:
        """Tell whether a trace that could not be linked is tried once more."""
        waiting.tries += 1
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            waiting.since = time.monotonic() + 2.0**waiting.tries
            return not last and waiting.tries < _TRIES
        if not self._said:
            self._said = True
            _log.warning("A trace could not be linked to its policy version: %s", error)
        return False


def _link(client: Any, trace_id: str, found: Iterable[tuple[str, int] | None]) -> bool:
    from mlflow.entities.model_registry import PromptVersion

    prompts = [PromptVersion(name, number, "") for name, number in filter(None, found)]
    if prompts:
        client.link_prompt_versions_to_trace(prompts, trace_id)
    return bool(prompts)


def _store_traces(seconds: float) -> None:
    """Let MLflow store the traces that it still holds, and wait for it for so long at most."""
    import mlflow

    flushing = threading.Thread(target=mlflow.flush_trace_async_logging, daemon=True)
    flushing.start()
    flushing.join(seconds)
