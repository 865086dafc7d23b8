"""The embedded model as a ``dspy.LM``."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import Any

import dspy
from dspy import lm15
from dspy.clients.base_lm import LM_CLASS_STATE_KEY
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError

from drpg_dspy import weights
from drpg_dspy.local_lm.server import language_models, serve, server_settings

__all__ = ["LocalLM", "resolve_lm"]

_DEFAULT = "qwen2.5-coder-1.5b"
_LOCAL = "local/"
_PARAMS = ("max_tokens", "response_format", "seed", "stop", "stream", "temperature", "top_p")
_OPTIONS: dict[str, Any] = {
    "num_retries": 0,
    # Seconds. A full context at CPU speed, behind seven others, is slow.
    "timeout": 3600.0,
    # What follows DSPy's closing marker is never read, and a small model often goes on.
    "stop": ["[[ ## completed ## ]]"],
}


class LocalLM(dspy.LM):
    """A language model on this machine's CPU: no key, no network, no other process.

    Calls for the same file and settings share one server per process, which stops when the
    last of them is gone. Copies, deep copies, threads and forked children use the server of
    the original; in another process a pickled or saved one starts its own.

    Typed outputs are constrained: under ``dspy.JSONAdapter`` the signature's JSON schema goes
    to the server, which only lets the model write text that fits it.

    Args:
        name: A model of ``drpg_dspy.weights`` that has been pulled (``drpg lm pull NAME``).
        context: Tokens that prompt and answer may have together, at least 256.
        threads: CPU threads; default: the cores this process may run on.
        parallel: Requests worked on at once, each with its own ``context``. Others wait. With
            more than one, answers may differ in a few tokens from run to run, because what
            shares a batch changes the rounding.
        temperature: 0 = always the most probable token: same prompt, same answer.
        max_tokens: Limit on the answer's tokens.
        cache: Let DSPy keep answers on disk. The key holds the file's hash.
        path: A GGUF file of one's own; then ``name`` is only what it is called.
        **options: Further arguments of ``dspy.LM`` (``top_p``, ``callbacks``, …). ``stop`` is
            DSPy's closing marker unless given.

    Raises:
        ValueError: An argument is out of range, the name is unknown or the file is no GGUF.
        ModelNotFound: The model has not been pulled, or ``path`` does not exist.
        StorageError: llama.cpp cannot load the file, or has not the memory for it.
        ImportError: The extra ``local-lm`` is not installed.

    On a call, a prompt that does not fit raises ``dspy.ContextWindowExceededError``.
    """

    def __init__(
        self,
        name: str = _DEFAULT,
        *,
        context: int = 8192,
        threads: int | None = None,
        parallel: int = 1,
        temperature: float = 0.0,
        max_tokens: int = 1024,
        cache: bool = False,
        path: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if own := sorted({"api_base", "api_key", "base_url", "engine"} & options.keys()):
            raise ValueError(
                f"LocalLM makes its own {', '.join(own)}; for a server elsewhere use dspy.LM."
            )
        if path is not None and name == _DEFAULT:
            name = Path(path).stem
        self.name = name
        self.settings = server_settings(name, path, context, threads, parallel)
        self._server = serve(name, self.settings)
        _declare_provider()
        super().__init__(
            f"{_LOCAL}{name}@{self.settings.file_id}",
            temperature=temperature,
            max_tokens=max_tokens,
            cache=cache,
            **{**_OPTIONS, **options, **self._server.client},
        )
        _LIVE.add(self)

    @property
    def address(self) -> str:
        """Where it listens, e.g. ``http://127.0.0.1:41234/v1``; needs ``api_key``."""
        return self._server.client["api_base"]

    @property
    def api_key(self) -> str:
        """The key that the address asks for, made anew for every server."""
        return self._server.client["api_key"]

    @property
    def supports_response_schema(self) -> bool:
        """True: the server turns a JSON schema into a grammar."""
        return True

    @property
    def supports_function_calling(self) -> bool:
        """False: models this small call no tools reliably; DSPy asks in the prompt instead."""
        return False

    @property
    def supports_reasoning(self) -> bool:
        """False."""
        return False

    @property
    def supported_params(self) -> set[str]:
        """What the server takes. Stated here, because DSPy would ask the network for it."""
        return {*_PARAMS}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model as any ``dspy.LM``."""
        try:
            return super().__call__(*args, **kwargs)
        except LMInvalidRequestError as error:
            raise self._explained(error) from error

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model as any ``dspy.LM``, without blocking the event loop."""
        try:
            return await super().acall(*args, **kwargs)
        except LMInvalidRequestError as error:
            raise self._explained(error) from error

    def _explained(self, error: LMInvalidRequestError) -> LMInvalidRequestError:
        """Turn the server's complaint about a long prompt into the error that DSPy handles."""
        if "exceeds the available context size" not in str(error):
            return error
        return ContextWindowExceededError(
            model=self.model,
            message=f"{error}. Shorten the prompt, or give LocalLM more than "
            f"context={self.settings.context}.",
        )

    def dump_state(self) -> dict[str, Any]:
        """Return what builds this model again in another process: no address, no key."""
        state = super().dump_state()
        del state["api_base"], state["model"]
        s = self.settings
        own = {"path": s.path, "context": s.context, "threads": s.threads, "parallel": s.parallel}
        return {**state, "name": self.name, **own}

    @classmethod
    def load_state(cls, state: dict[str, Any], *, allow_custom_lm_class: bool = False) -> LocalLM:
        """Build a model from :meth:`dump_state`.

        A saved program that holds one is loaded with ``allow_unsafe_lm_state=True``, as DSPy
        asks for every LM class that is not its own.
        """
        return cls(**{key: value for key, value in state.items() if key != LM_CLASS_STATE_KEY})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Deep copies keep the server; in another process unpickling has started a new one.
        self.kwargs: dict[str, Any] = {**self.kwargs, **self._server.client}
        _LIVE.add(self)

    def __copy__(self) -> LocalLM:
        copied: LocalLM = super().__copy__()
        _LIVE.add(copied)
        return copied


def resolve_lm(spec: str, **options: Any) -> dspy.LM:
    """Return the language model that a short text names.

    Args:
        spec: ``local/NAME`` for a pulled model, or a model string of DSPy
            (``openai/gpt-4.1-mini``, ``ollama_chat/llama3.2``, …).
        **options: Arguments of :class:`LocalLM` or ``dspy.LM``. ``cache`` is ``False`` unless
            given: in an online run a repeated question is asked again.

    Raises:
        ValueError: ``spec`` names no provider, or no known local model.
        ModelNotFound: The local model has not been pulled.

    >>> resolve_lm("gpt-4.1-mini")
    Traceback (most recent call last):
    ...
    ValueError: 'gpt-4.1-mini' names no provider. Write PROVIDER/MODEL, such as ...
    """
    provider, _, model = spec.partition("/")
    if f"{provider}/" == _LOCAL:
        return LocalLM(model, **options)
    if not model:
        hint = f"{_LOCAL}{spec}" if spec in weights.names() else f"openai/{spec}"
        raise ValueError(
            f"{spec!r} names no provider. Write PROVIDER/MODEL, such as {hint!r}, or "
            f"{_LOCAL}NAME for one of: {', '.join(language_models())}."
        )
    return dspy.LM(spec, **{"cache": False, **options})


_LIVE: weakref.WeakSet[LocalLM] = weakref.WeakSet()


def _declare_provider() -> None:
    """Tell DSPy's native engine of the provider ``local``.

    Declared rather than passed off as ``openai/…``: no ``OPENAI_BASE_URL`` in the environment
    diverts it, and no price list is fetched from the network for it.
    """
    access = lm15.AccessPolicy(_LOCAL[:-1], base_url="http://127.0.0.1/v1")
    compat = lm15.OpenAIChatCompat(
        instruction_role="system",
        max_tokens_field="max_tokens",
        stream_usage="include",
        cache_control="none",
        thinking_format="none",
    )
    lm15.register_provider(
        lm15.ProviderDefinition.chat(access, compat=compat),
        supports=lm15.ModelSupport(function_calling=False, reasoning=False, response_schema=True),
    )


def _after_fork_in_child() -> None:
    """Give the child's models connections of their own to the parent's servers."""
    for lm in list(_LIVE):
        lm._engine_lock = threading.RLock()
        lm._engine_store.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
