"""A learner's call as DSPy's callbacks see it: a call of a module, not a compilation."""

from __future__ import annotations

from typing import Any

import dspy

__all__ = ["Learner"]


class Learner(dspy.Module):
    """Stands for a learner during one call.

    A learner is a module and a ``Teleprompter`` at once, and DSPy tells callbacks that any call
    of a teleprompter is a compilation: traces would lack the learner's span, in which the tags
    of a rollout are written, and a tracer that logs compilations would open a run for each
    answer. Shares the learner's history and callbacks; is never kept.

    Args:
        learner: Whose ``forward`` and ``aforward`` are called.
    """

    def __init__(self, learner: Any) -> None:
        super().__init__()
        self.history = learner.history
        self.callbacks = learner.callbacks
        self.learner = learner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Answer."""
        # Through the class: DSPy warns of a forward that is called on an instance.
        return type(self.learner).forward(self.learner, *args, **kwargs)

    async def aforward(self, *args: Any, **kwargs: Any) -> Any:
        """Answer asynchronously."""
        return await type(self.learner).aforward(self.learner, *args, **kwargs)
