"""The embedded small model: a GGUF file served in process behind an OpenAI-compatible address.

:class:`LocalLM` is an ordinary ``dspy.LM``. Behind it llama.cpp runs inside this process
(package ``xllamacpp``) and listens on 127.0.0.1, on a port and with an API key of its own, so
that whatever speaks to an OpenAI-compatible server can speak to it and no other user of the
machine can.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from dspy import lm15
from dspy.clients.base_lm import LM_CLASS_STATE_KEY
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError

from drpg_dspy import weights
from drpg_dspy.exceptions import ModelNotFound, missing_extra

__all__ = ["LocalLM", "resolve_lm"]

_DEFAULT = "qwen2.5-coder-1.5b"
_LOCAL = "local/"
_PARAMS = ("max_tokens", "response_format", "seed", "stop", "stream", "temperature", "top_p")
_TIMEOUT = 3600.0
"""Seconds until a call gives up. A full context at CPU speed, behind seven others, is slow."""


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
        **options: Further arguments of ``dspy.LM`` (``stop``, ``top_p``, ``callbacks``, …).

    Raises:
        ValueError: An argument is out of range, the name is unknown or the file is no GGUF.
        ModelNotFound: The model has not been pulled, or ``path`` does not exist.
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
        if path is not None and name == _DEFAULT:
            name = Path(path).stem
        self.name = name
        self.settings = _settings(name, path, context, threads, parallel)
        self._server = _serve(name, self.settings)
        _declare_provider()
        super().__init__(
            f"{_LOCAL}{name}@{self.settings.file_id}",
            temperature=temperature,
            max_tokens=max_tokens,
            cache=cache,
            **{"num_retries": 0, "timeout": _TIMEOUT, **options, **self._server.client},
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
            f"{_LOCAL}NAME for one of: {', '.join(_language_models())}."
        )
    return dspy.LM(spec, **{"cache": False, **options})


@dataclass(frozen=True, slots=True)
class _Settings:
    """What tells one server from another."""

    file: Path
    file_id: str
    path: str | None
    context: int
    threads: int
    parallel: int


def _settings(
    name: str,
    path: str | os.PathLike[str] | None,
    context: int,
    threads: int | None,
    parallel: int,
) -> _Settings:
    """Check the arguments and find the file."""
    threads = _cores() if threads is None else threads
    for argument, value, least in (
        ("context", context, 256),
        ("threads", threads, 1),
        ("parallel", parallel, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(
                f"{argument} must be a whole number of at least {least}, got {value!r}."
            )
    if path is not None:
        file, file_id = _own_file(Path(path))
    else:
        file, file_id = _pulled_file(name)
    own = None if path is None else str(file)
    return _Settings(file, file_id, own, context, threads, parallel)


def _pulled_file(name: str) -> tuple[Path, str]:
    pinned = weights.info(name)
    if pinned.kind != "gguf":
        raise ValueError(
            f"{name!r} is no language model. Language models: {', '.join(_language_models())}."
        )
    file = weights.find(name)
    if file is None:
        raise ModelNotFound(
            f"{name} is not in {weights.cache_dir()}, or not whole. Get it with: "
            f"drpg lm pull {name}"
        )
    return file, pinned.files[0].sha256[:12]


def _own_file(path: Path) -> tuple[Path, str]:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise ModelNotFound(f"There is no file {path}. Give path= a GGUF file.")
    with path.open("rb") as handle:
        if handle.read(4) != b"GGUF":
            raise ValueError(f"{path} is no GGUF file; llama.cpp reads no other format.")
        handle.seek(0)
        return path, hashlib.file_digest(handle, "sha256").hexdigest()[:12]


def _language_models() -> list[str]:
    return [name for name in weights.names() if weights.info(name).kind == "gguf"]


def _cores() -> int:
    """Cores this process may run on; beyond eight a model this small gains nothing."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), 8)
    return min(os.cpu_count() or 1, 8)


class _Server:
    """One running llama.cpp server. It stops when nothing refers to it, or at exit.

    Attributes:
        client: ``api_base`` and ``api_key``, the arguments of ``dspy.LM`` that reach it.
        name, settings: What it takes to start another one elsewhere.
    """

    def __init__(self, name: str, settings: _Settings) -> None:
        self.name = name
        self.settings = settings
        api_key = secrets.token_urlsafe(32)
        native = _start(settings, api_key)
        self.client = {"api_base": f"{native.listening_address}/v1", "api_key": api_key}
        # Also runs at exit, before the interpreter takes its modules apart.
        self.stop = weakref.finalize(self, _stop, [native], os.getpid())

    def __deepcopy__(self, memo: dict[int, Any]) -> _Server:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        s = self.settings
        return _serve_again, (self.name, s.path, s.context, s.threads, s.parallel)


_LOCK = threading.RLock()
_SERVERS: weakref.WeakValueDictionary[_Settings, _Server] = weakref.WeakValueDictionary()
_LIVE: weakref.WeakSet[LocalLM] = weakref.WeakSet()
_started_in: int | None = None


def _serve(name: str, settings: _Settings) -> _Server:
    """Return this process's server for the settings, starting it if there is none."""
    global _started_in
    with _LOCK:
        server = _SERVERS.get(settings)
        if server is None:
            if _started_in not in (None, os.getpid()):
                # The threads of llama.cpp's OpenMP runtime do not exist in the child.
                raise RuntimeError(
                    "A forked process cannot start a LocalLM when its parent has run one: it would "
                    "hang. Build the LocalLM before forking (the child then uses the parent's "
                    "server), or start the process with multiprocessing's 'spawn'."
                )
            server = _SERVERS[settings] = _Server(name, settings)
            _started_in = os.getpid()
        return server


def _serve_again(name: str, path: str | None, context: int, threads: int, parallel: int) -> _Server:
    return _serve(name, _settings(name, path, context, threads, parallel))


def _start(settings: _Settings, api_key: str) -> Any:
    """Start llama.cpp and wait until the model is loaded."""
    xllamacpp = _llama_cpp()
    params = xllamacpp.CommonParams()
    params.model.path = str(settings.file)
    params.n_ctx = settings.context * settings.parallel
    params.n_parallel = settings.parallel
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = settings.threads
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [api_key]
    params.n_threads_http = 16  # requests that wait for their turn hold one each
    params.cache_prompt = True
    params.cache_ram_mib = 1024  # prompts kept beside the slots; llama.cpp's 8 GiB is for servers
    params.verbosity = -1
    params.ui = params.endpoint_slots = params.endpoint_props = False
    return xllamacpp.Server(params)


def _llama_cpp() -> Any:
    """Import llama.cpp so that its threads sleep, not spin, while they wait for each other.

    OpenMP reads its wait policy from the environment when its library is loaded. Spinning
    threads are the default, and a disaster as soon as anything else wants a core: each of the
    thousands of barriers of a token then costs a time slice. Measured on 2 cores with two busy
    neighbours: 3 to 10 times slower than sleeping. A policy that the user set stands.
    """
    chosen = any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"))
    if not chosen:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    try:
        import xllamacpp
    except ImportError as error:
        raise missing_extra("LocalLM", "local-lm", "xllamacpp") from error
    finally:
        if not chosen:
            del os.environ["OMP_WAIT_POLICY"]  # not for child processes: it is our choice only
    return xllamacpp


def _stop(holder: list[Any], pid: int) -> None:
    """Drop the last reference to a native server; its destructor stops it."""
    if os.getpid() != pid:
        # A forked child has none of the threads that the destructor would wait for: leak it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder[0]))
    holder.clear()


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
    global _LOCK
    _LOCK = threading.RLock()
    libc = ctypes.CDLL(None)
    if _started_in is not None and hasattr(libc, "on_exit"):
        # llama.cpp's static destructors crash or hang without the parent's threads. Called at
        # the very end, with the exit status, this one leaves before their turn comes.
        libc.on_exit(libc._exit, None)
    for lm in list(_LIVE):
        lm._engine_lock = threading.RLock()
        lm._engine_store.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
