"""The methods by the names that users type."""

from __future__ import annotations

import inspect

from drpg_dspy.optimizers.base import OnlineOptimizer

__all__ = ["optimizer_classes"]


def optimizer_classes() -> dict[str, type[OnlineOptimizer]]:
    """Return the methods by name, in alphabetical order.

    A guard around another method is no method of its own.

    >>> "drpg" in optimizer_classes()
    True
    """
    from drpg_dspy import optimizers

    exported = (getattr(optimizers, name) for name in optimizers.__all__)
    found = {
        cls.name: cls
        for cls in exported
        if inspect.isclass(cls)
        and issubclass(cls, OnlineOptimizer)
        and not inspect.isabstract(cls)
        and "optimizer" not in inspect.signature(cls).parameters
    }
    return dict(sorted(found.items()))
