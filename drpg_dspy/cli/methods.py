"""From the settings of a run to its method."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.arguments import takes_no
from drpg_dspy.cli import names
from drpg_dspy.cli.app import unknown_name, wrong, wrong_if
from drpg_dspy.constraints import Constraint
from drpg_dspy.optimizers import Combined, ConstraintAdapter, Holdout, OnlineOptimizer
from drpg_dspy.retrieval.contrastive import Contrastive
from drpg_dspy.streaming import RunConfig
from drpg_dspy.types import Benchmark

__all__ = [
    "check_options",
    "make_optimizer",
    "odd_split",
    "read_constraints",
    "read_pairs",
    "read_settings",
]


def read_settings(
    optimizer: str, settings: Sequence[str], k: int | None, benchmark: Benchmark
) -> dict[str, Any]:
    """Read ``--set KEY=VALUE`` and ``--k`` into an optimizer's arguments, as plain JSON.

    Values are JSON where they can be read as such (``true``, ``3``, ``null``), else text.

    Raises:
        click.BadParameter: No ``=``, a key that the method does not take, or a key given twice.
    """
    accepted = set(inspect.signature(names.optimizer_class(optimizer)).parameters)
    options = read_pairs("--set", settings)
    if "policy_lm" in options:
        raise wrong("--set", "Give policy_lm as --policy-lm SPEC.")
    if k is not None:
        if "k" in options:
            raise wrong("--k", "Give either --k or --set k=…, and not both.")
        check_options(optimizer, {"k": k}, accepted, "--k")
        options["k"] = k
    elif "k" in accepted:
        options.setdefault("k", benchmark.k)
    if "category" in accepted and benchmark.category is not None:
        kind = benchmark.category
        options.setdefault("category", f"{kind.__module__}:{kind.__qualname__}")
    check_options(optimizer, options, accepted)
    return options


def read_pairs(option: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Read ``KEY=VALUE`` settings; values are JSON where they can be read as such.

    Raises:
        click.BadParameter: No ``=``, or a key given twice.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise wrong(option, f"Expected KEY=VALUE, got {pair!r}.")
        if key in values:
            raise wrong(option, f"{key!r} was given twice.")
        values[key] = _value(value)
    return values


def read_constraints(pairs: Sequence[str]) -> dict[str, str]:
    """Read ``TYPE=TEXT`` constraints.

    Raises:
        click.BadParameter: No ``=``, an unknown type, or one given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        kind, equals, text = pair.partition("=")
        if not equals:
            raise wrong("--constraint", f"Expected TYPE=TEXT, got {pair!r}.")
        with wrong_if("--constraint", ValueError):
            one = Constraint(kind, text)
        if one.type in found:
            raise wrong("--constraint", f"{one.type} was given twice.")
        found[one.type] = text
    return found


def check_options(
    optimizer: str, options: Mapping[str, Any], accepted: set[str], option: str = "--set"
) -> None:
    """Refuse arguments that a method does not take.

    Raises:
        click.BadParameter: Names the argument, the one that may have been meant, and all.
    """
    known = accepted - {"policy_lm"}  # which has an option of its own
    for key in options:
        if key not in accepted:
            raise wrong(option, takes_no(optimizer, key, known))


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text.lower() in {"true", "false"} else text)
    except json.JSONDecodeError:
        return text


def make_optimizer(
    config: RunConfig,
    policy_lm: dspy.BaseLM | None = None,
    agents: Callable[[str], dspy.BaseLM | None] = lambda spec: None,
) -> OnlineOptimizer:
    """Return the method that a run's settings describe.

    Args:
        config: The settings.
        policy_lm: Who writes policies; ``None`` = who answers.
        agents: Gives the LM of a spec, for a method with several that answer in turn.

    Raises:
        click.BadParameter: Names the option whose value cannot be used.
    """
    name, arguments = config.optimizer, dict(config.options)
    method = names.optimizer_class(name)
    accepted = set(inspect.signature(method).parameters)
    check_options(name, arguments, accepted)
    if config.policy_lm and "policy_lm" not in accepted:
        raise wrong("--policy-lm", f"{name} has no LM of its own: leave it out.")
    if policy_lm is not None:
        arguments["policy_lm"] = policy_lm
    with wrong_if("--set", ValueError, TypeError):
        if ":" in str(arguments.get("category") or ""):
            arguments["category"] = names.import_from_here(arguments["category"], "--set")
        if arguments.get("writer") is not None:
            arguments["writer"] = _writer(arguments["writer"])
        if "lms" in arguments:
            arguments["lms"] = [agents(spec) for spec in _specs(arguments["lms"])]
        elif "lms" in accepted:
            raise wrong("--set", f"{name} needs its models: --set lms=SPEC,SPEC")
        optimizer = _under_constraints(method, arguments, config.extra)
    share = config.extra.get("holdout")
    if share is None:
        return optimizer
    with wrong_if("--holdout", ValueError):
        return Holdout(optimizer, share=share)


def odd_split(config: RunConfig) -> str:
    """Say how an odd k is shared between right and wrong cases; ``""`` where nothing is split."""
    k = config.options.get("k")
    contrasts = "contrast" in inspect.signature(names.optimizer_class(config.optimizer)).parameters
    if not contrasts or not isinstance(k, int) or k % 2 == 0:
        return ""
    if config.options.get("contrast", "both") != "both":
        return ""
    right, wrong_ones = Contrastive(k).sides
    return (
        f"k = {k} is odd: policies are written from {wrong_ones} wrong and {right} right cases at "
        "most, the extra one on the right side."
    )


def _under_constraints(
    method: type[OnlineOptimizer], arguments: Mapping[str, Any], extra: Mapping[str, Any]
) -> OnlineOptimizer:
    """Return a method, under constraints where a run has some."""
    own = {name: extra[name] for name in ("constraints", "repair") if extra.get(name) is not None}
    if issubclass(method, ConstraintAdapter):
        if twice := sorted(own.keys() & arguments.keys()):
            raise ValueError(f"{twice[0]} was given twice: by --set and by an option of its own.")
        return method(**{**arguments, **own})
    if "constraints" in own:
        return Combined(ConstraintAdapter(**own), method(**arguments))
    if own:
        raise ValueError("--repair needs a --constraint, or --optimizer constraints.")
    return method(**arguments)


def _specs(given: Any) -> list[str]:
    specs = given.split(",") if isinstance(given, str) else given
    if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
        raise ValueError(f"lms must be models, as in lms=openai/gpt-4.1,local/NAME; got {given!r}.")
    return [spec.strip() for spec in specs if spec.strip()]


def _writer(word: Any) -> Any:
    writers = names.writer_classes()
    if not isinstance(word, str) or word not in writers:
        raise wrong("--set", f"writer: {unknown_name('policy writer', str(word), writers)}")
    return writers[word]()
