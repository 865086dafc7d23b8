"""Runs of ``drpg recap``: from options to a method, a schedule and a folder."""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import io
import json
import logging
import math
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import dspy

from drpg_dspy.cli import names
from drpg_dspy.cli.app import Stopped, unknown_name, wrong, wrong_if
from drpg_dspy.cli.chatter import OPTIMIZERS, quiet
from drpg_dspy.cli.learners import make_embedder, make_lm
from drpg_dspy.cli.methods import make_optimizer, read_pairs, read_settings
from drpg_dspy.constraints import Schedule
from drpg_dspy.continual import (
    BaseLM,
    Compiled,
    DefaultAnswers,
    InContext,
    Method,
    Prompt,
    Protocol,
    RegistryLearner,
    RunLog,
    SelfPlayLearner,
    gepa,
    miprov2,
    run_protocol,
)
from drpg_dspy.exceptions import BenchmarkDataMissing, StorageError
from drpg_dspy.plain import digest
from drpg_dspy.streaming import RunConfig
from drpg_dspy.streaming.attempts import is_passing
from drpg_dspy.streaming.refusals import refusal

__all__ = [
    "DEFAULTS",
    "OWN_METHODS",
    "check_judge",
    "find_runs",
    "read_defaults",
    "recap_root",
    "run",
]

DEFAULTS = "defaults.json"
"""File of a run with its default answers, and their verdicts on what the schedule deletes."""


OWN_METHODS: Mapping[str, Callable[..., Any]] = {
    "base": BaseLM,
    "icl": InContext,
    "gepa": gepa,
    "miprov2": miprov2,
}
"""Methods of this command alone; the others are online optimizers."""

# Answers are cut on purpose, and MIPROv2 passes its proposer fields that it does not use.
_EXPECTED = dict.fromkeys(("dspy.clients.lm", "dspy.predict.predict", "optuna"), logging.ERROR)
_GO_ON = "the same command goes on from here."
_SELF_PLAY = {"tasks"}
"""Arguments of self-play, given with ``--set`` among those of the method."""


def recap_root() -> Path:
    """Return where runs are kept: ``DRPG_RECAP``, else ``.drpg/recap``."""
    return Path(os.environ.get("DRPG_RECAP") or Path(".drpg") / "recap")


def run(options: Mapping[str, Any]) -> None:
    """Do what ``drpg recap`` does with its options by name."""
    recap = importlib.import_module("programs.recap")
    with wrong_if("--schedule", ValueError):
        schedule: Schedule = recap.schedule(options["schedule"])
    prompts = _prompts(recap, options)
    judge = _judge(options, lambda raised: bool(refusal(raised)) or is_passing(raised))
    make = _method(options, recap.program)
    settings = _settings(options, schedule, prompts, judge.version)
    with wrong_if("--name", ValueError):
        folder = _folder(options["name"] or _default_name(options, schedule))
    with quiet({**OPTIMIZERS, **_EXPECTED}), redirect_stdout(io.StringIO()):  # MIPROv2 prints
        lm = make_lm(options["lm"], options)
        log = _open(folder, settings, overwrite=options["overwrite"])
        protocol = Protocol(schedule, prompts, judge, options["full_information"])
        with _goes_on_later():
            _default_verdicts(folder, lm, options, recap.program(), protocol)
            run_protocol(
                make,
                protocol,
                log,
                lm,
                adapt_lm=lm.copy(max_tokens=options["adapt_tokens"]),
                progress=lambda line: click.echo(f"{folder.name}: {line}", err=True),
                threads=options["threads"],
            )
    _warn(log, judge.counts)
    click.echo(f"{folder.name} is finished: drpg recap-report {folder.name}")


def _warn(log: RunLog, counts: Mapping[str, int]) -> None:
    """Say what a finished run's figures rest on where that is less than they seem to."""
    answers = [record for record in log.lines() if record["kind"] == "answer"]
    errors = [record["error"] for record in answers if record["error"]]
    if errors:
        click.echo(
            f"{len(errors)} of {len(answers)} answers failed and meet nothing; the first: "
            f"{errors[0]}",
            err=True,
        )
    checks = [check for record in answers for check in record["checks"]]
    unjudged = sum(check["satisfied"] is None for check in checks)
    if unjudged:
        reasons = [name.replace("_", " ") for name in ("nonsense", "no_judge") if counts.get(name)]
        why = f": {', '.join(reasons)}" if reasons else ""
        click.echo(f"{unjudged} of {len(checks)} checks were not judged{why}.", err=True)


@contextmanager
def _goes_on_later() -> Iterator[None]:
    """Say in a line why a run stops where it can be continued."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted; {_GO_ON}") from None
    except Exception as raised:
        if said := refusal(raised):
            raise Stopped(f"{said} Then {_GO_ON}") from raised
        if is_passing(raised):
            why = f"{type(raised).__name__}: {raised}"
            raise Stopped(f"The language model is out of reach ({why}). Later {_GO_ON}") from raised
        raise


def check_judge(spec: str) -> None:
    """Do what ``drpg recap-judge`` does.

    Raises:
        Stopped: The judge agrees on too few cases.
    """
    constraints = importlib.import_module("evaluators.constraints")
    judge = _judge({"judge_lm": spec})
    found = constraints.agreement(judge)
    click.echo(
        f"{judge.version}: agrees on {found.agreed} of {found.n}, kappa {found.kappa:.2f}, "
        f"{found.not_judged} not judged."
    )
    if found.wrong:
        click.echo(f"Otherwise judged: {', '.join(found.wrong)}.")
    if not found.enough:
        least = f"{constraints.LEAST_AGREEMENT:.0%}"
        raise Stopped(f"That is less than {least}: take another judge.")


def find_runs(given: Sequence[str]) -> list[RunLog]:
    """Return runs by name, pattern or folder.

    Raises:
        click.BadParameter: One names no run.
    """
    root = recap_root()
    known = sorted(path.parent.name for path in root.glob("*/config.json"))
    found: dict[Path, RunLog] = {}
    for name in given:
        matches = [root / match for match in fnmatch.filter(known, name)]
        if (Path(name) / "config.json").is_file():
            matches = [Path(name)]
        if not matches:
            raise wrong("RUNS", unknown_name("run of drpg recap", name, known))
        for path in matches:
            found.setdefault(path.absolute(), RunLog(path))
    return list(found.values())


def _prompts(recap: Any, options: Mapping[str, Any]) -> tuple[Prompt, ...]:
    count, seed, data = options["prompts_per_step"], options["seed"], options["data"]
    try:
        with wrong_if("--prompts-per-step", ValueError):
            examples = recap.load_prompts(data, count, seed, options["hub"])
    except BenchmarkDataMissing as error:
        if data is None and options["hub"] is None:
            raise
        raise wrong("--hub" if options["hub"] else "--data", error) from error
    return tuple(Prompt(one.id, one.prompt) for one in examples)


def _judge(options: Mapping[str, Any], raises: Callable[[Exception], bool] | None = None) -> Any:
    constraints = importlib.import_module("evaluators.constraints")
    spec = options["judge_lm"]
    lm = make_lm(spec, {"temperature": 0.0, "max_tokens": 200}, "--judge-lm") if spec else None
    return constraints.ConstraintJudge(lm, raises=raises)


def _method(options: Mapping[str, Any], program: Callable[[], dspy.Module]) -> Callable[[], Method]:
    """Return what builds the method; a mistake in its arguments shows at once."""
    name = options["optimizer"]
    given = read_pairs("--set", options["settings"])
    if name in OWN_METHODS:
        make = OWN_METHODS[name]
        known = set(inspect.signature(make).parameters) - {"program"}
        shared = {"tasks", "max_tokens"} if name in ("gepa", "miprov2") else set()
        for key in given:
            if key not in known | shared:
                takes = ", ".join(sorted(known | shared)) or "nothing"
                raise wrong("--set", f"{name} takes no argument {key!r}. It takes: {takes}.")
        own = {key: value for key, value in given.items() if key in known}
        rest = {key: value for key, value in given.items() if key not in known}
        if name in ("base", "icl"):
            return _checked(lambda: make(program(), **own))
        return _checked(lambda: Compiled(program(), make(**own), name=name, **rest))
    return _online(options, program, given)


def _online(
    options: Mapping[str, Any], program: Callable[[], dspy.Module], given: Mapping[str, Any]
) -> Callable[[], Method]:
    name = options["optimizer"]
    if ":" not in name and name not in (classes := names.optimizer_classes()):
        raise wrong("--optimizer", unknown_name("method", name, [*OWN_METHODS, *classes]))
    play = {key: value for key, value in given.items() if key in _SELF_PLAY}
    pairs = [pair for pair in options["settings"] if pair.partition("=")[0] not in _SELF_PLAY]
    arguments = read_settings(name, pairs, None, names.benchmark("recap"))
    config = RunConfig("recap", name, arguments, lm=options["lm"])
    embedder = make_embedder(options["embedder"])

    def build() -> Method:
        optimizer = make_optimizer(config)
        if RegistryLearner.serves(optimizer):
            return RegistryLearner(program(), optimizer, embedder=embedder)
        return SelfPlayLearner(program(), optimizer, embedder=embedder, **play)

    return _checked(build)


def _checked(build: Callable[[], Method]) -> Callable[[], Method]:
    with wrong_if("--set", ValueError, TypeError):
        build()
    return build


def _settings(
    options: Mapping[str, Any], schedule: Schedule, prompts: Sequence[Prompt], judge: str
) -> dict[str, Any]:
    kept = (
        *("optimizer", "lm", "temperature", "max_tokens", "adapt_tokens"),
        *("seed", "embedder", "threads"),
    )
    return {
        **{name: options[name] for name in kept},
        "options": read_pairs("--set", options["settings"]),
        "schedule": schedule.to_plain(),
        "schedule_name": str(options["schedule"]),
        "judge_lm": options["judge_lm"],
        "prompts": {prompt.id: prompt.text for prompt in prompts},
        "full_information": options["full_information"],
        "judge": judge,
        "data": str(options["data"]) if options["data"] else None,
        "versions": {
            "drpg-dspy": metadata.version("drpg-dspy"),
            "dspy": metadata.version("dspy"),
            "python": platform.python_version(),
        },
    }


def _default_name(options: Mapping[str, Any], schedule: Schedule) -> str:
    lm = str(options["lm"]).rsplit("/", 1)[-1]
    method = "-".join([options["optimizer"], *options["settings"]])
    text = f"recap-{schedule.name}-{method}-{lm}-{options['seed']}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100]


def _folder(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError(
            f"{name!r} is no name for a run: use letters, digits, '.', '-' and '_' (at most 100), "
            "with a letter or digit first."
        )
    return recap_root() / name


def _open(folder: Path, settings: Mapping[str, Any], *, overwrite: bool) -> RunLog:
    if overwrite and (folder / "config.json").is_file():
        with RunLog(folder).lock():
            shutil.rmtree(folder)
    elif folder.is_dir() and any(folder.iterdir()) and not (folder / "config.json").is_file():
        raise StorageError(f"{folder} holds something that is no run; choose another name.")
    return RunLog(folder, settings)


def _default_verdicts(
    folder: Path, lm: dspy.BaseLM, options: Mapping[str, Any], program: dspy.Module, run: Protocol
) -> None:
    """Write down how the model fares on deleted constraints when nothing is asked for."""
    path = folder / DEFAULTS
    if path.exists():
        return
    settings = {name: options[name] for name in ("temperature", "max_tokens")}
    settings["program"] = digest(str(program.predictors()[0].signature))
    found = DefaultAnswers(folder.parent / "defaults", lm, settings)
    new = sum(prompt.text not in found.known() for prompt in run.prompts)
    if new:
        click.echo(f"{folder.name}: {new} answers without any constraint, once a model", err=True)
    answers = found.answers(program, run.prompts)
    texts = {prompt.id: prompt.text for prompt in run.prompts}
    recap = importlib.import_module("evaluators.recap")
    verdicts = recap.default_verdicts(answers, texts, run.schedule, run.check)
    rows = [
        {"type": kind, "text": text, "verdicts": {k: None if v != v else v for k, v in by.items()}}
        for (kind, text), by in verdicts.items()
    ]
    draft = folder / f".{DEFAULTS}.{os.getpid()}"
    draft.write_text(json.dumps({"answers": answers, "verdicts": rows}), encoding="utf-8")
    os.replace(draft, path)


def read_defaults(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Return the default verdicts of a run, as :mod:`evaluators.recap` wants them."""
    path = folder / DEFAULTS
    rows = json.loads(path.read_text(encoding="utf-8"))["verdicts"] if path.exists() else []
    return {
        (row["type"], row["text"]): {
            name: math.nan if met is None else float(met) for name, met in row["verdicts"].items()
        }
        for row in rows
    }
