"""llama.cpp in this process: which file, which settings, when it starts and when it stops."""

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

from drpg_dspy import weights
from drpg_dspy.arguments import whole
from drpg_dspy.exceptions import ModelNotFound, StorageError, missing_extra

__all__ = ["Server", "ServerSettings", "language_models", "serve", "server_settings"]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What tells one server from another.

    Attributes:
        file: The GGUF file.
        file_id: The first twelve digits of its SHA-256.
        path: The file again if the user named it, ``None`` if it was pulled.
        context: Tokens each request may have, prompt and answer together.
        threads: CPU threads.
        parallel: Requests worked on at once.
    """

    file: Path
    file_id: str
    path: str | None
    context: int
    threads: int
    parallel: int


def server_settings(
    name: str,
    path: str | os.PathLike[str] | None,
    context: int,
    threads: int | None,
    parallel: int,
) -> ServerSettings:
    """Check the arguments and find the file."""
    threads = _cores() if threads is None else threads
    for argument, value, least in (
        ("context", context, 256),
        ("threads", threads, 1),
        ("parallel", parallel, 1),
    ):
        whole(argument, value, least)
    if path is not None:
        file, file_id = _own_file(Path(path))
    else:
        file, file_id = _pulled_file(name)
    own = None if path is None else str(file)
    return ServerSettings(file, file_id, own, context, threads, parallel)


def _pulled_file(name: str) -> tuple[Path, str]:
    pinned = weights.info(name)
    if pinned.kind != "gguf":
        raise ValueError(
            f"{name!r} is no language model. Language models: {', '.join(language_models())}."
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


def language_models() -> list[str]:
    return [name for name in weights.names() if weights.info(name).kind == "gguf"]


def _cores() -> int:
    """Cores this process may run on; beyond eight a model this small gains nothing."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), 8)
    return min(os.cpu_count() or 1, 8)


class Server:
    """One running llama.cpp server. It stops when nothing refers to it, or at exit.

    Attributes:
        client: ``api_base`` and ``api_key``, the arguments of ``dspy.LM`` that reach it.
        name, settings: What it takes to start another one elsewhere.
    """

    def __init__(self, name: str, settings: ServerSettings) -> None:
        self.name = name
        self.settings = settings
        api_key = secrets.token_urlsafe(32)
        native = _start(settings, api_key)
        self.client = {"api_base": f"{native.listening_address}/v1", "api_key": api_key}
        # Also runs at exit, before the interpreter takes its modules apart.
        self.stop = weakref.finalize(self, _stop, [native], os.getpid())

    def __deepcopy__(self, memo: dict[int, Any]) -> Server:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        s = self.settings
        return _serve_again, (self.name, s.path, s.context, s.threads, s.parallel)


_LOCK = threading.RLock()
_SERVERS: weakref.WeakValueDictionary[ServerSettings, Server] = weakref.WeakValueDictionary()
_started_in: int | None = None


def serve(name: str, settings: ServerSettings) -> Server:
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
            server = _SERVERS[settings] = Server(name, settings)
            _started_in = os.getpid()
        return server


def _serve_again(name: str, path: str | None, context: int, threads: int, parallel: int) -> Server:
    return serve(name, server_settings(name, path, context, threads, parallel))


def _start(settings: ServerSettings, api_key: str) -> Any:
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
    # Weights repacked for the CPU cost the same time per token here, load slower, take
    # 0.6 GB more and cannot be shared: without them all processes map one copy of the file.
    params.no_extra_bufts = True
    params.verbosity = -1
    params.ui = params.endpoint_slots = params.endpoint_props = False
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise StorageError(
            f"llama.cpp cannot load {settings.file} with context={settings.context} x "
            f"{settings.parallel}: the file is damaged or of a kind this version does not know, or "
            "there is not memory enough (then give LocalLM a smaller context)."
        ) from error


def _llama_cpp() -> Any:
    """Import llama.cpp so that its threads sleep, not spin, while they wait for each other.

    OpenMP reads its wait policy from the environment when its library is loaded. Spinning
    threads are the default, and a disaster as soon as anything else wants a core: each of the
    thousands of barriers of a token then costs a time slice. Measured with the 1.5B model on 2
    cores that others use too: 1.4 tokens a second spinning, 6.8 sleeping. A policy that the user
    set stands.
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


def _after_fork_in_child() -> None:
    """Leave the parent's server alone, to the very end of the child."""
    global _LOCK
    _LOCK = threading.RLock()
    libc = ctypes.CDLL(None)
    if _started_in is not None and hasattr(libc, "on_exit"):
        # llama.cpp's static destructors crash or hang without the parent's threads. Called at
        # the very end, with the exit status, this one leaves before their turn comes.
        libc.on_exit(libc._exit, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
