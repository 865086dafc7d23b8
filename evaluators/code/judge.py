"""pass@1: an answer is right when the program with it in passes the row's tests."""

from __future__ import annotations

import hashlib
import math
import os
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators._fields import label, output
from evaluators.code.extract import extract_code, official_code
from evaluators.code.frame import test_frame
from evaluators.code.runner import REMEDY, Limits, Outcome, ProgramRunner
from evaluators.judgement import Judgement, ProcessJudge

__all__ = ["SCORINGS", "PassAtOne"]

SCORINGS: Mapping[str, str] = {"repaired": "1", "faithful": "1"}
"""Name and version of each scoring."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """What came of a row's own reference: whether the row can be judged here, and how."""

    outcome: Outcome
    apart: bool = True


class PassAtOne(ProcessJudge):
    """Judge code by running a row's own tests on it, as DS-1000 does.

    A metric for ``dspy.Evaluate``, MIPROv2, GEPA and the rest: call it with an example that has
    ``library``, ``code_context`` and ``reference_code`` (and may have ``problem``), and a
    prediction that has ``code``.

    The program that runs is the official one: the context, ``test_execution(code)``, and
    ``test_string(code)`` where the row has it. The context's seed is fixed; plots go to Agg.

    **Two processes.** The tests run in one process, the answer in another, which is sent the
    program and its pickled input and returns its result as data
    (:mod:`evaluators.code.transport`). The second never holds the expected result, the
    reference or the tests, so there is no verdict in it to forge: an answer that ends its
    process, replaces functions, prints success, searches stack frames or memory, or leaves
    threads behind can only spoil its own result. Both are confined
    (:mod:`evaluators.code.confine`): one folder, removed afterwards; no network, no other
    program or process; memory, time and file sizes limited. Where the kernel cannot do that, a
    warning says what is missing; :meth:`isolation` says what is in force.

    **What remains possible**: (1) a bug in the kernel, the interpreter, or a parser that reads
    the result (NumPy, pandas, Pillow), or a class of the science packages that does harm when it
    is filled with chosen data: this would reach the examiner's process, forge this one verdict,
    and stay confined; (2) a result crafted to please a weak test, as in the official script:
    the tests are DS-1000's; (3) rows whose reference itself returns what cannot be sent (found
    by trying) are judged in one process, confined but forgeable, and say so with
    ``processes == 1``; (4) data that lies in the interpreter's own folders or in ``/usr`` can
    be read: keep the data set elsewhere; of other files, that they exist and how large they are.

    **Not judged**: rows whose library is absent, and rows whose reference fails here (other
    versions, no network). The reference is run before an answer is judged, once for each row.
    A timeout is the answer's fault and not tried again, because time is measured as the
    program's own.

    ``compare="faithful"`` is the official script: the answer runs in the same process as the
    tests and could forge its verdict, code is taken from a reply as the official script does,
    and no reference is run. It is confined all the same: StreamBench ran it in the learner's own
    process, which this library never does.

    A verdict is a :class:`~evaluators.judgement.Judgement` with ``score``, ``feedback``,
    ``informative``, ``kind`` (``"match"``, ``"difference"``, ``"error"``, ``"no result"``,
    ``"no code"``, ``"lost"``, ``"string"``, ``"exit"``, ``"timeout"``, ``"files"``, ``"crash"``,
    ``"not judged"``), ``processes`` (1 or 2), ``compare`` and ``compare_version``. Feedback never
    quotes the reference; it may quote values that were expected.

    Args:
        compare: Name of the scoring.
        python: The interpreter that has the libraries; ``None`` = ``$DRPG_DS1000_PYTHON``, or
            else this one. ``requirements-ds1000.txt`` beside this file says what it should have.
        timeout: Seconds of its own that a program gets, the official 120: running or sleeping,
            but not waiting for a busy processor; and CPU seconds.
        memory_mb: Megabytes that it may allocate beside the libraries.
        workers: Answers that run at once.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN.

    Raises:
        ValueError: An argument is out of range; when called, the example or the prediction
            lacks a field.
        EvaluationFailed: When called, with ``raises``: no verdict could be reached.
    """

    scorings = SCORINGS
    _runner: ProgramRunner

    def __init__(
        self,
        *,
        compare: str = "repaired",
        python: str | os.PathLike[str] | None = None,
        timeout: float = 120.0,
        memory_mb: int = 4096,
        workers: int = 2,
        raises: bool = False,
    ) -> None:
        super().__init__(compare, raises=raises)
        for name, value in (("timeout", timeout), ("memory_mb", memory_mb), ("workers", workers)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"{name} must be more than 0, got {value!r}.")
        self.python = python
        self.timeout = timeout
        self.memory_mb = memory_mb
        self.workers = workers
        chosen = python or os.environ.get("DRPG_DS1000_PYTHON") or sys.executable
        limits = Limits(seconds=timeout, memory=int(memory_mb * (1 << 20)))
        self._runner = ProgramRunner(os.fspath(chosen), limits, int(workers))
        self._references: dict[str, _Reference] = {}
        self._lock = threading.Lock()
        self._warned = False

    def isolation(self, library: str = "Pandas") -> tuple[str, ...]:
        """Return what confines answers: of ``"landlock"``, ``"seccomp"``, ``"audit hook"``, …

        Raises:
            EvaluationFailed: The interpreter lacks the library.
        """
        return tuple(self._runner.describe(library)["guards"])

    def __repr__(self) -> str:
        return f"PassAtOne(compare={self.compare!r}, python={self.python!r})"

    def _judged(self, example: Any, prediction: Any) -> Judgement:
        row = {name: str(label(example, name)) for name in _LABELS}
        given = output(prediction, "code")
        answer = "" if given is None else str(given)
        problem = str(example["problem"]) if "problem" in example else ""
        if not self._warned:
            self._warn(row["library"])
        if self.compare == "faithful":
            code = official_code(answer)
            return self._from_outcome(row, code, self._run(row, code, apart=False), apart=False)
        reference = self._reference(row)
        code = extract_code(answer, test_frame(row["code_context"]), problem)
        if not code.strip():
            return self._verdict(0.0, "no code", "The answer holds no code.", processes=2)
        if code.strip() == row["reference_code"].strip():
            outcome = reference.outcome
        else:
            outcome = self._run(row, code, apart=reference.apart)
        return self._from_outcome(row, code, outcome, apart=reference.apart)

    def _reference(self, row: dict[str, str]) -> _Reference:
        name = hashlib.sha256("\0".join(row.values()).encode("utf-8", "replace")).hexdigest()
        if name not in self._references:
            self._references[name] = self._try_reference(row)
        reference = self._references[name]
        if reference.outcome.kind != "match":
            outcome = reference.outcome
            because = outcome.text or outcome.kind
            if outcome.missing:
                because = f"the tests need the package {outcome.missing!r}, which is missing"
            # The learner's own interpreter hardly has the versions that the references want.
            remedy = f". {REMEDY}" if self._runner.python == sys.executable else ""
            raise EvaluationFailed(f"the row's own reference fails here: {because}{remedy}")
        return reference

    def _try_reference(self, row: dict[str, str]) -> _Reference:
        code = row["reference_code"]
        outcome = self._run(row, code)
        if outcome.kind == "lost":
            return _Reference(self._run(row, code, apart=False), apart=False)
        if outcome.kind not in ("match", "test", "timeout"):
            outcome = self._run(row, code)  # a test on unseeded data may fail by chance
        return _Reference(outcome)

    def _run(self, row: dict[str, str], code: str, *, apart: bool = True) -> Outcome:
        outcome = self._runner.run(row["library"], row["code_context"], code, apart=apart)
        if outcome.kind == "stalled":
            raise EvaluationFailed(f"the machine is too busy: {outcome.text}")
        return outcome

    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        return self._verdict(math.nan, "not judged", feedback, informative=False, processes=2)

    def _from_outcome(
        self, row: dict[str, str], code: str, outcome: Outcome, *, apart: bool
    ) -> Judgement:
        if outcome.kind == "test":
            raise EvaluationFailed(f"the row's tests fail by themselves: {outcome.text}")
        text = _feedback(outcome, code, row["reference_code"])
        score = 1.0 if outcome.kind == "match" else 0.0
        return self._verdict(score, outcome.kind, text, processes=2 if apart else 1)

    def _warn(self, library: str) -> None:
        guards = self._runner.describe(library)["guards"]
        with self._lock:
            first, self._warned = not self._warned, True
        if first and "audit hook" in guards:
            warnings.warn(
                f"Answers are confined by {', '.join(guards)} only: this system lacks Landlock or "
                "seccomp. Judge code that you do not trust on Linux 5.13 or later.",
                RuntimeWarning,
                stacklevel=4,
            )


_LABELS = ("library", "code_context", "reference_code")
_TELLING = 15  # characters; shorter lines tell nothing, or are in every program
_WORDS = {
    "match": "Correct: passes every test.",
    "difference": "Wrong result in test {case}. {text}.",
    "error": "{text}.",
    "no result": "The program leaves no variable named result.",
    "lost": "The result is of a kind that cannot leave its process: {text}.",
    "string": "The result is right, but the code is not as asked. {text}.",
    "exit": "The program did not come to its end: {text}.",
    "timeout": "Timeout: {text}.",
    "files": "The program was stopped: {text}.",
    "crash": "The program crashed: {text}.",
}


def _feedback(outcome: Outcome, code: str, reference: str) -> str:
    said = _discreet(outcome.text.rstrip("."), code, reference)
    text = _WORDS[outcome.kind].format(text=said, case=outcome.case)
    if outcome.line:
        text += f" In the line: {_discreet(outcome.line, code, reference)}"
    if outcome.dropped and outcome.kind != "match":
        lines = "; ".join(outcome.dropped)
        text += f" Lines that the tests drop before they run the code: {lines}"
    return text


def _discreet(text: str, code: str, reference: str) -> str:
    """Take out lines of the reference that the answer does not have itself."""
    for line in map(str.strip, reference.splitlines()):
        if len(line) >= _TELLING and line not in code:
            text = text.replace(line, "…")
    return text
