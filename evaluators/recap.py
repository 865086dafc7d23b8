"""From the records of a run under RECAP's protocol to its figures.

The records are plain JSON (``run.jsonl`` of ``drpg recap``): one for each adaptation, one for
each answer. Nothing here asks a language model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drpg_dspy.constraints import Constraint, ConstraintCheck, RuleCheck, Schedule
from evaluators.continual import Event, Outcome, Trajectory
from evaluators.failure_modes import (
    MODES,
    Finding,
    demonstration_noise,
    inert_growth,
    keyword_persists,
    prefix_contamination,
    refusal_cascade,
    specification_lock,
)

__all__ = ["Efficiency", "Failures", "default_verdicts", "efficiency", "failures", "trajectory"]

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What a run cost.

    Attributes:
        steps, answers: Adaptations and answers on record.
        adapt_seconds, answer_seconds, scoring_seconds: A step, wall time.
        adapt_calls, answer_calls: LM calls a step.
        adapt_tokens, answer_tokens: Tokens a step, read and written.
        tokens: Of the whole run, adaptation and answers.
        failed: Answers that the program did not give.
        not_judged: Checks without a verdict, of all checks.
        checks: All checks, shadows included.
        words: Words an answer.
    """

    steps: int
    answers: int
    adapt_seconds: float
    answer_seconds: float
    scoring_seconds: float
    adapt_calls: float
    answer_calls: float
    adapt_tokens: float
    answer_tokens: float
    tokens: float
    failed: int
    not_judged: int
    checks: int
    words: float


@dataclass(frozen=True, slots=True)
class Failures:
    """How often each failure mode was found.

    Attributes:
        found: By mode: cases found.
        looked: By mode: cases looked at (answers, steps, or one run).
        examples: By mode: the first finding.
    """

    found: Mapping[str, int]
    looked: Mapping[str, int]
    examples: Mapping[str, Finding]

    def share(self, mode: str) -> float:
        """Found among looked at; NaN where there was nothing to look at."""
        looked = self.looked.get(mode, 0)
        return self.found.get(mode, 0) / looked if looked else math.nan


def trajectory(
    records: Iterable[Record],
    schedule: Schedule,
    defaults: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
) -> Trajectory:
    """Order a run's verdicts for the metrics of :mod:`evaluators.continual`.

    Args:
        records: The run's records.
        schedule: Its schedule.
        defaults: See :func:`default_verdicts`; without it unlearning is not known.

    Raises:
        ValueError: There is no answer on record.
    """
    outcomes = [
        Outcome(
            step=int(record["step"]),
            task=check["type"],
            sample=str(record["prompt"]),
            satisfied=math.nan if check["satisfied"] is None else float(check["satisfied"]),
            value=check["text"],
            shadow=bool(check.get("shadow")),
        )
        for record in _answers(records)
        for check in record["checks"]
    ]
    return Trajectory.of(outcomes, _events(schedule), defaults)


def default_verdicts(
    answers: Mapping[str, str],
    prompts: Mapping[str, str],
    schedule: Schedule,
    check: ConstraintCheck | None = None,
) -> dict[tuple[str, str], dict[str, float]]:
    """Check answers that were given without any constraint against what a schedule deletes.

    Args:
        answers: By prompt id.
        prompts: Texts by prompt id.
        schedule: The schedule.
        check: By rule alone where ``None``.

    Returns:
        By (type, text): each prompt's verdict, NaN = not judged.
    """
    checker = check if check is not None else RuleCheck()
    found: dict[tuple[str, str], dict[str, float]] = {}
    deleted = ((one.task, one.old) for one in _events(schedule) if one.op == "delete")
    for kind, text in dict.fromkeys(deleted):
        verdicts = found.setdefault((kind, text), {})
        for name, answer in answers.items():
            met = checker.check(kind, text, answer, prompts.get(name, "")).satisfied
            verdicts[name] = math.nan if met is None else float(met)
    return found


def efficiency(records: Iterable[Record]) -> Efficiency:
    """Sum up what a run cost; means are over steps."""
    known = list(records)
    adapts = [one for one in known if one["kind"] == "adapt"]
    answers = list(_answers(known))
    checks = [check for one in answers for check in one["checks"]]
    n = max(1, len({one["step"] for one in answers}))
    adapt_tokens, answer_tokens = _tokens(adapts), _tokens(answers)
    return Efficiency(
        steps=len(adapts),
        answers=len(answers),
        adapt_seconds=sum(one["seconds"] for one in adapts) / n,
        answer_seconds=sum(one["seconds"] for one in answers) / n,
        scoring_seconds=sum(one.get("scoring_seconds", 0.0) for one in answers) / n,
        adapt_calls=sum(one["usage"]["calls"] for one in adapts) / n,
        answer_calls=sum(one["usage"]["calls"] for one in answers) / n,
        adapt_tokens=adapt_tokens / n,
        answer_tokens=answer_tokens / n,
        tokens=adapt_tokens + answer_tokens,
        failed=sum(bool(one["error"]) for one in answers),
        not_judged=sum(check["satisfied"] is None for check in checks),
        checks=len(checks),
        words=sum(len(one["answer"].split()) for one in answers) / max(1, len(answers)),
    )


def failures(
    records: Iterable[Record],
    schedule: Schedule,
    prompts: Mapping[str, str],
    baseline: Iterable[Record] = (),
) -> Failures:
    """Look for the six failure modes in a run.

    Args:
        records: The run's records.
        schedule: Its schedule.
        prompts: Texts by prompt id.
        baseline: Records of the plain program on the same schedule and prompts, for inert
            growth; without them it is not looked for.
    """
    found, looked = Counter[str](), Counter[str]()
    examples: dict[str, Finding] = {}

    def note(mode: str, finding: Finding | None) -> None:
        looked[mode] += 1
        if finding is not None:
            found[mode] += 1
            examples.setdefault(mode, finding)

    answers = list(_answers(records))
    for record in answers:
        step, text = int(record["step"]), str(record["answer"])
        active = schedule.active(step)
        note("refusal", refusal_cascade(text))
        _note_shadows(note, record, active, schedule)
        if record.get("shown"):
            asked = "\n".join([prompts.get(record["prompt"], ""), *(one.text for one in active)])
            note("demonstration", demonstration_noise(text, record["shown"], asked))
    for step in sorted({int(one["step"]) for one in answers}):
        said = [str(one["answer"]) for one in answers if one["step"] == step]
        texts = [one.text for one in schedule.active(step)]
        note("prefix", prefix_contamination(said, texts))
    before = {_name(one): str(one["answer"]) for one in _answers(baseline)}
    if before and any(one.get("policy") for one in answers):
        now = {_name(one): str(one["answer"]) for one in answers}
        note("inert_growth", inert_growth(_policies(answers, schedule), now, before))
    return Failures({mode: found[mode] for mode in MODES}, dict(looked), examples)


def _note_shadows(
    note: Any, record: Record, active: Sequence[Constraint], schedule: Schedule
) -> None:
    force = {one.type: one.text for one in active}
    for shadow in schedule.shadows(int(record["step"])):
        old = shadow.constraint
        if shadow.by == "edit" and old.type in force:
            note(
                "specification_lock",
                specification_lock(
                    old.type,
                    old.text,
                    force[old.type],
                    str(record["answer"]),
                    str(record.get("policy", "")),
                ),
            )
        if shadow.by == "delete" and old.type == "Keyword":
            note("keyword_persists", keyword_persists(old.text, str(record["answer"])))


def _events(schedule: Schedule) -> list[Event]:
    found = []
    force: dict[str, str] = {}
    for step, operations in enumerate(schedule.steps):
        for one in operations:
            found.append(Event(step, one.op, one.type, one.text, force.get(one.type, "")))
            if one.op == "delete":
                del force[one.type]
            else:
                force[one.type] = one.text
    return found


def _policies(answers: Sequence[Record], schedule: Schedule) -> list[str]:
    """Return what was written, step by step, without what merely lists the constraints."""
    last: dict[int, str] = {}
    for one in answers:
        step = int(one["step"])
        listed = {f"- {' '.join(each.text.split())}" for each in schedule.active(step)}
        lines = str(one.get("policy", "")).splitlines()
        last[step] = "\n".join(line for line in lines if line.strip() not in listed)
    return [last[step] for step in sorted(last)]


def _answers(records: Iterable[Record]) -> Iterable[Record]:
    return (record for record in records if record["kind"] == "answer")


def _tokens(records: Iterable[Record]) -> float:
    return float(
        sum(one["usage"]["prompt_tokens"] + one["usage"]["completion_tokens"] for one in records)
    )


def _name(record: Record) -> str:
    return f"{record['step']} {record['prompt']}"
