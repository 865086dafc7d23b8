"""Verdicts that people leave on traces in MLflow, taken into a learner.

With ``mlflow.dspy.autolog()`` on, each answer of a learner leaves a trace that carries its rollout
id (:mod:`drpg_dspy.tracking.traces`). Whoever reviews traces in MLflow's UI leaves assessments on
them; :func:`pull_feedback` turns these into feedback.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from drpg_dspy.arguments import number
from drpg_dspy.exceptions import UnknownRollout, missing_extra
from drpg_dspy.memory.base import Memory
from drpg_dspy.tracking.traces import LEARNER_TAG, ROLLOUT_TAG
from drpg_dspy.types import Feedback, ProgramCard

__all__ = ["Pulled", "pull_feedback", "score_of"]

_log = logging.getLogger(__name__)

SOURCES = ("HUMAN", "LLM_JUDGE", "CODE")
"""Who may have left an assessment, in MLflow's words."""

_PAGE = 200
_ID = "mlflow:"
_GOOD = frozenset({"yes", "true", "pass", "passed", "correct", "right", "good", "ok", "up", "👍"})
_BAD = frozenset({"no", "false", "fail", "failed", "incorrect", "wrong", "bad", "down", "👎"})


class _Learner(Protocol):
    memory: Memory
    card: ProgramCard

    def learn_one(self, rollout: Any, feedback: Any) -> None: ...
    def retract(self, rollout_id: str) -> None: ...


@dataclass(slots=True)
class Pulled:
    """What came of a pull.

    Attributes:
        traces: Traces of this learner's answers that were looked at.
        learned: Answers with a verdict that is new or has changed.
        retracted: Answers whose verdict was taken back, because its assessments were deleted.
        unchanged: Answers whose verdict stands already, or was overruled here later.
        unknown: Answers that a trace names and this memory does not hold.
        unreadable: Answers whose last assessment is no verdict, each with the reason; what stood
            before still stands.
    """

    traces: int = 0
    learned: int = 0
    retracted: int = 0
    unchanged: int = 0
    unknown: int = 0
    unreadable: list[str] = field(default_factory=list)


def pull_feedback(
    learner: _Learner,
    experiment: str | Sequence[str] | None = None,
    *,
    names: Collection[str] | None = None,
    sources: Collection[str] = ("HUMAN",),
    since: float | None = None,
    tracking_uri: str | None = None,
) -> Pulled:
    """Learn from the assessments that stand on the traces of a learner's answers.

    The assessment changed last is the verdict on an answer: its value the score
    (:func:`score_of`), its rationale the text, its source the author. Where several names are in
    use, the last value of each is a subscore. An expectation that a person left beside it is
    added to the text. An assessment that was overridden or deleted no longer counts; when the
    last one of an answer is gone, its feedback is retracted. What other ``names`` and ``sources``
    brought stands as long as its assessment does.

    Pulling again changes nothing unless something was changed in MLflow. A verdict that a person
    gave the learner directly, and a retraction, stand unless the assessment is later. A trace of
    several answers passes its verdict on to each. A trace that was deleted says nothing.

    Args:
        learner: An ``OnlinePolicyOptimizer``.
        experiment: Names of the MLflow experiments that hold the traces; ``None`` = the one
            that is active in this process, in which traces are filed.
        names: Names of the assessments that count; ``None`` = all of them.
        sources: Whose assessments count: of ``"HUMAN"``, ``"LLM_JUDGE"`` and ``"CODE"``. MLflow
            takes ``mlflow.log_feedback`` without a ``source`` for ``"CODE"``.
        since: Look only at traces that began since then, in seconds since the epoch; ``None`` =
            at all of them.
        tracking_uri: Where MLflow keeps its data; ``None`` = where it would by itself.

    Returns:
        Counts.

    Raises:
        ImportError: MLflow is not installed; names the extra.
        ValueError: There is no such experiment, or an argument is of the wrong kind.
    """
    begin = 0.0 if since is None else number("since", since, 0.0)
    kinds = _checked_sources(sources)
    client, locations = _store(experiment, tracking_uri)
    found = Pulled()
    answers = _by_answer(_traces(client, locations, begin), learner.card.name, found)
    for rollout_id, assessments in answers.items():
        try:
            verdict = _verdict(assessments, names, kinds)
        except ValueError as error:
            found.unreadable.append(f"answer {rollout_id}: {error}")
            continue
        there = {f"{_ID}{one.assessment_id}" for one in assessments if one.valid is not False}
        _apply(learner, rollout_id, verdict, there, found)
    if found.unreadable:
        _log.warning(
            "%d assessments are no verdict and change nothing; the first: %s",
            len(found.unreadable),
            found.unreadable[0],
        )
    return found


def score_of(value: Any) -> float:
    """Return the score that an assessment's value means.

    A bool; a number in [0, 1]; or one of a few words, such as yes and no, pass and fail, correct
    and wrong, in any case.

    >>> score_of(True), score_of(0.5), score_of("Pass"), score_of("no")
    (1.0, 0.5, 1.0, 0.0)

    Raises:
        ValueError: It is nothing of that.
    """
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in _GOOD or word in _BAD:
            return float(word in _GOOD)
    elif isinstance(value, (bool, int, float)) and 0.0 <= value <= 1.0:
        return float(value)
    raise ValueError(
        f"the value {value!r} is no score: give true or false, a number from 0 to 1, or a word "
        "such as yes, no, pass, fail."
    )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What stands in MLflow.

    Attributes:
        feedback: ``None`` when nothing does.
        at: When it was last changed, seconds since the epoch.
    """

    feedback: Feedback | None
    at: float = 0.0


def _by_answer(traces: Iterable[Any], learner: str, found: Pulled) -> dict[str, list[Any]]:
    """Return the assessments on each answer of a learner.

    By answer, not by trace: an answer that was tried again has a trace for each attempt.
    """
    answers: dict[str, list[Any]] = {}
    for info in traces:
        if info.tags.get(LEARNER_TAG, learner) != learner:
            continue
        found.traces += 1
        for rollout_id in info.tags[ROLLOUT_TAG].split():
            answers.setdefault(rollout_id, []).extend(info.assessments or ())
    return answers


def _verdict(
    assessments: Iterable[Any],
    names: Collection[str] | None,
    sources: Collection[str],
) -> _Verdict:
    """Return the verdict that stands among an answer's assessments.

    Raises:
        ValueError: The last one is no verdict.
    """
    standing = sorted(
        (a for a in assessments if a.valid is not False and a.source.source_type in sources),
        key=lambda a: (a.last_update_time_ms or 0, a.create_time_ms or 0),
    )
    votes = [a for a in standing if a.feedback is not None and (names is None or a.name in names)]
    if not votes:
        return _Verdict(None)
    last = votes[-1]
    if last.feedback.error is not None:
        raise ValueError(f"assessment {last.name!r} reports an error instead of a value.")
    try:
        score = score_of(last.feedback.value)
    except ValueError as error:
        raise ValueError(f"assessment {last.name!r}: {error}") from error
    expected = [a for a in standing if a.expectation is not None]
    feedback = Feedback(
        score,
        text=_text(last, expected),
        subscores=_subscores(votes),
        id=f"{_ID}{last.assessment_id}",
        author=_author(last.source),
    )
    return _Verdict(feedback, (last.last_update_time_ms or last.create_time_ms or 0) / 1000)


def _apply(
    learner: _Learner, rollout_id: str, verdict: _Verdict, there: Collection[str], found: Pulled
) -> None:
    """Let a verdict stand; where none is left, take back ours, if its assessment is gone.

    One that is still ``there`` was only not looked for this time.
    """
    try:
        history = learner.memory.feedback_history(rollout_id)
    except UnknownRollout:
        found.unknown += 1
        return
    at, standing = history[-1] if history else (-math.inf, None)
    ours = standing is not None and standing.id.startswith(_ID)
    feedback = verdict.feedback
    if feedback is None:
        if ours and standing is not None and standing.id in there:
            found.unchanged += 1
        elif ours:
            learner.retract(rollout_id)
            found.retracted += 1
        return
    said_here = bool(history) and not ours and (standing is None or _is_persons(standing))
    if (ours and _same(standing, feedback)) or (said_here and verdict.at <= at):
        found.unchanged += 1
        return
    learner.learn_one(rollout_id, feedback)
    found.learned += 1


def _same(standing: Feedback | None, feedback: Feedback) -> bool:
    return standing is not None and (
        (standing.id, standing.score, standing.text, standing.subscores, standing.author)
        == (feedback.id, feedback.score, feedback.text, feedback.subscores, feedback.author)
    )


def _is_persons(feedback: Feedback) -> bool:
    return feedback.author.startswith("person")


def _subscores(votes: Sequence[Any]) -> Mapping[str, float]:
    """Return the last value of each name, where there are several names with readable values."""
    scores = {}
    for vote in votes:
        try:
            scores[vote.name] = score_of(vote.feedback.value)
        except ValueError:
            scores.pop(vote.name, None)
    return scores if len(scores) > 1 else {}


def _text(last: Any, expected: Iterable[Any]) -> str:
    lines = [str(last.rationale or "").strip()]
    lines += [f"Expected {item.name}: {item.expectation.value}" for item in expected]
    return "\n".join(line for line in lines if line)


def _author(source: Any) -> str:
    kind = {"HUMAN": "person", "LLM_JUDGE": "judge", "CODE": "metric"}[source.source_type]
    named = source.source_id if source.source_id and source.source_id != "default" else ""
    return f"{kind}:{named}" if named else kind


def _checked_sources(sources: Collection[str]) -> frozenset[str]:
    if isinstance(sources, str) or not sources or not set(sources) <= set(SOURCES):
        raise ValueError(f"sources must be some of {SOURCES}, got {sources!r}.")
    return frozenset(sources)


def _store(
    experiment: str | Sequence[str] | None, tracking_uri: str | None
) -> tuple[Any, list[str]]:
    """Return a client, and the ids of the experiments."""
    try:
        import mlflow
    except ImportError as error:
        raise missing_extra("pull_feedback", "mlflow", "mlflow") from error
    client = mlflow.MlflowClient(tracking_uri=tracking_uri)
    if experiment is None:
        from mlflow.tracking.fluent import _get_experiment_id

        return client, [str(_get_experiment_id())]
    locations = []
    for name in [experiment] if isinstance(experiment, str) else experiment:
        found = client.get_experiment_by_name(name)
        if found is None:
            raise ValueError(
                f"MLflow has no experiment {name!r}. Traces are filed under the one that "
                "mlflow.set_experiment named, else under 'Default'."
            )
        locations.append(str(found.experiment_id))
    return client, locations


def _traces(client: Any, locations: list[str], since: float) -> Iterator[Any]:
    """Yield what MLflow knows of each trace that names a rollout, without its spans."""
    wanted = f"tags.`{ROLLOUT_TAG}` IS NOT NULL"
    if since:
        wanted += f" AND attributes.timestamp_ms >= {int(since * 1000)}"
    token = None
    while True:
        page = client.search_traces(
            locations=locations,
            filter_string=wanted,
            max_results=_PAGE,
            page_token=token,
            include_spans=False,
        )
        yield from (trace.info for trace in page)
        token = page.token
        if not token:
            return
