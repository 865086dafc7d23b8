"""A run in words: what it was started with, how it stands, what came out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from drpg_dspy.analysis import RunSummary, summarise
from drpg_dspy.cli.layout import clip, columns, count, heading, minutes, share
from drpg_dspy.cli.steps import mark, verdict_word
from drpg_dspy.memory.base import Memory
from drpg_dspy.streaming import RunConfig, RunFolder
from drpg_dspy.types import Usage

__all__ = ["report_as_plain", "report_as_text", "where_to_look", "with_steps"]


def report_as_text(folder: RunFolder, summary: RunSummary, metric: str) -> str:
    """Return a run's figures."""
    config = folder.config
    title = f"{folder.name}: {config.optimizer} on {config.benchmark}, {config.lm}"
    lines = [heading(clip(title, 100)), f"  {_score(summary, metric)}"]
    if missing := _missing(summary):
        lines.append(f"  {missing}")
    lines.append(_spent(summary))
    if summary.counts:
        counted = ", ".join(f"{name} {n}" for name, n in summary.counts.items())
        lines.append(f"  counted: {counted}")
    if folder.running:
        lines.append("  still running")
    elif summary.stopped:
        lines.append(f"  not finished: {summary.stopped}")
    return "\n".join(lines)


def report_as_plain(folder: RunFolder, summary: RunSummary) -> dict[str, Any]:
    """Return a run's settings and figures for ``--json``."""
    return {
        "name": folder.name,
        "status": folder.status,
        "config": folder.config.as_dict(),
        **summary.as_dict(),
    }


def with_steps(folder: RunFolder, memory: Memory, metric: str) -> Iterator[str]:
    """Yield a run's figures and one line for each step, ready for a pager."""
    yield f"{report_as_text(folder, summarise(memory), metric)}\n\n"
    rows = []
    for rollout, feedback in memory.rollouts():
        word = verdict_word(memory, rollout, feedback)
        versions = " ".join(
            f"@{policy.version}" for policy in rollout.guidance.policies.values() if policy.rules
        )
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


def where_to_look(folder: RunFolder, summary: RunSummary) -> str:
    """Say what comes next."""
    lines = [f"  drpg show {folder.name}", f"  drpg show {folder.name} --step {max(summary.n, 1)}"]
    if summary.policy_writing.calls or summary.learning.calls:
        lines.append(f"  drpg policy log {folder.name}")
    if summary.stopped:
        lines.insert(0, f"  drpg resume {folder.name}")
    lines.append(f"  {_history(folder.config, folder)}")
    return "\n".join([heading("Next"), *lines])


def _history(config: RunConfig, folder: RunFolder) -> str:
    if not config.extra.get("mlflow"):
        return f"less {folder.path / 'history.jsonl'}"
    uri = config.extra.get("tracking_uri")
    if uri and str(uri).startswith("http"):
        return f"{uri} (experiment {config.extra['experiment']})"
    store = f" --backend-store-uri {uri}" if uri else ""
    return f"mlflow ui{store}    (experiment {config.extra['experiment']})"


def _score(summary: RunSummary, metric: str) -> str:
    if math.isnan(summary.score):
        return f"{summary.n} questions, no score yet"
    return f"{metric} {share(summary.score)}: {summary.correct} right of {summary.n}"


def _missing(summary: RunSummary) -> str:
    numbers = {
        "not judged": summary.not_judged,
        "failed": summary.failed,
        "waiting for feedback": summary.waiting,
        "judged without proof": summary.uninformative,
        "not learned from": summary.learn_failed,
    }
    always = ("not judged", "failed")
    return ", ".join(f"{n} {name}" for name, n in numbers.items() if n or name in always)


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
