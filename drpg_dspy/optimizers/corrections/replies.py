"""One question to a language model, one reply, whatever it looks like."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import dspy
import json_repair
from dspy.utils.exceptions import AdapterParseError

from drpg_dspy.plain import sendable

__all__ = ["ask", "read"]

_MAX_REPLY_CHARS = 20_000  # beyond this a reply is a loop
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)
_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\s*\n?(.*?)(?=\[\[ ## \w+ ## \]\]|\Z)", re.DOTALL)


class _OneReply(dspy.JSONAdapter):
    """Asks for an object, constrained where the server can, and hands the reply on as it is."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        super().__init__()
        self.schema = schema

    def _prepare_response_format(self, lm: Any, lm_kwargs: dict[str, Any], signature: Any) -> None:
        if "response_format" not in lm.supported_params or not lm.supports_response_schema:
            return
        schema = {
            "type": "object",
            "properties": dict(self.schema),
            "required": list(self.schema),
            "additionalProperties": False,
        }
        lm_kwargs["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": schema},
        }

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        return dict.fromkeys(signature.output_fields, completion)


def ask(signature: Any, schema: Mapping[str, Any], **inputs: Any) -> str:
    """Call the configured LM exactly once and return its raw reply.

    The call is no part of the program: it is not traced.

    Args:
        signature: What is asked.
        schema: JSON schema of each output field.
        **inputs: The signature's inputs.
    """
    first = next(iter(signature.output_fields))
    with dspy.context(adapter=_OneReply(schema), trace=None):
        try:
            reply = dspy.Predict(signature)(**sendable(inputs))[first]
        except AdapterParseError as error:  # DSPy refuses an empty completion by itself
            reply = error.lm_response
    return reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False, default=str)


def read(reply: str) -> dict[str, Any]:
    """Return the fields of a reply: JSON, bare, fenced or cut off, or a chat's field markers.

    >>> read('Here it is: {"step": 2, "reason": "cut o')
    {'step': 2, 'reason': 'cut o'}
    >>> read("I cannot help with that.")
    {}
    """
    text = reply[:_MAX_REPLY_CHARS]
    fenced = _FENCE.search(text)
    body = (fenced.group(1) if fenced else text).strip()
    start = body.find("{")
    if start >= 0:
        value = _json(body[start:])
        if isinstance(value, dict) and value:
            return {str(key): item for key, item in value.items()}
    marked = {name: value.strip() for name, value in _FIELD.findall(text) if name != "completed"}
    return {name: _json(value) if value[:1] in "[{" else value for name, value in marked.items()}


def _json(text: str) -> Any:
    if not text:
        return ""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (json.JSONDecodeError, RecursionError):
        return json_repair.loads(text)
