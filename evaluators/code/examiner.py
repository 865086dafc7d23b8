"""The process that runs a row's tests: it knows the expected result, and runs no answer.

The tests of DS-1000 call ``exec`` on the program with the answer in it, and compare what it
leaves as ``result``. Here they are run unchanged, except that their ``exec`` is ours: it sends
the program to the candidate's process, and takes in return a result (through
:mod:`evaluators.code.transport`), the figures that are open and the files that were written.

With ``apart=False`` the tests' ``exec`` is Python's own, and the answer runs here, as in the
official script. It can then forge the verdict.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import pickle
import random
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from evaluators.code import channel as wire
from evaluators.code.candidate import MOST_BYTES, read_files, write_files
from evaluators.code.difference import difference
from evaluators.code.transport import Unsendable, plainly, receive

__all__ = ["examine"]

SEED = 0
_TESTS = "<tests>"
_MOST_TEXT = 2000


class _Failed(BaseException):
    """The answer failed; no ``except`` of the tests may swallow it."""

    def __init__(self, kind: str, **details: Any) -> None:
        super().__init__(kind)
        self.verdict = {"kind": kind, **details}


def examine(
    request: dict[str, Any], candidate: socket.socket | None, clock: Callable[[bytes], Any]
) -> dict[str, Any]:
    """Run the tests of a row on an answer.

    Args:
        request: ``context``, the row's tests, and ``code``, the answer.
        candidate: The process that runs programs; ``None`` = they run here.
        clock: Told ``b"+"`` when a program starts and ``b"-"`` when it has ended.

    Returns:
        ``kind``: ``"match"``; ``"difference"``, ``"error"``, ``"no result"``, ``"lost"`` (the
        result cannot leave its process), ``"string"`` (the answer's text lacks what the row
        asks for), ``"ended"`` (the process is gone): the answer's fault; ``"test"``: the
        tests' own fault. ``text`` says what; ``case`` is the number of the failed test.
    """
    warnings.simplefilter("ignore")
    _seed()
    exam = _Exam(request["context"], candidate, clock)
    names: dict[str, Any] = {}
    try:
        exec(compile(request["context"], _TESTS, "exec"), names)
        exam.enter(names)
    except Exception as error:  # noqa: BLE001 - a row's own code may need anything
        return _at_fault(error)
    verdict = exam.run(names, request["code"])
    skip = names.get("skip_plt_cmds")
    if callable(skip):
        dropped = [line for line in request["code"].split("\n") if not skip(line)]
        verdict["dropped"] = [line.strip()[:200] for line in dropped[:5]]
    return verdict


class _Exam:
    def __init__(
        self, context: str, candidate: socket.socket | None, clock: Callable[[bytes], Any]
    ) -> None:
        self.context = context
        self.candidate = candidate
        self.clock = clock
        self.case = 0
        self.compared: tuple[Any, Any] | None = None
        self.testing = False  # the row's own code runs, not the comparison
        self.own_files: set[str] = set()

    def enter(self, names: dict[str, Any]) -> None:
        """Take the places of the three functions whose doings must be known."""
        make, compare = names["generate_test_case"], names["exec_test"]

        def generate_test_case(number: int) -> Any:
            self.case, self.testing = number, True
            before = set(os.listdir("."))
            made = make(number)
            # Files that come with the expected result may hold it, unless the program reads them.
            program = str(names["exec_context"])
            fresh = set(os.listdir(".")) - before
            self.own_files |= {name for name in fresh if name not in program}
            self.testing = False
            return made

        def exec_test(result: Any, expected: Any) -> Any:
            self.compared = (result, expected)
            return compare(result, expected)

        names["generate_test_case"], names["exec_test"] = generate_test_case, exec_test
        names["exec"] = self._here if self.candidate is None else self._apart

    def run(self, names: dict[str, Any], code: str) -> dict[str, Any]:
        """Do what the official script does, and say what came of it."""
        try:
            names["test_execution"](code)
        except _Failed as failed:
            return {**failed.verdict, "case": self.case}
        except BaseException as error:  # noqa: BLE001 - tests may raise anything
            if self.testing:
                return _at_fault(error)
            return {"kind": "difference", "text": self._text(error), "case": self.case}
        if "test_string" in names:
            try:
                names["test_string"](code)
            except BaseException as error:  # noqa: BLE001 - tests may raise anything
                return {"kind": "string", "text": self._broken(error), "case": self.case}
        return {"kind": "match", "text": "", "case": self.case}

    def _text(self, error: BaseException) -> str:
        found = "" if self.compared is None else difference(*self.compared)
        said = str(error).strip()
        if not found and said:
            found = f"{type(error).__name__}: {said.splitlines()[0]}"
        elif not found:
            found = self._broken(error)
        return found[:_MOST_TEXT]

    def _broken(self, error: BaseException) -> str:
        """Return the condition that did not hold, as the tests put it."""
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == _TESTS]
        if not frames or frames[-1].name == "test_execution":
            return type(error).__name__
        number = frames[-1].lineno or 0
        for node in ast.walk(ast.parse(self.context)):
            if isinstance(node, ast.Assert) and node.lineno <= number <= (node.end_lineno or 0):
                return f"Not so: {ast.unparse(node.test)}"
        return type(error).__name__

    def _here(self, code: str, env: dict[str, Any]) -> None:
        self.clock(b"+")
        try:
            exec(code, env)
        except BaseException as error:  # noqa: BLE001 - an answer may raise anything
            message = traceback.format_exception_only(type(error), error)[-1].strip()
            raise _Failed("error", text=message[:1000]) from None
        finally:
            self.clock(b"-")
        if "result" not in env:
            raise _Failed("no result")

    def _apart(self, code: str, env: dict[str, Any]) -> None:
        if self.candidate is None:
            return
        names = [n for n in os.listdir(".") if os.path.isfile(n) and n not in self.own_files]
        files = read_files(names)
        header = {"code": code, "modules": _imported(), "files": list(files)}
        parts = [_packed(env), pickle.dumps(_state()), *files.values()]
        self.clock(b"+")
        try:
            wire.send(self.candidate, header, parts)
            reply, got = wire.receive(self.candidate, MOST_BYTES)
        except wire.Closed:
            raise _Failed("ended") from None
        except (wire.TooLarge, ValueError) as error:
            raise _Failed("lost", text=str(error)) from None
        finally:
            self.clock(b"-")
        self._take(reply, got, env)

    def _take(self, reply: dict[str, Any], parts: list[bytes], env: dict[str, Any]) -> None:
        status = str(reply.get("status"))
        if status == "error":
            text, line = str(reply.get("message", ""))[:1000], str(reply.get("line", ""))[:300]
            raise _Failed("error", text=text, line=line)
        if status == "no result":
            raise _Failed("no result")
        if status != "done" or len(parts) < 2:
            raise _Failed("lost", text=str(reply.get("message", "damaged"))[:500])
        _close_figures()
        try:
            env["result"] = receive(parts[0])
            receive(parts[1], plots=True)
        except Unsendable as error:
            raise _Failed("lost", text=str(error)[:500]) from None
        named = zip(map(str, reply.get("files", [])), parts[2:], strict=False)
        write_files({n: content for n, content in named if self._may_write(n)})

    def _may_write(self, name: str) -> bool:
        inside = not os.path.isabs(name) and ".." not in name.split(os.sep)
        return inside and name.split(os.sep)[0] not in self.own_files


def _seed() -> None:
    random.seed(SEED)
    for name in ("numpy.random", "torch"):
        module = sys.modules.get(name)
        if module is not None:
            (module.manual_seed if name == "torch" else module.seed)(SEED)


def _state() -> dict[str, Any]:
    """Return the random generators' state: in one process the answer would go on from it."""
    state: dict[str, Any] = {"random": random.getstate()}
    if "numpy.random" in sys.modules:
        state["numpy"] = sys.modules["numpy.random"].get_state()
    if "torch" in sys.modules:
        state["torch"] = bytes(sys.modules["torch"].get_rng_state().tolist())
    return state


def _imported() -> list[str]:
    roots = ("numpy", "pandas", "scipy", "sklearn", "matplotlib", "seaborn", "torch", "tensorflow")
    return [name for name in sys.modules if name.partition(".")[0] in roots]


def _packed(env: dict[str, Any]) -> bytes:
    plain = {name: value for name, value in env.items() if name != "__builtins__"}
    try:
        return _pickled(pickle.Pickler, plain)
    except Exception:  # noqa: BLE001 - a class or function that the row defines
        return _pickled(_cloudpickle().Pickler, plain)


def _pickled(kind: Any, value: Any) -> bytes:
    class Packer(kind):
        def reducer_override(self, thing: Any) -> Any:
            if plain := plainly(thing):
                return plain
            other = getattr(super(), "reducer_override", None)
            return other(thing) if other else NotImplemented

    buffer = io.BytesIO()
    Packer(buffer).dump(value)
    return buffer.getvalue()


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return importlib.import_module("joblib.externals.cloudpickle")  # with scikit-learn


def _close_figures() -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def _at_fault(error: BaseException) -> dict[str, Any]:
    with contextlib.suppress(Exception):
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        return {"kind": "test", "text": text[-1000:], "missing": missing, "case": 0}
    return {"kind": "test", "text": type(error).__name__, "missing": None, "case": 0}
