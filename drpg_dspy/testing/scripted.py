"""A language model that a function plays: deterministic, offline, thread-safe."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import dspy
from dspy import lm15
from dspy.lm15 import Request, Response

__all__ = ["ScriptedLM", "fields"]

Message = dict[str, str]
_PIECE = 4  # characters of a streamed reply that arrive together

Script = Callable[[list[Message]], str]


def fields(**values: Any) -> str:
    r"""Format a reply as DSPy's ChatAdapter expects it.

    >>> fields(answer="42")
    '[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]'
    """
    parts = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]"])


class ScriptedLM(dspy.LM):
    """A ``dspy.LM`` whose replies a function computes from the messages.

    The function sees the messages as ``[{"role": …, "content": …}]`` and returns the reply's
    text, or raises to play a dead server. An image or a file in a message stands in its content
    as one line, ``[image image/png 4 bytes 9f86d081]``, with the begin of its SHA-256. A streamed
    reply arrives in pieces of four characters. Same prompt, same reply, from any number of threads;
    no cache unless asked for. Token counts are words.

    Args:
        script: The function, or a list of replies used in order (the last one repeats).
        model: Name shown in usage and traces.
        cache: Let DSPy cache replies.

    Attributes:
        prompts: Every list of messages it was sent, in order of arrival.

    >>> lm = ScriptedLM(lambda messages: fields(answer="42"))
    >>> dspy.Predict("question -> answer")(question="6 x 7?", lm=lm).answer
    '42'
    >>> len(lm.prompts)
    1
    """

    def __init__(
        self, script: Script | Sequence[str], model: str = "scripted/lm", cache: bool = False
    ) -> None:
        engine = _ScriptedEngine(script)
        super().__init__(
            model,
            engine=engine,
            async_engine=_AsyncScriptedEngine(engine),
            cache=cache,
            num_retries=0,
            temperature=0.0,
            max_tokens=1024,
        )
        self.script_engine = engine

    @property
    def prompts(self) -> list[list[Message]]:
        """Every list of messages sent so far."""
        return self.script_engine.prompts

    def texts(self) -> list[str]:
        """Every prompt as one text, messages joined by blank lines."""
        return ["\n\n".join(m["content"] for m in prompt) for prompt in self.prompts]


class _ScriptedEngine:
    def __init__(self, script: Script | Sequence[str]) -> None:
        self.script: Script = script if callable(script) else _Replies(script)
        self.prompts: list[list[Message]] = []

    def complete(self, request: Request) -> Response:
        messages: list[Message] = []
        if request.system is not None:
            system = request.system
            text = system if isinstance(system, str) else "".join(p.text for p in system)
            messages.append({"role": "system", "content": text})
        messages.extend({"role": m.role, "content": _content(m)} for m in request.messages)
        self.prompts.append(messages)
        reply = self.script(messages)
        return Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant([lm15.TextPart(reply)]),
            finish_reason="stop",
            usage=lm15.Usage(
                input_tokens=sum(len(m["content"].split()) for m in messages),
                output_tokens=len(reply.split()),
            ),
        )

    def stream(self, request: Request) -> Any:
        for event in lm15.response_to_events(self.complete(request)):
            text = getattr(getattr(event, "delta", None), "text", "")
            if not text:
                yield event
            for start in range(0, len(text), _PIECE):
                piece = dataclasses.replace(event.delta, text=text[start : start + _PIECE])
                yield dataclasses.replace(event, delta=piece)

    def close(self) -> None:
        """Nothing is held open."""


def _content(message: lm15.Message) -> str:
    return "\n".join(map(_shown, message.parts))


def _shown(part: Any) -> str:
    if isinstance(part, lm15.TextPart):
        return str(part.text)
    if data := getattr(part, "data", None):
        raw = base64.b64decode(data)
        name = hashlib.sha256(raw).hexdigest()[:8]
        return f"[{part.type} {part.media_type} {len(raw)} bytes {name}]"
    return f"[{part.type} {getattr(part, 'url', None) or getattr(part, 'file_id', None) or ''}]"


class _AsyncScriptedEngine:
    def __init__(self, sync: _ScriptedEngine) -> None:
        self.sync = sync

    async def complete(self, request: Request) -> Response:
        return self.sync.complete(request)

    async def stream(self, request: Request) -> Any:
        for event in self.sync.stream(request):
            yield event

    async def aclose(self) -> None:
        """Nothing is held open."""


class _Replies:
    def __init__(self, replies: Sequence[str]) -> None:
        self.replies = list(replies)
        self.used = 0
        self.lock = threading.Lock()

    def __call__(self, messages: list[Message]) -> str:
        with self.lock:
            reply = self.replies[min(self.used, len(self.replies) - 1)]
            self.used += 1
        return reply
