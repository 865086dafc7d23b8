"""What is compared: a column is an offline optimizer, an online method, or one after the other."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter

from drpg_dspy.comparing.teleprompters import OFFLINE, OfflineTask, offline_named
from drpg_dspy.optimizers import OnlineOptimizer, ZeroShot
from drpg_dspy.optimizers.naming import optimizer_classes
from drpg_dspy.optimizers.offline import Offline
from drpg_dspy.streaming.settings import identity

__all__ = ["BASELINE", "Column", "columns_from"]

BASELINE = ZeroShot.name
"""The column that every other is measured against first."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,79}")


@dataclass(frozen=True, slots=True)
class Column:
    """One thing to compare.

    Attributes:
        name: Its name in the table.
        offline: Makes the optimizer that learns first; ``None`` = the program as it is.
        online: Makes the method that then meets the training examples as a stream; ``None`` =
            the program stays frozen.
        settings: What tells it from another column of that name, as plain values.
    """

    name: str
    offline: Callable[[OfflineTask], Offline] | None = None
    online: Callable[[], OnlineOptimizer] | None = None
    settings: Any = None

    @property
    def seeded(self) -> bool:
        """Whether an online method goes on from what an offline optimizer made."""
        return self.offline is not None and self.online is not None


def columns_from(
    optimizers: Iterable[Any] | Mapping[str, Any],
    *,
    k: int | None = None,
    policy_lm: dspy.BaseLM | None = None,
) -> list[Column]:
    """Return the columns that a user named.

    Args:
        optimizers: Each a name (``"drpg"``, ``"gepa"``, ``"gepa+drpg"``), an online method or its
            class, an :class:`~drpg_dspy.optimizers.offline.Offline` or optimizer of DSPy's, or a
            pair of one of these and an online method; or a mapping of names to such.
        k: Experiences retrieved by methods that are given as a name or class; ``None`` = their own.
        policy_lm: Writes policies for those; ``None`` = who answers.

    Raises:
        ValueError: There are none, one is not known, or two share a name.
    """
    given = dict(optimizers) if isinstance(optimizers, Mapping) else {}
    parts = list(given.values()) if given else optimizers
    if isinstance(parts, str):
        raise ValueError(f'optimizers must be a list, as in ["zero_shot", {parts!r}].')
    columns = [_column(part, k, policy_lm) for part in parts]
    if given:
        columns = [
            Column(name, column.offline, column.online, column.settings)
            for name, column in zip(given, columns, strict=True)
        ]
    if not columns:
        raise ValueError("optimizers must name at least one column, e.g. ['zero_shot', 'drpg'].")
    names = [column.name for column in columns]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"A column's name is letters, digits and ._+-, got {name!r}.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"Two columns are called {', '.join(twice)}; name them apart: "
            "optimizers={'drpg 8': DRPG(k=8), …} with names of your own."
        )
    return columns


def _column(part: Any, k: int | None, policy_lm: dspy.BaseLM | None) -> Column:
    if isinstance(part, str):
        return _named(part, k, policy_lm)
    if isinstance(part, Column):
        return part
    if isinstance(part, (tuple, list)) and len(part) == 2:
        first, second = (_column(item, k, policy_lm) for item in part)
        return _joined(first, second)
    if inspect.isclass(part) and issubclass(part, OnlineOptimizer):
        make = _online(part, k, policy_lm)
        return Column(part.name, online=make, settings=identity(make()))
    if isinstance(part, OnlineOptimizer):
        return Column(part.name, online=part.fresh, settings=identity(part))
    if isinstance(part, Teleprompter) and not isinstance(part, dspy.Module):
        part = Offline(part)
    if isinstance(part, Offline):
        return Column(part.name, offline=_always(part), settings=repr(part))
    raise ValueError(
        f"An optimizer to compare is a name ({_known()}), an online method such as DRPG(k=16), "
        f"one of DSPy's optimizers, or a pair of these; got {part!r}."
    )


def _named(name: str, k: int | None, policy_lm: dspy.BaseLM | None) -> Column:
    first, plus, second = name.partition("+")
    if plus:
        return _joined(_named(first, k, policy_lm), _named(second, k, policy_lm))
    if name in OFFLINE:
        return Column(name, offline=lambda task: offline_named(name, task), settings=name)
    classes = optimizer_classes()
    if name not in classes:
        close = difflib.get_close_matches(name, [*classes, *OFFLINE], n=1, cutoff=0.5)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"There is no optimizer {name!r}.{meant} Known: {_known()}, or two as in a+b."
        )
    return _column(classes[name], k, policy_lm)


def _online(
    kind: type[OnlineOptimizer], k: int | None, policy_lm: dspy.BaseLM | None
) -> Callable[[], OnlineOptimizer]:
    accepted = inspect.signature(kind).parameters
    arguments: dict[str, Any] = {}
    if k is not None and "k" in accepted:
        arguments["k"] = k
    if policy_lm is not None and "policy_lm" in accepted:
        arguments["policy_lm"] = policy_lm
    required = [
        name
        for name, parameter in accepted.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if missing := [name for name in required if name not in arguments]:
        raise ValueError(
            f"{kind.name} needs {', '.join(missing)}: give an instance, {kind.__name__}(…)."
        )
    return lambda: kind(**arguments)


def _joined(first: Column, second: Column) -> Column:
    if first.offline is None or first.online is not None or second.online is None:
        raise ValueError(
            f"In {first.name}+{second.name} the first must learn offline (gepa, miprov2, …) and "
            "the second online (drpg, …)."
        )
    if second.offline is not None:
        raise ValueError(f"Two optimizers can follow one another, not three: {second.name!r}.")
    return Column(
        f"{first.name}+{second.name}",
        first.offline,
        second.online,
        [first.settings, second.settings],
    )


def _always(part: Offline) -> Callable[[OfflineTask], Offline]:
    return lambda task: part


def _known() -> str:
    return ", ".join(sorted({*optimizer_classes(), *OFFLINE}))
