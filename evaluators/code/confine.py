"""Confines the process that calls it, for good: files, network, processes, memory, time.

Standard library only; runs in the interpreter that judges. Nothing here needs privileges:

* **files**: Landlock (Linux 5.13 and later) lets the process read the interpreter, its
  packages and the system's libraries, and write to one folder; nothing else opens. A user's
  home, data sets and other processes' ``/proc`` stay out of sight.
* **network, processes**: a system-call filter (:mod:`evaluators.code.seccomp`): no sockets, no
  new processes, no signals or limits for others. Landlock adds that no process outside can be
  traced or signalled.
* **memory, CPU time, file sizes, open files**: resource limits. A superuser's capabilities are
  given up first, so that limits bind it too.

Where the kernel offers neither Landlock nor the filter (macOS, old kernels), an audit hook of
the interpreter refuses the same from Python code. That stops accidents, not attacks: code that
goes round the interpreter goes round the hook. :func:`confine` says what is in force.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import struct
import sys
from collections.abc import Iterable
from typing import Any

from evaluators.code.seccomp import filter_calls

if sys.platform != "win32":
    import resource

__all__ = ["confine", "readable_places"]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR, _WRITE_FILE, _TRUNCATE = 1 << 2, 1 << 3, 1 << 1, 1 << 14
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_ON_FILES = (1 << 0) | _WRITE_FILE | _READ_FILE | _TRUNCATE | (1 << 15)
_NO_TCP, _NO_SIGNALS = 0b11, 0b11

_SYSTEM = (
    "/usr", "/lib", "/lib64", "/nix/store", "/etc/fonts", "/etc/localtime", "/etc/ld.so.cache",
    "/etc/mime.types", "/dev/urandom", "/dev/random", "/dev/zero", "/proc/cpuinfo", "/proc/meminfo",
    "/proc/self/maps", "/proc/self/status", "/proc/self/statm", "/proc/self/cmdline",
    "/sys/devices/system/cpu",
)  # fmt: skip
_OPEN_FILES = 256


def confine(
    folder: str, readable: Iterable[str], *, seconds: float, memory: int, file_bytes: int
) -> list[str]:
    """Confine this process, once and for all.

    Args:
        folder: The one folder that it may write to; becomes the working directory.
        readable: Files and folders that it may read.
        seconds: CPU time, after which the kernel ends the process with ``SIGXCPU``.
        memory: Bytes it may allocate beyond what it holds now.
        file_bytes: Size of any one file it writes.

    Returns:
        What is in force, of ``"landlock"``, ``"seccomp"``, ``"audit hook"``, ``"limits"``.
    """
    os.chdir(folder)
    _go_first()
    _limit(seconds, memory, file_bytes)
    _drop_capabilities()
    guards = ["limits"]
    files = _restrict_files(folder, readable)
    calls = filter_calls()
    if files:
        guards.append("landlock")
    if calls:
        guards.append("seccomp")
    if not (files and calls):
        sys.addaudithook(_Hook(folder))
        guards.append("audit hook")
    return guards


def readable_places() -> list[str]:
    """Return what a program needs to read: this interpreter, its packages, system libraries.

    What else is on ``sys.path`` is left out: a package installed from its own folder would open
    that folder, and with it whatever data lies there.
    """
    places = [*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix]
    return [place for place in dict.fromkeys(places) if place != os.sep and os.path.exists(place)]


def _limit(seconds: float, memory: int, file_bytes: int) -> None:
    size, data = _pages()
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, file_bytes)
    _set_limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _set_limit(resource.RLIMIT_CPU, math.ceil(seconds), spare=5)
    # Threads and libraries reserve addresses that they never use: those get twice the room.
    _set_limit(resource.RLIMIT_DATA, data + memory)
    _set_limit(resource.RLIMIT_AS, size + 2 * memory)


def _set_limit(which: int, value: int, spare: int = 0) -> None:
    _, hard = resource.getrlimit(which)
    most = value + spare
    if hard != resource.RLIM_INFINITY:
        value, most = min(value, hard), min(most, hard)
    # macOS refuses limits on memory.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (value, most))


def _go_first() -> None:
    """Be the process that the kernel ends when the machine runs out of memory."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _pages() -> tuple[int, int]:
    """Return the bytes of address space and of data that this process holds."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            fields = file.read().split()
    except OSError:
        return 0, 0
    return int(fields[0]) * resource.getpagesize(), int(fields[5]) * resource.getpagesize()


def _drop_capabilities() -> None:
    if sys.platform == "linux":
        header = struct.pack("Ii", 0x20080522, 0)
        # Fails only where there is nothing to give up.
        ctypes.CDLL(None).capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))


def _restrict_files(folder: str, readable: Iterable[str]) -> bool:
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = _RIGHTS_BY_VERSION[max(v for v in _RIGHTS_BY_VERSION if v <= version)]
    attributes = struct.pack(
        "QQQ", rights, _NO_TCP if version >= 4 else 0, _NO_SIGNALS if version >= 6 else 0
    )
    attributes = attributes[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc.syscall(
        _CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), 0
    )
    if ruleset < 0:
        return False
    try:
        done = _allow(libc, ruleset, folder, rights)
        done &= _allow(libc, ruleset, "/dev/null", _READ_FILE | _WRITE_FILE)
        for place in readable:
            _allow(libc, ruleset, place, _READ_FILE | _READ_DIR)
        libc.prctl(38, 1, 0, 0, 0)
        return done and libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(libc: Any, ruleset: int, place: str, rights: int) -> bool:
    try:
        place_fd = os.open(place, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.path.isdir(place):
            rights &= _ON_FILES
        rule = struct.pack("=Qi", rights, place_fd)
        return bool(libc.syscall(_ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), 0) == 0)
    finally:
        os.close(place_fd)


class _Hook:
    """Refuses from within the interpreter what the kernel cannot be asked to refuse."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder) + os.sep

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(_HOOKED):
            raise PermissionError(f"{event} is not allowed in a judged program")
        if event in _CHANGES or (event == "open" and _writes(args)):
            for path in args[:2] if event in ("os.rename", "os.link", "os.symlink") else args[:1]:
                self._check(path)

    def _check(self, path: Any) -> None:
        if isinstance(path, (str, bytes)):
            real = os.path.realpath(os.fsdecode(path))
            if not (real + os.sep).startswith(self.folder) and real != os.devnull:
                raise PermissionError(f"{real} is outside of the judged program's folder")


_HOOKED = (
    "socket.", "subprocess.", "os.system", "os.fork", "os.exec", "os.posix_spawn", "os.spawn",
    "os.kill", "os.startfile", "pty.spawn", "os.setxattr", "os.removexattr", "os.chmod",
    "os.chown", "os.utime",
)  # fmt: skip
_CHANGES = {
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "shutil.rmtree",
}  # fmt: skip


def _writes(args: tuple[Any, ...]) -> bool:
    _, mode, flags = (*args, None, None, 0)[:3]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
