"""One HTML page that shows any step of a run.

For a step: the input, the examples retrieved (R_t), the correct and wrong cases behind the
policy (R'_t), the policy (P_t) with its difference to the one before, the answer, the verdict
with its feedback, and what it cost. The page is one file without outside resources: it opens
from disk and inside MLflow's artifact viewer.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from drpg_dspy.memory.base import Memory
from drpg_dspy.plain import to_plain
from drpg_dspy.tracking.base import StepRecord
from drpg_dspy.tracking.records import replay
from drpg_dspy.types import Call, Usage

__all__ = ["MAX_BYTES", "render"]

MAX_BYTES = 14_000_000
"""Size of the page, at most. Long values are cut, visibly, until it fits."""

_LONGEST = 20_000
_SHORTEST = 120
_FOLDER = resources.files(__package__)


def render(
    records: Iterable[StepRecord] | Memory,
    title: str,
    *,
    threshold: float | None = None,
    max_bytes: int = MAX_BYTES,
) -> str:
    """Return the page.

    Args:
        records: A run's records in order of ``seq``, or the memory that holds the run.
        title: Heading of the page.
        threshold: Score from which a step counts as correct, in (0, 1]; ``None`` = the
            memory's, or 1 for records. Lower ones are what *wrong only* shows.
        max_bytes: Limit on the page's size.

    Returns:
        HTML, to be written as UTF-8, with all content of the run escaped as data.

    Raises:
        ValueError: Even with every value cut to a line the run does not fit ``max_bytes``.
    """
    if threshold is None:
        threshold = records.threshold if isinstance(records, Memory) else 1.0
    latest: dict[str, StepRecord] = {}
    for record in replay(records) if isinstance(records, Memory) else records:
        before = latest.get(record.rollout.id)
        if before is None or record.seq >= before.seq:
            latest[record.rollout.id] = record
    steps = sorted(latest.values(), key=lambda r: (r.rollout.step, r.seq))
    head, middle, tail = _template()
    head += html.escape(title).encode("ascii", "xmlcharrefreplace").decode("ascii")
    room = max_bytes - len((head + middle + tail).encode())
    limit = _LONGEST
    while True:
        data = _page_data(steps, title, threshold, limit)
        if len(data) <= room:
            break
        if limit == _SHORTEST:
            raise ValueError(
                f"{len(steps):,} steps do not fit a page of {max_bytes:,} bytes; pass fewer "
                "records or a higher max_bytes."
            )
        limit = max(_SHORTEST, limit // 2)
    return head + middle + data + tail


def _template() -> tuple[str, str, str]:
    """Return the page's parts: title and data go between them."""
    page = (_FOLDER / "inspector.html").read_text(encoding="utf-8")
    page = page.replace("/*STYLE*/", (_FOLDER / "inspector.css").read_text(encoding="utf-8"))
    page = page.replace("/*CODE*/", (_FOLDER / "inspector.js").read_text(encoding="utf-8"))
    head, rest = page.split("<!--TITLE-->")
    middle, tail = rest.split("/*DATA*/")
    return head, middle, tail


class _Texts:
    """Every distinct text once: retrieved cases and schemas recur on hundreds of steps."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.table: list[str] = []
        self._index: dict[str, int] = {}

    def add(self, value: Any) -> int:
        text = value if isinstance(value, str) else _readable(value)
        if text not in self._index:
            self._index[text] = len(self.table)
            self.table.append(self._cut(text))
        return self._index[text]

    def fields(self, values: Mapping[str, Any]) -> dict[str, int]:
        return {name: self.add(value) for name, value in values.items()}

    def _cut(self, text: str) -> str:
        if len(text) <= self.limit:
            return text
        head = self.limit * 3 // 4
        tail = self.limit - head
        return f"{text[:head]}\n[… {len(text) - self.limit:,} characters cut …]\n{text[-tail:]}"


def _page_data(steps: list[StepRecord], title: str, threshold: float, limit: int) -> str:
    texts = _Texts(limit)
    places = {record.rollout.id: i for i, record in enumerate(steps)}
    data = {
        "title": title,
        "threshold": threshold,
        "steps": [_step(record, places, texts) for record in steps],
        "texts": texts.table,
    }
    # "<" is escaped so that no text can end the script element it stands in.
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _step(record: StepRecord, places: Mapping[str, int], texts: _Texts) -> dict[str, Any]:
    rollout = record.rollout
    guidance = rollout.guidance
    step: dict[str, Any] = {
        "n": rollout.step,
        "id": rollout.id,
        "in": texts.fields(rollout.inputs),
        "out": None if rollout.outputs is None else texts.fields(rollout.outputs),
        "policies": {
            route: [policy.version, texts.add(policy.text), policy.author]
            for route, policy in guidance.policies.items()
        },
        "shots": {
            route: [texts.fields(shot) for shot in shots]
            for route, shots in guidance.shots.items()
            if shots
        },
        "got": {
            purpose: [places.get(id, id) for id in ids]
            for purpose, ids in guidance.retrieved.items()
        },
        "cost": _cost(record),
        "at": rollout.created_at,
    }
    if rollout.error:
        step["error"] = texts.add(rollout.error)
    if len(rollout.trace) > 1 or any(call.error for call in rollout.trace):
        step["trace"] = [_call(call, texts) for call in rollout.trace]
    if counts := {name: n for name, n in guidance.counts.items() if n}:
        step["counts"] = counts
    for short, name in (("rolling", "rolling_score"), ("mean", "prequential_score")):
        if name in record.metrics:
            step[short] = round(record.metrics[name], 4)
    if record.feedback is not None:
        feedback = record.feedback
        step["feedback"] = {
            "score": feedback.score if feedback.judged else None,
            "text": texts.add(feedback.text),
            "informative": feedback.informative,
            "author": feedback.author,
            "error": texts.add(feedback.error),
            "parts": to_plain(dict(feedback.subscores)),
        }
    return step


def _call(call: Call, texts: _Texts) -> dict[str, Any]:
    return {
        "route": call.route,
        "in": texts.fields(call.inputs),
        "out": None if call.outputs is None else texts.fields(call.outputs),
        "error": texts.add(call.error),
    }


def _cost(record: StepRecord) -> dict[str, Any]:
    answer, policy = record.rollout.usage, record.rollout.guidance.usage
    learning = record.feedback.usage if record.feedback is not None else Usage()
    total = answer + policy + learning
    return {
        "answer": [answer.calls, answer.prompt_tokens, answer.completion_tokens],
        "policy": [policy.calls, policy.prompt_tokens, policy.completion_tokens],
        "learning": [learning.calls, learning.prompt_tokens, learning.completion_tokens],
        "cached": total.cached_tokens,
        "dollars": total.cost,
        "seconds": round(record.rollout.seconds, 3),
    }


def _readable(value: Any) -> str:
    """Return a value as a person reads it; only for showing, not for reading back."""
    return json.dumps(to_plain(value), ensure_ascii=False, indent=1)
