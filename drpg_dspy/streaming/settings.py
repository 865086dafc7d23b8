"""What must not change while a run is continued."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.memory.base import Memory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.plain import dumps
from drpg_dspy.streaming.position import last_step
from drpg_dspy.streaming.schedule import fingerprint

__all__ = [
    "SETTINGS_KEY",
    "check_data",
    "check_length",
    "check_settings",
    "identity",
    "lm_identity",
    "settle",
    "shorten",
]

SETTINGS_KEY = "stream:settings"

_LM_OPTIONS = ("temperature", "max_tokens", "max_completion_tokens", "top_p", "seed", "n")


def settle(
    memory: Memory,
    learner: OnlinePolicyOptimizer,
    examples: Sequence[dspy.Example],
    metric: Any,
    delay: int,
) -> None:
    """Write down a run's settings at its start, and check them when it is continued.

    More examples than before are welcome as long as the stream begins with the same ones.

    Raises:
        ResumeMismatch: Something differs; the message prints the stored and the given value.
        StorageError: An input of an example cannot be recorded.
    """
    given = {
        "optimizer": identity(learner.optimizer),
        "program": type(learner.program).__name__,
        "lm": _program_lms(learner),
        "judge": identity(metric, depth=0),
        "delay": delay,
        "threshold": memory.threshold,
        "examples": len(examples),
        "data": fingerprint(examples),
    }
    text = memory.get_meta(SETTINGS_KEY)
    if text is not None:
        stored = json.loads(text)
        kept = min(int(stored["examples"]), len(examples))
        begins_alike = kept < len(examples) and fingerprint(examples[:kept]) == stored["data"]
        growing = {"examples", "data"} if begins_alike else set()
        check_settings(stored, {k: v for k, v in given.items() if k not in growing})
    if text is None or json.loads(text) != json.loads(dumps(given)):
        memory.set_meta(SETTINGS_KEY, dumps(given))


def shorten(memory: Memory, examples: Sequence[dspy.Example], length: int) -> None:
    """Let a run's stream end sooner than it was to; that it ends later needs no word.

    Args:
        memory: The run.
        examples: Its stream as it was, or more of it.
        length: Examples from now on.

    Raises:
        ValueError: More steps than that were made.
        ResumeMismatch: These are not the run's examples.
    """
    check_length(memory, length)
    text = memory.get_meta(SETTINGS_KEY)
    if text is None:
        return
    stored = json.loads(text)
    before = int(stored["examples"])
    if length >= before:
        return
    check_settings(stored, {"data": fingerprint(examples[:before])})
    shorter = {"examples": length, "data": fingerprint(examples[:length])}
    memory.set_meta(SETTINGS_KEY, dumps({**stored, **shorter}))


def check_data(memory: Memory, examples: Sequence[dspy.Example]) -> None:
    """Refuse examples that a run's stream does not begin with.

    Raises:
        ResumeMismatch: They are others, or fewer; the message prints both values.
    """
    text = memory.get_meta(SETTINGS_KEY)
    if text is None:
        return
    stored = json.loads(text)
    before = int(stored["examples"])
    given = {"examples": min(before, len(examples)), "data": fingerprint(examples[:before])}
    check_settings(stored, given)


def check_length(memory: Memory, length: int) -> None:
    """Refuse a length that leaves out steps which were made already.

    Raises:
        ValueError: It does; the message names both numbers.
    """
    if length < (made := last_step(memory)):
        raise ValueError(
            f"{made} steps were made already, so the stream cannot end after {length}. Give at "
            f"least {made}, or start a new run under another name."
        )


def check_settings(stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Compare settings by name; names that only one side has are not compared.

    Raises:
        ResumeMismatch: Some differ; the message prints the stored and the given value of each.

    >>> check_settings({"seed": 42, "delay": 0}, {"seed": 7})
    Traceback (most recent call last):
    drpg_dspy.exceptions.ResumeMismatch: This run was started under other settings:
      seed: stored 42, given 7
    Give the stored values (or none) to continue it, or start a new run under another name.
    """
    plain = {name: json.loads(dumps(value)) for name, value in given.items()}
    differ = [name for name in plain if name in stored and stored[name] != plain[name]]
    if not differ:
        return
    lines = [f"  {name}: stored {stored[name]!r}, given {plain[name]!r}" for name in differ]
    raise ResumeMismatch(
        "This run was started under other settings:\n" + "\n".join(lines) + "\nGive the stored "
        "values (or none) to continue it, or start a new run under another name."
    )


def identity(value: Any, depth: int = 3) -> Any:
    """Return a stable plain name for a setting: an optimizer, judge, LM or plain value.

    An object names itself through an ``identity`` attribute. Otherwise a function is its
    module and name, an object its class with its public attributes; either with its ``version``
    where it has one.

    Args:
        value: The setting.
        depth: How far attributes are followed; 0 = the bare name.

    >>> identity(len), identity({"k": 4})
    ('builtins.len', {'k': 4})
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(getattr(value, "identity", None), str):
        return value.identity
    if isinstance(value, dspy.BaseLM):
        return lm_identity(value)
    if isinstance(value, functools.partial):
        bound = [*value.args, *value.keywords.items()]
        return [identity(value.func, depth), *(identity(bound, depth - 1) if depth else [])]
    if hasattr(value, "__qualname__"):
        return _named(value, f"{value.__module__}.{value.__qualname__}")
    if depth and isinstance(value, Mapping):
        return {str(key): identity(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [identity(item, depth - 1) for item in value]
    name = _named(value, f"{type(value).__module__}.{type(value).__qualname__}")
    params = (
        (value.get_params() if hasattr(value, "get_params") else _public(value)) if depth else {}
    )
    return {"class": name, **identity(params, depth)} if params else name


def lm_identity(lm: Any) -> str:
    """Return a language model's name with the options that change its answers.

    The address is left out: a local server gets a new port each time.
    """
    options = getattr(lm, "kwargs", {})
    shown = [f"{name}={options[name]}" for name in _LM_OPTIONS if options.get(name) is not None]
    return " ".join([str(getattr(lm, "model", type(lm).__name__)), *shown])


def _program_lms(learner: OnlinePolicyOptimizer) -> list[str]:
    lms = {
        lm_identity(predictor.lm or dspy.settings.lm)
        for _, predictor in learner.program.named_predictors()
        if predictor.lm or dspy.settings.lm
    }
    return sorted(lms)


def _named(value: Any, name: str) -> str:
    version = getattr(value, "version", None) or getattr(value, "__version__", None)
    return f"{name} {version}" if isinstance(version, (str, int, float)) else name


def _public(value: Any) -> dict[str, Any]:
    fields = {} if not hasattr(value, "__dict__") else vars(value)
    return {name: item for name, item in fields.items() if not name.startswith("_")}
