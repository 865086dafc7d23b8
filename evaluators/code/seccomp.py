"""A filter on system calls for one process: no network, no processes, no hands on others.

Linux on x86-64 and arm64, without privileges and without libseccomp: a small BPF program handed
to ``prctl``. It stays in force for the rest of the process's life. Refused calls fail with
``EPERM``, so that a library that asks for something it does not need goes on without it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

__all__ = ["filter_calls"]

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_X32_BIT = 0x40000000

# Offsets in struct seccomp_data (little-endian): number, architecture, low half of argument 0.
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

_ARCHES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# Numbers on x86-64 and arm64; None where the call does not exist. From the kernel's headers.
_Numbers = dict[str, tuple["int | None", "int | None"]]
_REFUSED: _Numbers = {
    # the network, and local services through Unix sockets
    "socket": (41, 198),
    # other programs; threads are made by clone, which is looked at below
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    # other processes: signals, memory, files, priorities
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122), "setsid": (112, 157),
    "setpgid": (109, 154), "move_pages": (279, 239), "migrate_pages": (256, 238),
    # memory that outlives the process or escapes its limits
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219),
    # ways around this filter, and doors to the kernel that no data science needs
    "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "mount": (165, 40), "umount2": (166, 39), "chroot": (161, 51),
    "pivot_root": (155, 41), "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "mknod": (133, None),
    "mknodat": (259, 33), "fanotify_init": (300, 262), "personality": (135, 92),
}  # fmt: skip
# Modes, owners and times of files: Landlock leaves them to the owner, who may own much. These
# calls do nothing and report success, so that shutil.copy works.
_IGNORED: _Numbers = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "utime": (132, None), "utimes": (235, None),
    "utimensat": (280, 88), "futimesat": (261, None),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), (435, 435)
_KILL, _TGKILL, _PRLIMIT = (62, 129), (234, 131), (302, 261)


def filter_calls() -> bool:
    """Put the filter in force for this process, and say whether that worked.

    Signals and limits that the process aims at itself remain allowed, as do new threads.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHES:
        return False
    code = _program(*_ARCHES[machine], own=os.getpid())
    buffer = ctypes.create_string_buffer(code, len(code))
    prog = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return not libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(prog), 0, 0)


def _program(arch: int, column: int, own: int) -> bytes:
    steps = [
        _step(_LOAD, _ARCH), _step(_EQUAL, arch, 1, 0), _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, _NUMBER),
    ]  # fmt: skip
    if column == 0:
        steps += [_step(_AT_LEAST, _X32_BIT, 0, 1), _step(_RETURN, _ERRNO | _EPERM)]
    for table, reply in ((_REFUSED, _ERRNO | _EPERM), (_IGNORED, _ERRNO)):
        for numbers in table.values():
            steps += _when(numbers[column], [_step(_RETURN, reply)])
    # The C library falls back from clone3, whose flags no filter can read, to clone.
    steps += _when(_CLONE3[column], [_step(_RETURN, _ERRNO | _ENOSYS)])
    steps += _when(_CLONE[column], _unless(_ANY_BIT, _CLONE_THREAD))
    for numbers in (_KILL, _TGKILL):
        steps += _when(numbers[column], _unless(_EQUAL, own))
    itself = [_step(_LOAD, _ARGUMENT), _step(_EQUAL, 0, 2, 0), _step(_EQUAL, own, 1, 0)]
    refuse = [_step(_RETURN, _ERRNO | _EPERM), _step(_RETURN, _ALLOW)]
    steps += _when(_PRLIMIT[column], itself + refuse)
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _when(number: int | None, then: list[bytes]) -> list[bytes]:
    """Do ``then``, which returns, if the call has this number."""
    return [] if number is None else [_step(_EQUAL, number, 0, len(then)), *then]


def _unless(test: int, value: int) -> list[bytes]:
    """Refuse unless argument 0 passes a test."""
    return [
        _step(_LOAD, _ARGUMENT), _step(test, value, 1, 0),
        _step(_RETURN, _ERRNO | _EPERM), _step(_RETURN, _ALLOW),
    ]  # fmt: skip


def _step(code: int, k: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, k)
