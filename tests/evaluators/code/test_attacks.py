"""What an answer may try against its judge, and that it gains nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import dspy
import pytest

from evaluators.code import PassAtOne
from evaluators.judgement import Judgement

Judge = Callable[..., Judgement]

RIGHT = "y = x * 2 + 4242"
WRONG = "y = x"

FORGERIES = {
    "ends its process": "import os; os._exit(0)",
    "exits": "import sys; sys.exit(0)",
    "raises SystemExit": "raise SystemExit(0)",
    "prints success": "print('match'); print(1.0); y = x",
    "calls exit at exit": "import atexit, os; atexit.register(lambda: os._exit(0)); y = x",
    "breaks the comparison": """
        import numpy.testing as t
        for name in dir(t):
            if name.startswith('assert'):
                setattr(t, name, lambda *a, **k: None)
        np.testing.assert_allclose = np.allclose = np.array_equal = lambda *a, **k: True
        y = x
    """,
    "breaks the builtins": """
        import builtins
        builtins.AssertionError = ValueError
        builtins.isinstance = lambda *a: True
        builtins.exec = lambda *a: None
        y = x
    """,
    "replaces the test": """
        import sys
        for module in list(sys.modules.values()):
            for name in ('exec_test', 'test_execution', 'generate_test_case', 'examine'):
                try:
                    setattr(module, name, lambda *a: 1)
                except Exception:
                    pass
        exec_test = test_execution = lambda *a: 1
        y = x
    """,
    "equals everything": """
        class Same(np.ndarray):
            def __eq__(self, other): return True
            def __array_function__(self, *a, **k): return True
            def __array_ufunc__(self, *a, **k): return True
        y = np.arange(4).view(Same)
    """,
    "is a string subclass that equals everything": """
        class Same(str):
            __eq__ = lambda self, other: True
            __array__ = lambda self, *a: np.arange(4) * 2 + 4242
        y = Same('a')
    """,
    "pickles to a call": """
        class Evil:
            def __reduce__(self):
                import os
                return os.system, ('touch /tmp/forged',)
        y = Evil()
    """,
    "pickles to an eval in the examiner": """
        class Evil:
            def __reduce__(self):
                return eval, ("__import__('sys')._getframe(9).f_locals",)
        y = Evil()
    """,
    "writes a verdict to every descriptor": """
        import os, json, struct
        text = json.dumps({'kind': 'match', 'text': '', 'case': 2, 'sizes': []}).encode()
        for fd in range(3, 64):
            try:
                os.write(fd, struct.pack('!Q', len(text)) + text)
            except OSError:
                pass
        y = x
    """,
    "sends a crafted reply": """
        import sys
        wire = sys.modules['evaluators.code.channel']
        candidate = sys.modules['evaluators.code.candidate']
        def send(channel, header, parts=()):
            evil = b'cos\\nsystem\\n(S"true"\\ntR.'
            original(channel, {'status': 'done', 'files': ['../examiner/x', 'match']},
                     [evil, evil, b'1', b'2'])
        original = wire.send
        wire.send = send
        y = x
    """,
    "replaces its worker's pickler": """
        import sys
        candidate = sys.modules['evaluators.code.candidate']
        candidate.send = lambda value, **k: b'cnumpy\\ntesting\\n.'
        y = x
    """,
    "kills its parent": """
        import os, signal
        for target in (os.getppid(), -1, 0):
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:
                pass
        y = x
    """,
    "traces the examiner": """
        import ctypes, os
        libc = ctypes.CDLL(None)
        for pid in range(os.getpid() - 3, os.getpid() + 4):
            if pid != os.getpid():
                assert libc.ptrace(16, pid, 0, 0) == -1
                try:
                    open(f'/proc/{pid}/mem', 'r+b').write(b'x')
                    raise AssertionError
                except OSError:
                    pass
        y = x
    """,
    "makes its folder a trap": """
        import os, shutil
        os.makedirs('ans.png/deep'); os.symlink('/', 'root'); os.symlink('loop', 'loop')
        y = x
    """,
    "deletes its folder": "import os, shutil; shutil.rmtree(os.getcwd()); y = x",
    "leaves a thread behind": """
        import threading, time, os
        def later():
            while True:
                time.sleep(0.001)
        for _ in range(20):
            threading.Thread(target=later, daemon=False).start()
        y = x
    """,
    "answers later": """
        import threading, os
        def later(target):
            while True:
                try:
                    target[...] = 4242
                except Exception:
                    pass
        y = x.copy()
        threading.Thread(target=later, args=(y,), daemon=True).start()
    """,
    "ignores signals": """
        import signal
        for number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGALRM):
            signal.signal(number, lambda *a: None)
        y = x
    """,
}


@pytest.mark.parametrize("code", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_verdict_is_wrong_and_the_next_answer_is_judged(judge: Judge, code: str) -> None:
    verdict = judge(code)
    assert verdict.score == 0.0, verdict.feedback
    assert judge(RIGHT).score == 1.0
    assert not os.path.exists("/tmp/forged")


def test_neither_frames_nor_objects_hold_the_reference_or_the_tests(judge: Judge) -> None:
    found = judge(
        """
        import gc, re, sys, types
        seen, functions = [], []
        frame = sys._getframe().f_back
        while frame:
            seen.append(repr(frame.f_locals))
            frame = frame.f_back
        for thing in gc.get_objects():
            if type(thing) is dict:
                seen.extend(value for value in list(thing.values()) if type(value) is str)
            if type(thing) is types.FunctionType:
                functions.append(thing.__name__)
        hits = [text for text in seen if re.search('the_reference[_]secret', text)]
        tests = {'generate_ans', 'generate_test_case', 'exec_test'} & set(functions)
        raise RuntimeError(f'{len(seen) > 1000} {len(functions) > 1000} {hits} {tests}')
        """
    )
    assert found.feedback.startswith("RuntimeError: True True [] set()")


SEARCH_MEMORY = """
import ctypes, re
secret = re.compile(b'the_reference[_]secret')
hits = size = 0
for line in open('/proc/self/maps'):
    low, high, mode = re.match(r'([0-9a-f]+)-([0-9a-f]+) (....)', line).groups()
    low, high = int(low, 16), int(high, 16)
    if mode.startswith('rw') and '[v' not in line and high - low < 1 << 26:
        memory = ctypes.string_at(low, high - low)
        hits += len(secret.findall(memory))
        size += len(memory)
raise RuntimeError(f'{hits > 0} {size > 1 << 22}')
"""


def test_raw_memory_holds_the_tests_in_one_process_and_not_in_two(judge: Judge) -> None:
    assert judge(SEARCH_MEMORY, compare="faithful").feedback.startswith("RuntimeError: True True")
    for _ in range(2):  # the second answer is forked from a process that served the first
        assert judge(SEARCH_MEMORY).feedback.startswith("RuntimeError: False True")


@pytest.mark.parametrize(
    "attempt",
    [
        "open({path!r}).read()",
        "open('/etc/passwd').read()",
        "__import__('os').listdir('/')",
        "__import__('os').listdir('../examiner')",
        "open('../examiner/ans', 'w')",
        "open('/tmp/forged', 'w')",
        "open('/dev/shm/forged', 'w')",
        "__import__('os').unlink({path!r})",
        "__import__('os').truncate({path!r}, 0)",
        "__import__('os').rename({path!r}, 'mine')",
        "__import__('os').link({path!r}, 'mine')",
        "open('/proc/1/environ').read()",
        "open('/proc/self/environ').read()",
        "open(f'/proc/{{__import__(\"os\").getppid()}}/mem', 'rb')",
        "__import__('socket').socket()",
        "__import__('urllib.request').request.urlopen('http://127.0.0.1:1')",
        "__import__('subprocess').run(['true'])",
        "assert __import__('os').system('true') == 0 or [].missing",
        "__import__('os').fork()",
        "__import__('os').posix_spawn('/bin/true', ['true'], {{}})",
        "__import__('multiprocessing').Process(target=print).start()",
        "__import__('os').kill(__import__('os').getppid(), 0)",
        "__import__('resource').prlimit(__import__('os').getppid(), 0, (1, 1))",
        "__import__('os').setpriority(0, __import__('os').getppid(), 19)",
        "__import__('os').memfd_create('x')",
        "__import__('os').setsid()",
        "input()",
    ],
)
def test_files_network_and_processes_are_out_of_reach(
    judge: Judge, secret: Path, attempt: str
) -> None:
    code = attempt.format(path=str(secret))
    verdict = judge(
        f"try:\n    {code}\nexcept (OSError, EOFError, AttributeError):\n    raise KeyError('no')"
    )
    assert verdict.feedback.startswith("KeyError: 'no'"), verdict.feedback
    assert secret.read_text().startswith("\nimport numpy")


def test_modes_and_times_of_files_outside_stay_as_they_are(judge: Judge, secret: Path) -> None:
    before = secret.stat()
    verdict = judge(
        f"import os\nos.chmod({str(secret)!r}, 0)\nos.utime({str(secret)!r}, (0, 0))\n{RIGHT}"
    )
    after = secret.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert verdict.score == 1.0


EXCESSES = {
    "loops for ever": ("while True: pass", "timeout"),
    "sleeps for ever": ("import time\nwhile True: time.sleep(1000)", "timeout"),
    "loops in C": ("sum(range(10 ** 12))", "timeout"),
    "catches everything": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "timeout",
    ),
    "waits for itself": ("import threading; threading.Event().wait()", "timeout"),
    "takes much memory": ("y = np.ones(1 << 28)", "error"),
    "shares much memory": ("import mmap; mmap.mmap(-1, 1 << 31)", "error"),
    "grows for ever": ("y = []\nwhile True: y.append(bytearray(1 << 20))", "error"),
    "starts processes without end": ("import os\nwhile True: os.fork()", "error"),
    "starts threads without end": (
        "import threading, time\n"
        "while True: threading.Thread(target=time.sleep, args=(99,)).start()",
        "error",
    ),
    "writes one large file": ("open('f', 'wb').write(bytes(1 << 27))", "error"),
    "writes many files": (
        "n = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'w').write('x')",
        "files or timeout",  # a slow disk does not fill the folder in the time there is
    ),
    "nests folders": (
        "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nwhile True: pass",
        None,
    ),
    "makes a folder that nobody may enter": ("import os\nos.mkdir('d', 0)\ny = x", "difference"),
    "returns too much": ("y = np.ones(1 << 24).astype('float32').tolist()", None),
    "recurses": ("def f(n): return f(n + 1)\ny = f(0)", "error"),
    "nests": ("y = []\nfor _ in range(10 ** 5): y = [y]", "lost"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "crash"),
    "aborts": ("import os; os.abort()", "crash"),
    "overflows the stack": (
        "import sys, re; sys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()", None,
    ),
    "prints without end": ("while True: print('x' * 10 ** 6)", "timeout"),
    "doubles what is compared": ("y = x\nfor _ in range(60): y = [y, y]", None),
}  # fmt: skip


@pytest.mark.parametrize(("code", "kind"), EXCESSES.values(), ids=EXCESSES.keys())
def test_excess_ends_within_its_limits_and_harms_nobody(
    judge: Judge, code: str, kind: str | None
) -> None:
    verdict = judge(code)
    assert verdict.score == 0.0
    assert kind is None or verdict.kind in kind.split(" or "), verdict.feedback
    assert judge(RIGHT).score == 1.0


def test_nothing_is_left_of_an_answer(
    new_row: Callable[..., dspy.Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with PassAtOne(timeout=2, workers=1) as own:
        for code in (
            "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\ny = x",
            "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()",
        ):
            own(new_row(), code)
        (home,) = tmp_path.glob("drpg-ds1000-*")
        assert not list(home.glob("row-*"))
        group = own._runner._idle["Numpy"][0].process.pid
    assert list(tmp_path.iterdir()) == []
    deadline = time.monotonic() + 5
    while _processes_of_session(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _processes_of_session(group) == []


def _processes_of_session(session: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found
