"""A run in words: what it was started with, how it stands, what came out."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import Any

from drpg_dspy.analysis import RunSummary
from drpg_dspy.cli.holdouts import arms_as_plain, arms_as_text, method_of
from drpg_dspy.cli.layout import clip, columns, count, heading, minutes, share
from drpg_dspy.cli.settings import LIMITS
from drpg_dspy.cli.steps import mark, verdict_word
from drpg_dspy.memory.base import Memory
from drpg_dspy.streaming import RunConfig, RunFolder
from drpg_dspy.types import Guidance, Usage

__all__ = [
    "how_to_go_on",
    "learner_as_text",
    "report_as_plain",
    "report_as_text",
    "steps_as_text",
    "where_to_look",
]


def report_as_text(folder: RunFolder, summary: RunSummary, metric: str, memory: Memory) -> str:
    """Return a run's figures."""
    config = folder.config
    title = f"{folder.name}: {method_of(config)} on {config.benchmark}, {config.lm}"
    # Answers to the same items under other policies have no score together.
    epochs = "epochs" in config.extra
    score = f"{summary.n} answers" if epochs else _score(summary, metric)
    # Verdicts on selection and test items are kept as such, so that nothing learns from them.
    held = "kept from learning" if epochs else "judged without proof"
    lines = _figures(title, score, summary, arms_as_text(config, memory), held)
    if folder.running:
        lines.append("  still running")
    elif summary.stopped:
        lines.append(f"  not finished: {summary.stopped}")
    return "\n".join(lines)


def learner_as_text(name: str, summary: RunSummary) -> str:
    """Return the figures of a learner of the user's own, whose settings are not on record."""
    return "\n".join(_figures(f"{name}: a learner", _score(summary, "score"), summary, ""))


def report_as_plain(folder: RunFolder, summary: RunSummary, memory: Memory) -> dict[str, Any]:
    """Return a run's settings and figures for ``--json``."""
    return {
        "name": folder.name,
        "status": folder.status,
        "config": folder.config.as_dict(),
        **summary.as_dict(),
        **arms_as_plain(folder.config, memory),
    }


def steps_as_text(memory: Memory) -> Iterator[str]:
    """Yield a table with one line for each step; nothing where there is none."""
    rows = []
    for rollout, feedback in memory.rollouts():
        word = verdict_word(memory, rollout, feedback)
        versions = _versions(rollout.guidance)
        usage = rollout.usage + rollout.guidance.usage
        answer = rollout.error or " | ".join(str(v) for v in (rollout.outputs or {}).values())
        rows.append(
            (
                str(rollout.step),
                mark(word),
                versions or "–",
                str(sum(len(shots) for shots in rollout.guidance.shots.values())),
                count(usage.tokens),
                clip(rollout.key, 44),
                clip(answer, 44),
            )
        )
    if rows:
        yield columns(rows, ("step", "", "policy", "shots", "tokens", "question", "answer")) + "\n"


def _figures(
    title: str,
    score: str,
    summary: RunSummary,
    arms: str,
    uninformative: str = "judged without proof",
) -> list[str]:
    lines = [heading(clip(title, 100)), f"  {score}"]
    if missing := _missing(summary, uninformative):
        lines.append(f"  {missing}")
    if arms:
        lines.append(arms)
    lines.append(_spent(summary))
    if summary.counts:
        counted = ", ".join(f"{name} {n}" for name, n in summary.counts.items())
        lines.append(f"  counted: {counted}")
    return lines


def _versions(guidance: Guidance) -> str:
    """Return the versions in force, with their routes where a program has several."""
    given = [policy for policy in guidance.policies.values() if policy.rules]
    if len(given) == 1:
        return f"@{given[0].version}"
    alike = {policy.version for policy in given}
    if len(alike) == 1:
        return f"@{alike.pop()} of {len(given)} routes"
    return clip(" ".join(f"{policy.route}@{policy.version}" for policy in given), 44)


def where_to_look(folder: RunFolder, summary: RunSummary) -> str:
    """Say what comes next."""
    lines = [f"  drpg show {folder.name}", f"  drpg show {folder.name} --step {max(summary.n, 1)}"]
    if "epochs" in folder.config.extra:
        lines.insert(0, f"  drpg audit {folder.name} --out audit")
    if summary.policy_writing.calls or summary.learning.calls:
        lines.append(f"  drpg policy log {folder.name}")
    if summary.stopped and not folder.status.startswith("failed"):
        lines.insert(0, f"  {how_to_go_on(folder, summary)}")
    lines.append(f"  {_history(folder.config, folder)}")
    return "\n".join([heading("Next"), *lines])


def how_to_go_on(folder: RunFolder, summary: RunSummary) -> str:
    """Return the command that continues a run: where a budget is spent, one that gives more."""
    again = f"drpg resume {folder.name}"
    spent = [option for option in _BUDGETS if _used_up(option, folder.config, summary)]
    if not spent:
        return again
    raised = " ".join(
        f"--budget-{option} {_twice(option, folder.config, summary)}" for option in spent
    )
    return f"{again} {raised}    (more than was spent; --no-budget lifts every limit)"


_BUDGETS = {
    "calls": lambda run: run.usage.calls,
    "tokens": lambda run: run.usage.tokens,
    "dollars": lambda run: run.usage.cost,
    "minutes": lambda run: run.seconds / 60,
}
"""What of each limit a run has spent, by the option that sets it."""


def _limit(option: str, config: RunConfig) -> float | None:
    limit = config.budget.get(LIMITS[option])
    return limit / 60 if limit is not None and option == "minutes" else limit


def _used_up(option: str, config: RunConfig, summary: RunSummary) -> bool:
    limit = _limit(option, config)
    return limit is not None and _BUDGETS[option](summary) >= limit


def _twice(option: str, config: RunConfig, summary: RunSummary) -> str:
    most = 2 * max(_limit(option, config) or 0.0, _BUDGETS[option](summary))
    return f"{math.ceil(most)}" if option in ("calls", "tokens") else f"{most:.6g}"


def _history(config: RunConfig, folder: RunFolder) -> str:
    if not config.extra.get("mlflow"):
        return f"less {shlex.quote(str(folder.path / 'history.jsonl'))}"
    uri = config.extra.get("tracking_uri")
    if uri and str(uri).startswith("http"):
        return f"{uri} (experiment {config.extra['experiment']})"
    store = f" --backend-store-uri {shlex.quote(str(uri))}" if uri else ""
    return f"mlflow ui{store}    (experiment {config.extra['experiment']})"


def _score(summary: RunSummary, metric: str) -> str:
    if math.isnan(summary.score):
        return f"{summary.n} questions, no score yet"
    return f"{metric} {share(summary.score)}: {summary.correct} right of {summary.settled}"


def _missing(summary: RunSummary, uninformative: str) -> str:
    lost = ("not judged", "failed")  # of all that the score is over
    numbers = {
        "not judged": summary.not_judged,
        "failed": summary.failed,
        "waiting for feedback (count when it comes)": summary.waiting,
        uninformative: summary.uninformative,
        "not learned from": summary.learn_failed,
    }
    said = ", ".join(f"{n} {name}" for name, n in numbers.items() if n or name in lost)
    wrong = summary.not_judged + summary.failed
    return f"{said}  (not judged and failed count as wrong)" if wrong else said


def _spent(summary: RunSummary) -> str:
    steps = max(summary.n, 1)
    parts = [("answering", summary.answering), ("policy", summary.policy_writing)]
    if summary.learning.calls:
        parts.append(("learning", summary.learning))
    parts.append(("together", summary.usage))
    rows = [_line(name, usage, steps) for name, usage in parts]
    header = ("", "tokens in/question", "out/question", "LM calls/question", "LM calls", "dollars")
    time = f"{minutes(summary.seconds)}, {summary.seconds / steps:.1f} s a question"
    return f"{columns(rows, header)}\n  {time}"


def _line(name: str, usage: Usage, steps: int) -> tuple[str, ...]:
    return (
        f"  {name}",
        count(usage.prompt_tokens / steps),
        count(usage.completion_tokens / steps),
        f"{usage.calls / steps:.2f}",
        count(usage.calls),
        f"{usage.cost:.4f}" if usage.cost else "–",
    )
