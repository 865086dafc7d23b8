"""Language models that refuse every request: no key, no permission, no such model."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dspy.utils.exceptions import (
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMNotConfiguredError,
    LMUnsupportedModelError,
)

from drpg_dspy.streaming.attempts import causes

__all__ = ["refusal"]

_REFUSALS = (LMAuthError, LMBillingError, LMConfigurationError, LMUnsupportedModelError)
_NOT_FOUND = 404
_NO_PROVIDER = "LLM Provider NOT provided"  # LiteLLM has no class of its own for it


def refusal(error: Exception | None) -> str:
    """Say why no request to a language model can succeed before a person has mended something.

    Args:
        error: What a step raised, or ``None``.

    Returns:
        One sentence or two that name the model and the remedy as far as it is known; ``""`` for
        an error that another step may not meet.

    >>> refusal(LMUnsupportedModelError("there is none of that name", model="openai/gpt-9"))
    'openai/gpt-9 cannot be used: there is none of that name.'
    >>> refusal(TimeoutError())
    ''
    """
    for cause in causes(error) if error is not None else ():
        if isinstance(cause, LMError) and _refuses(cause):
            return f"{_model(cause)} cannot be used: {_reason(cause)}"
    return ""


def _refuses(error: LMError) -> bool:
    if isinstance(error, LMInvalidRequestError) and not isinstance(error, _REFUSALS):
        return error.status == _NOT_FOUND or _NO_PROVIDER in str(error)
    return isinstance(error, _REFUSALS)


def _model(error: LMError) -> str:
    name = error.model or "the language model"
    # LiteLLM's errors leave the provider off.
    return f"{error.provider}/{name}" if error.provider and "/" not in name else name


def _reason(error: LMError) -> str:
    if _NO_PROVIDER in str(error):
        return "its provider is unknown. Write PROVIDER/MODEL, e.g. openai/gpt-4.1-mini."
    said = " ".join(error.message.partition("\n\n")[0].split()) or "it is not there"
    keys = " or ".join(_variables(error))
    if isinstance(error, LMNotConfiguredError) and keys:
        return f"no API key was found. Set {keys}."
    said = said if said.endswith((".", "!", "?")) else f"{said}."
    return f"{said} Check {keys}." if keys and keys not in said else said


def _variables(error: LMError) -> list[str]:
    """Return the environment variables that hold the model's credentials, where known."""
    known: Sequence[str] = getattr(error, "env_keys", ())
    if known:
        return list(known)
    litellm = sys.modules.get("litellm")
    if not isinstance(error, LMAuthError) or litellm is None:
        return []
    missing: list[str] = litellm.validate_environment(_model(error))["missing_keys"]
    return missing
