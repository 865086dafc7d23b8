"""What a version in MLflow's prompt registry says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["template_text", "version_text", "wording"]

_TEXT_TAG = "mlflow.prompt.text"
_TYPE_TAG = "_mlflow_prompt_type"
_BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,3}[.)])\s+", re.MULTILINE)


def version_text(tags: Mapping[str, str]) -> str:
    """Return the text of a version, of which the registry has the tags."""
    text = str(tags.get(_TEXT_TAG, ""))
    return template_text(json.loads(text)) if tags.get(_TYPE_TAG) == "chat" else text


def template_text(template: Any) -> str:
    """Return a prompt's text; of a chat prompt, which has a list of messages, what these say.

    >>> template_text([{"role": "system", "content": "- Quote names."}])
    '- Quote names.'
    """
    if isinstance(template, str):
        return template
    return "\n".join(str(message.get("content", "")) for message in template)


def wording(text: str) -> str:
    r"""Return a policy's words alone: how its rules are set out makes no other policy of it.

    >>> wording("* Quote  names.\n\n2. No CROSS JOIN.")
    'Quote names. No CROSS JOIN.'
    """
    return " ".join(_BULLET.sub("", text).split())
