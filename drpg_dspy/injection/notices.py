"""What would otherwise go wrong in silence, said once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from drpg_dspy.injection.slot import SLOT

__all__ = ["foreign_adapter", "name_strangers", "shown_in_prompt", "warn_once"]

logger = logging.getLogger("drpg_dspy.injection")

# Texts only: a program saved by value carries this module's globals with it.
_SAID: set[str] = set()
_CHECKED: set[str] = set()


def warn_once(about: str, message: str, *args: Any) -> None:
    """Log a warning unless one was logged about the same thing in this process."""
    if about not in _SAID:
        _SAID.add(about)
        logger.warning(message, *args)


def foreign_adapter() -> bool:
    """True under an adapter that is not one of DSPy's, which all show every field."""
    adapter = dspy.settings.adapter
    return adapter is not None and type(adapter).__module__.split(".")[0] != "dspy"


@contextmanager
def shown_in_prompt(
    text: str, route: str, in_instructions: bool, what: str = "policy"
) -> Iterator[None]:
    """Check that a text reaches the messages sent, once for each adapter class and route."""
    adapter = type(dspy.settings.adapter)
    about = f"{adapter.__module__}.{adapter.__qualname__}/{route}/{in_instructions}/{what}"
    if about in _CHECKED:
        yield
        return
    probe = _Probe(text)
    try:
        with dspy.context(callbacks=[*dspy.settings.callbacks, probe]):
            yield
    except (KeyError, IndexError, ValueError) as error:
        if in_instructions and not probe.prompts and ("{" in text or "}" in text):
            error.add_note(
                f"The policy of route {route!r} holds braces and stands in the instructions, which "
                f'{adapter.__name__} may format as a template; attach with placement="input".'
            )
        raise
    if probe.prompts:
        _CHECKED.add(about)
    if probe.prompts and not probe.found:
        remedy = (
            "show the signature's instructions in its prompt"
            if in_instructions
            else 'attach with placement="instructions", or name the field in its template'
        )
        if what != "policy":
            remedy = "declare a ShotsField() in the signature and name it in its template"
        warn_once(
            about,
            "The %s of route %r is in none of the messages that %s sends: %s.",
            what,
            route,
            adapter.__qualname__,
            remedy,
        )


class _Probe(BaseCallback):
    """Looks for a text in what is sent."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())  # adapters indent the instructions
        self.prompts = 0
        self.found = False

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.prompts += 1
        said = [inputs.get("prompt"), *(m.get("content") for m in inputs.get("messages") or ())]
        self.found = self.found or self.text in " ".join(" ".join(map(_plain, said)).split())


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(block.get("text", "")) for block in content)
    return content if isinstance(content, str) else ""


def name_strangers(lm: Any) -> None:
    """Warn when the predictor that is calling a model was never attached."""
    callers = dspy.settings.caller_modules or []
    if not callers or not isinstance(callers[-1], dspy.Predict) or SLOT in callers[-1].__dict__:
        return
    *makers, stranger = callers
    if makers and isinstance(makers[-1], dspy.Refine):
        return  # it asks a predictor of its own for advice
    kind = f"{type(stranger).__name__}({stranger.signature.signature})"
    warn_once(
        f"stranger/{kind}",
        "%s, called in %s, is not attached and runs without a policy. A predictor made inside "
        "forward cannot be reached: make it in __init__, or call attach on it.",
        kind,
        type(makers[-1]).__name__ if makers else "a function",
    )
