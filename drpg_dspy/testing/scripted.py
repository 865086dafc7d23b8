"""A language model that a function plays: deterministic, offline, thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import dspy
from dspy import lm15
from dspy.lm15 import Request, Response

__all__ = ["ScriptedLM", "fields"]

Message = dict[str, str]
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
    text, or raises to play a dead server. Same prompt, same reply, from any number of threads;
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
        messages.extend({"role": m.role, "content": m.text or ""} for m in request.messages)
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
        return lm15.response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing is held open."""


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
