"""From a run's settings to its learner, and back to the same learner when it is resumed."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import dspy
from dspy.utils.exceptions import DSPyError

from drpg_dspy import weights
from drpg_dspy.cli import names
from drpg_dspy.cli.app import Stopped, wrong, wrong_if
from drpg_dspy.cli.embedders import other_embedder
from drpg_dspy.cli.lm import PullProgress
from drpg_dspy.cli.loading import checked, flags, loader_flags
from drpg_dspy.cli.methods import make_optimizer
from drpg_dspy.exceptions import BenchmarkDataMissing, ModelNotFound
from drpg_dspy.local_lm import resolve_lm
from drpg_dspy.memory import Embedder, SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import Gated, OnlineOptimizer, Replay, Shadow, judged_by
from drpg_dspy.retrieval import HashingEmbedder, PackagedMiniLM, resolve_embedder
from drpg_dspy.retrieval.choice import ENVIRONMENT
from drpg_dspy.retrieval.embedder import BGE, MINILM
from drpg_dspy.streaming import RunConfig, RunFolder, stream_order
from drpg_dspy.tracking import JSONLTracker, MLflowTracker, Tracker
from drpg_dspy.types import Benchmark

__all__ = [
    "Stream",
    "check_data",
    "embedder_spec",
    "examples_of",
    "make_embedder",
    "make_lm",
    "open_learner",
    "prepare",
]

SCRIPTED = "scripted/"
LOCAL = "local/"
_FETCHED = {"default", "minilm", MINILM}


@dataclass(frozen=True, slots=True)
class Stream:
    """Everything that a run needs and that can be built before its folder is made.

    Attributes:
        benchmark: What is run.
        examples: In the order in which they are met.
        metric: The benchmark's judge.
        lm: Who answers.
        optimizer: The method, with its policy LM.
        embedder: Who embeds questions.
    """

    benchmark: Benchmark
    examples: tuple[Any, ...]
    metric: Any
    lm: dspy.BaseLM
    optimizer: OnlineOptimizer
    embedder: Embedder

    def close(self) -> None:
        """Close the judge, where it holds something."""
        if callable(close := getattr(self.metric, "close", None)):
            close()


def prepare(config: RunConfig, embedder: Embedder | None = None) -> Stream:
    """Build a run's parts from its settings; the caller closes them.

    Args:
        config: The settings.
        embedder: At hand already; ``None`` = the one that the settings name.

    Raises:
        click.BadParameter: A setting cannot be used; names the option that it came from.
        BenchmarkDataMissing: No place for the data was given, and it is in none of the usual.
        ModelNotFound: A local model is not there.
    """
    benchmark = checked(names.benchmark(config.benchmark))
    make_optimizer(config)  # a mistake shows before a model starts
    examples = examples_of(benchmark, config)
    lm = make_lm(str(config.lm), config.extra)
    writer = config.policy_lm
    policy_lm = make_lm(writer, config.extra, "--policy-lm") if writer else None

    def agent(spec: str) -> dspy.BaseLM | None:
        return None if spec == config.lm else make_lm(spec, config.extra, "--set")

    optimizer = make_optimizer(config, policy_lm, agent)
    embedder = embedder or make_embedder(config.embedder)
    metric = _metric(benchmark, config)
    if gate := config.extra.get("gate"):
        trial = Shadow() if gate == "shadow" else Replay()
        optimizer = Gated(optimizer, judged_by(examples, metric), trial=trial)
    return Stream(benchmark, examples, metric, lm, optimizer, embedder)


@contextmanager
def open_learner(
    folder: RunFolder, stream: Stream, *, tracked: bool = True
) -> Iterator[OnlinePolicyOptimizer]:
    """Open a run's learner under its LM; the caller closes it with the status to report.

    Raises:
        StorageError: Its steps are gone.
    """
    folder.check_whole()
    config = folder.config
    memory = SQLiteMemory(folder.memory_path, stream.embedder, threshold=config.threshold)
    learner = OnlinePolicyOptimizer(
        stream.benchmark.program(),
        stream.optimizer,
        memory=memory,
        tracker=_tracker(folder) if tracked else None,
        metric=stream.metric,
        name=folder.name,
        key=stream.benchmark.key,
    )
    learner.run_params = dict(_flat(config))
    # Caches stay off: a cached answer costs nothing and would make the counted tokens a lie.
    with dspy.context(lm=stream.lm):
        yield learner


def make_lm(spec: str, options: Mapping[str, Any], option: str = "--lm") -> dspy.BaseLM:
    """Return the LM that a spec names, uncached, with a run's temperature and reply length.

    A local model takes as many requests at once as the run has threads.

    ``scripted/MODULE:FUNCTION`` calls a function that returns an LM, found from the working
    directory; it is there for tests. Everything else is :func:`drpg_dspy.local_lm.resolve_lm`'s.

    Raises:
        click.BadParameter: It names no model, or the model does not take these settings.
        ModelNotFound: A local model was not pulled.
    """
    wanted = {name: options[name] for name in ("temperature", "max_tokens") if name in options}
    if not spec.startswith(SCRIPTED):
        side_by_side = {"parallel": options.get("threads", 1)} if spec.startswith(LOCAL) else {}
        with wrong_if([option, *flags(wanted)], DSPyError), wrong_if(option, ValueError):
            return resolve_lm(spec, cache=False, **wanted, **side_by_side)
    lm = names.import_from_here(spec.removeprefix(SCRIPTED), option)()
    if not isinstance(lm, dspy.BaseLM):
        raise wrong(option, f"{spec} returned {lm!r}, which is no dspy.BaseLM.")
    return lm.copy(cache=False, **wanted)


def make_embedder(spec: str | None) -> Embedder:
    """Return the embedder that a spec names; the packaged one is fetched where it is missing.

    Raises:
        click.BadParameter: The spec names none that can be loaded.
        ModelNotFound: The default or packaged one can be had from nowhere.
    """
    chosen, option = spec or "default", "--embedder"
    if chosen == "default" and (named := os.environ.get(ENVIRONMENT, "").strip()):
        chosen, option = named, f"{ENVIRONMENT}={named}"
    if not chosen.startswith("hashing") and importlib.util.find_spec("transformers"):
        from transformers.utils import logging

        logging.disable_progress_bar()  # of loading a file from disk; downloads keep theirs
    try:
        embedder = resolve_embedder(chosen)
    except ValueError as error:
        raise wrong(option, error) from error
    except ModelNotFound as error:
        if chosen not in _FETCHED:
            raise wrong(option, error) from error
        # A fresh machine without the hub: better 84 MB now than an error after the LM was pulled.
        weights.pull(MINILM, progress=PullProgress())
        embedder = resolve_embedder("minilm")
    if (spec or "default") == "default" and (used := embedder_spec(spec, embedder)) != BGE:
        click.echo(other_embedder(used), err=True)
    return embedder


def embedder_spec(spec: str | None, embedder: Embedder) -> str:
    """Return a spec that finds this very embedder again, whatever the default is by then."""
    if spec and spec != "default":
        return spec
    if isinstance(embedder, PackagedMiniLM):
        return "minilm"
    if isinstance(embedder, HashingEmbedder):
        return f"hashing:{embedder.dimension}"
    return os.environ.get(ENVIRONMENT, "").strip() or BGE


def examples_of(benchmark: Benchmark, config: RunConfig) -> tuple[Any, ...]:
    """Return a run's examples in the order in which they are met.

    Raises:
        click.BadParameter: The loader refuses a setting, or leaves no example.
        BenchmarkDataMissing: The data is not there.
    """
    options: dict[str, Any] = {}
    if config.exclude_db:
        options["exclude_db"] = config.exclude_db
    if config.extra.get("split"):
        options["split"] = config.extra["split"]
    options |= config.extra.get("load", {})
    examples = benchmark.load(config.data, **options)
    order = stream_order(len(examples), config.seed)
    if not order:
        raise wrong(
            loader_flags(options) or "BENCHMARK", f"No question of {benchmark.name} is left."
        )
    return tuple(examples[i] for i in order[: config.limit])


def check_data(config: RunConfig) -> None:
    """Read a run's data as the run would, and look whether the judge has what it needs.

    Raises:
        click.BadParameter: The loader refuses a setting, or leaves no example.
        BenchmarkDataMissing: The data, or a part that the judge needs, is not there.
    """
    benchmark = checked(names.benchmark(config.benchmark))
    examples = examples_of(benchmark, config)
    metric = _metric(benchmark, config)
    try:
        if callable(missing := getattr(metric, "missing", None)) and (lost := missing(examples)):
            given = f"--exclude-db {config.benchmark}={lost[0].partition(' ')[0]}"
            raise BenchmarkDataMissing(
                f"{benchmark.name}: nothing can be judged on {', '.join(lost)}. Leave their "
                f"questions out ({given}), or complete the data."
            )
    finally:
        if callable(close := getattr(metric, "close", None)):
            close()


def _metric(benchmark: Benchmark, config: RunConfig) -> Any:
    compare = names.compare_of(benchmark, config.compare)
    if compare is None:
        return benchmark.evaluator(config.data)
    return benchmark.evaluator(config.data, compare=compare)


def _tracker(folder: RunFolder) -> Tracker:
    extra = folder.config.extra
    if not extra.get("mlflow"):
        return JSONLTracker(folder.path / "history.jsonl")
    if importlib.util.find_spec("mlflow") is None:
        raise Stopped(
            f"Run {folder.name!r} reports to MLflow, which is not installed here: "
            "pip install 'drpg-dspy[mlflow]'."
        )
    return MLflowTracker(
        str(extra["experiment"]),
        tracking_uri=extra.get("tracking_uri"),
        run_name=folder.name,
        tags={"drpg.run_folder": str(Path(folder.path).absolute())},
    )


def _flat(config: RunConfig) -> Iterator[tuple[str, Any]]:
    """Yield the settings as a tracker shows them: one level, nothing that may hold a secret."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Mapping):
            prefix = "" if field.name in {"options", "extra"} else f"{field.name}."
            for key, item in value.items():
                if key != "tracking_uri":
                    yield f"{prefix}{key}", item
        elif isinstance(value, tuple):
            yield field.name, ", ".join(map(str, value))
        else:
            yield field.name, value
