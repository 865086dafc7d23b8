"""``drpg recap-report``: methods side by side on every metric, with intervals."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import unknown_name, wrong
from drpg_dspy.cli.layout import count
from drpg_dspy.cli.recap_runs import find_runs, read_defaults
from drpg_dspy.constraints import Schedule
from drpg_dspy.continual import RunLog
from drpg_dspy.plain import digest

__all__ = ["report"]

_NONE = "–"
_BASELINE = "base"  # need not be there


@dataclass
class _Run:
    """One run, read."""

    log: RunLog
    records: list[dict[str, Any]]
    schedule: Schedule
    trajectory: Any
    efficiency: Any
    finished: bool

    @property
    def prompts(self) -> Mapping[str, str]:
        """Texts by id."""
        prompts: Mapping[str, str] = self.log.settings["prompts"]
        return prompts

    @property
    def method(self) -> str:
        """The method with its arguments, as in the tables."""
        settings = self.log.settings
        options = ", ".join(f"{key}={value}" for key, value in settings["options"].items())
        told = ["full information"] if settings["full_information"] else []
        extra = ", ".join([*([options] if options else []), *told])
        return f"{settings['optimizer']} ({extra})" if extra else str(settings["optimizer"])

    @property
    def key(self) -> str:
        """Runs with the same key may be compared."""
        s = self.log.settings
        fixed = ("schedule", "lm", "max_tokens", "temperature", "judge")
        return digest(*(s[name] for name in fixed), len(self.prompts))


@dataclass
class _Group:
    """Runs that may be compared, by method, in the order of their seeds."""

    title: str
    methods: dict[str, list[_Run]] = field(default_factory=dict)
    prompts: dict[int, Mapping[str, str]] = field(default_factory=dict)  # by seed

    def takes(self, run: _Run) -> bool:
        """Tell whether a run has the prompts that those of its seed have here."""
        known = self.prompts.get(run.log.settings["seed"])
        return known is None or dict(known) == dict(run.prompts)


def report(names: Sequence[str], *, baseline: str, out: Path | None, resamples: int) -> None:
    """Do what ``drpg recap-report`` does."""
    runs = [run for log in find_runs(names) if (run := _read(log)) is not None]
    if not runs:
        raise wrong("RUNS", "None of these runs has an answer on record yet.")
    parts: list[str] = []
    plain: list[dict[str, Any]] = []
    known = sorted({run.method for run in runs})
    if baseline not in known and baseline != _BASELINE:
        raise wrong("--baseline", unknown_name("method among these runs", baseline, known))
    for group in _groups(runs):
        figures = _figures(group, baseline, resamples)
        plain.append(figures)
        parts.append("\n".join(_markdown(figures)))
    text = "\n\n".join(parts) + "\n"
    click.echo(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.md").write_text(text, encoding="utf-8")
        (out / "report.json").write_text(json.dumps(_strict(plain), indent=2), encoding="utf-8")
        click.echo(out / "report.md", err=True)


def _read(log: RunLog) -> _Run | None:
    recap = importlib.import_module("evaluators.recap")
    records = list(log.lines())
    if not any(record["kind"] == "answer" for record in records):
        click.echo(f"{log.name} has no answer on record yet: left out.", err=True)
        return None
    schedule = Schedule.from_plain(log.settings["schedule"])
    prompts = log.settings["prompts"]
    answers = sum(record["kind"] == "answer" and not record.get("unchecked") for record in records)
    return _Run(
        log,
        records,
        schedule,
        recap.trajectory(records, schedule, read_defaults(log.folder)),
        recap.efficiency(records),
        finished=answers == len(schedule.steps) * len(prompts),
    )


def _groups(runs: Iterable[_Run]) -> Iterator[_Group]:
    found: dict[str, list[_Group]] = {}
    for run in sorted(runs, key=lambda one: (one.log.settings["seed"], one.log.name)):
        settings = run.log.settings
        alike = found.setdefault(run.key, [])
        group = next((one for one in alike if one.takes(run)), None)
        if group is None:
            title = (
                f"{run.schedule.name}, {settings['lm']}, {len(run.prompts)} prompts a step, "
                f"at most {settings['max_tokens']} tokens an answer"
            )
            alike.append(group := _Group(title + (f", prompt set {len(alike) + 1}" * bool(alike))))
        group.prompts[settings["seed"]] = run.prompts
        same = group.methods.setdefault(run.method, [])
        if any(dict(other.prompts) == dict(run.prompts) for other in same):
            raise wrong("RUNS", f"{run.log.name} and {same[0].log.name} are the same run twice.")
        same.append(run)
    yield from (group for alike in found.values() for group in alike)


def _figures(group: _Group, baseline: str, resamples: int) -> dict[str, Any]:
    continual = importlib.import_module("evaluators.continual")
    base = group.methods.get(baseline, [])
    rows = []
    for method, runs in group.methods.items():
        paired = _paired(runs, base) if method != baseline else None
        trajectories = [run.trajectory for run in runs]
        metrics = _plain(continual.intervals(trajectories, resamples=resamples))
        if paired:
            changes = continual.intervals(*paired, resamples=resamples)
            for name, change in _plain(changes).items():
                metrics[name]["difference"] = change
        rows.append(
            {
                "method": method,
                "runs": [run.log.name for run in runs],
                "seeds": [run.log.settings["seed"] for run in runs],
                "finished": all(run.finished for run in runs),
                "paired": len(paired[0]) if paired else 0,
                "failed": [run.efficiency.failed for run in runs],
                "answers": [run.efficiency.answers for run in runs],
                "metrics": metrics,
                "by_type": _mean_known(
                    [continual.satisfaction_by_task(run.trajectory) for run in runs]
                ),
                "by_step": _mean_known(
                    [continual.satisfaction_by_step(run.trajectory) for run in runs]
                ),
                "efficiency": _mean([dataclasses.asdict(run.efficiency) for run in runs]),
                "threads": sorted({run.log.settings.get("threads", 1) for run in runs}),
                "commands": [_command(run.log) for run in runs],
                "failures": _failures(runs, base),
            }
        )
    titles = {metric.name: metric.title for metric in continual.METRICS}
    higher = {metric.name: metric.higher for metric in continual.METRICS}
    return {
        "title": group.title, "baseline": baseline, "titles": titles, "higher": higher,
        "methods": rows,
    }  # fmt: skip


def _plain(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: dataclasses.asdict(one) for name, one in found.items()}


def _paired(runs: Sequence[_Run], base: Sequence[_Run]) -> tuple[list[Any], list[Any]] | None:
    """Return the trajectories of runs that met the same prompts, as far as both have come."""
    ours, theirs = [], []
    for run in runs:
        for other in base:
            same = run.prompts == other.prompts and run.finished and other.finished
            if same and run.trajectory.samples == other.trajectory.samples:
                ours.append(run.trajectory)
                theirs.append(other.trajectory)
    return (ours, theirs) if ours else None


def _failures(runs: Sequence[_Run], base: Sequence[_Run]) -> dict[str, Any]:
    recap = importlib.import_module("evaluators.recap")
    modes = importlib.import_module("evaluators.failure_modes").MODES
    found = {mode: [0, 0] for mode in modes}
    examples: dict[str, str] = {}
    for run in runs:
        same = next((one for one in base if one.prompts == run.prompts and one is not run), None)
        seen = recap.failures(run.records, run.schedule, run.prompts, same.records if same else ())
        for mode in modes:
            found[mode][0] += seen.found.get(mode, 0)
            found[mode][1] += seen.looked.get(mode, 0)
            if mode in seen.examples:
                examples.setdefault(mode, seen.examples[mode].detail)
    return {
        mode: {"found": hit, "looked": looked, "example": examples.get(mode, "")}
        for mode, (hit, looked) in found.items()
    }


def _markdown(figures: Mapping[str, Any]) -> Iterator[str]:
    rows = figures["methods"]
    titles = {
        name: f"{title} {'↑' if figures['higher'][name] else '↓'}"
        for name, title in figures["titles"].items()
    }
    yield f"## {figures['title']}"
    yield ""
    yield "Means with 95 % bootstrap intervals over prompts."
    yield ""
    yield from _table(
        ["method", "seeds", *titles.values()],
        [
            [_name(row), str(len(row["seeds"])), *(_range(row["metrics"][m]) for m in titles)]
            for row in rows
        ],
    )
    changed = [row for row in rows if "difference" in row["metrics"]["sat"]]
    if changed:
        yield ""
        yield f"Difference to {figures['baseline']}, paired by prompt; * = the interval excludes 0."
        yield ""
        yield from _table(
            ["method", *titles.values()],
            [[_name(row), *(_change(row["metrics"][m]["difference"]) for m in titles)]
             for row in changed],
        )  # fmt: skip
    yield from _warnings(figures, rows)
    yield ""
    yield from _by_type(rows)
    yield ""
    yield f"Cost, a step; × = as a multiple of {figures['baseline']}.{_side_by_side(rows)}"
    yield ""
    base = next((row["efficiency"] for row in rows if row["method"] == figures["baseline"]), None)
    yield from _table(
        ["method", "adapt s", "answer s", "×", "adapt calls", "answer calls", "adapt tokens",
         "answer tokens", "×", "tokens in all", "failed", "not judged", "words an answer"],
        [[_name(row), *_cost(row["efficiency"], base)] for row in rows],
    )  # fmt: skip
    yield ""
    yield "Failure modes, found of looked at."
    yield ""
    yield from _table(
        ["method", *(mode.replace("_", " ") for mode in rows[0]["failures"])],
        [[_name(row), *(_hits(one) for one in row["failures"].values())] for row in rows],
    )
    yield ""
    yield "Made by:"
    yield ""
    yield "```"
    yield from (command for row in rows for command in row["commands"])
    yield "```"


def _warnings(figures: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say what the figures above do not show: runs without a partner, and dead ones."""
    base = figures["baseline"]
    there = any(row["method"] == base for row in rows)
    if not there:
        yield from ("", f"No run of {base} is here: there are no differences to show.")
    for row in rows:
        n, runs = row["paired"], len(row["runs"])
        if there and row["method"] != base and n < runs:
            which = "no run" if not n else f"{n} of {runs} runs"
            yield from ("", f"{row['method']}: {which} with a finished run of {base} on the same "
                        "prompts; differences are over such runs alone.")  # fmt: skip
        pairs = zip(row["runs"], row["failed"], row["answers"], strict=True)
        for name, failed, answers in pairs:
            if failed > answers / 2:
                yield from ("", f"**{name}: {failed} of {answers} answers failed** and meet "
                            "nothing: its figures tell of that, and of little else.")  # fmt: skip


def _side_by_side(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what seconds are worth where answers were asked for side by side."""
    threads = sorted({number for row in rows for number in row["threads"]})
    if threads == [1]:
        return ""
    if len(threads) == 1:
        return f" Answers were asked for {threads[0]} at a time; seconds include the waiting."
    return f" Runs had --threads {', '.join(map(str, threads))}: compare no seconds across them."


def _by_type(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    kinds = list(dict.fromkeys(kind for row in rows for kind in row["by_type"]))
    yield "Mean satisfaction by type."
    yield ""
    yield from _table(
        ["method", *kinds],
        [
            [_name(row), *(_share(row["by_type"].get(kind, math.nan)) for kind in kinds)]
            for row in rows
        ],
    )


def _share(value: float) -> str:
    return _NONE if math.isnan(value) else f"{value:.3f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _name(row: Mapping[str, Any]) -> str:
    return str(row["method"]) + ("" if row["finished"] else " (not finished)")


def _range(one: Mapping[str, Any]) -> str:
    if math.isnan(one["value"]):
        return _NONE
    return f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def _change(one: Mapping[str, float]) -> str:
    if math.isnan(one["value"]):
        return _NONE
    sure = "*" if one["low"] > 0 or one["high"] < 0 else ""
    return f"{one['value']:+.3f}{sure} [{one['low']:+.3f}, {one['high']:+.3f}]"


def _cost(one: Mapping[str, float], base: Mapping[str, float] | None) -> list[str]:
    def times(name: str) -> str:
        return f"{one[name] / base[name]:.2f}" if base and base[name] else _NONE

    return [
        f"{one['adapt_seconds']:.1f}", f"{one['answer_seconds']:.1f}", times("answer_seconds"),
        f"{one['adapt_calls']:.1f}", f"{one['answer_calls']:.1f}",
        count(one["adapt_tokens"]), count(one["answer_tokens"]), times("answer_tokens"),
        count(one["tokens"]), f"{one['failed']:.0f}",
        f"{one['not_judged']:.0f} of {one['checks']:.0f}", f"{one['words']:.0f}",
    ]  # fmt: skip


def _hits(one: Mapping[str, Any]) -> str:
    return f"{one['found']} of {one['looked']}" if one["looked"] else _NONE


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _mean_known(rows: Sequence[Mapping[Any, float]]) -> dict[str, float]:
    """Return the means of rows whose keys may differ, and whose values may be NaN."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            found.setdefault(str(name), []).append(value)
    known = {name: [v for v in values if not math.isnan(v)] for name, values in found.items()}
    return {name: sum(v) / len(v) if v else math.nan for name, v in known.items()}


def _command(log: RunLog) -> str:
    """Return the command that makes a run again."""
    s = log.settings
    given = {
        "schedule": s.get("schedule_name", s["schedule"]["name"]),
        "optimizer": s["optimizer"],
        "lm": s["lm"],
        "judge-lm": s.get("judge_lm"),
        "prompts-per-step": len(s["prompts"]),
        "seed": s["seed"],
        "temperature": s["temperature"] or None,
        "max-tokens": s["max_tokens"],
        "adapt-tokens": s["adapt_tokens"],
        "threads": s["threads"] if s.get("threads", 1) > 1 else None,
        "data": s.get("data"),
        "embedder": s["embedder"] if s.get("embedder", "hashing") != "hashing" else None,
    }
    words = ["drpg recap", *(f"--{k} {v}" for k, v in given.items() if v is not None)]
    words += [f"--set {key}={json.dumps(value)}" for key, value in s["options"].items()]
    words += ["--full-information"] if s["full_information"] else []
    return " ".join([*words, f"--name {log.name}"])


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
