"""What can go wrong, as a tree.

::

    Exception
    └── DRPGError                    everything this library raises of its own
        ├── BenchmarkDataMissing     a data set is not on this machine; says what gets it
        ├── CompileFailed            a pass over a training set gave nothing to learn from
        ├── EvaluationFailed         a judge could not judge: the step becomes *not judged*
        ├── ResumeMismatch           a run is continued under other settings; prints both values
        ├── RunInUse                 another live process works on the run
        ├── EmbedderMismatch         a memory was written with another embedding model
        ├── ConstraintConflict       a constraint contradicts one that is in force
        ├── OutdatedCandidate        what stood when a policy was learned stands no more
        ├── PolicyTooLong            a policy exceeds its hard size limit
        ├── ModelNotFound            a local model is in none of the places it may come from
        ├── UnknownRollout           feedback for a rollout that this memory never recorded
        └── StorageError             a value cannot be kept, or a file is damaged

    BaseException
    └── BudgetSpent                  the next LM call cannot be paid; passes through every
                                     ``except Exception``, as an interrupt does

A user's mistake (a wrong argument) is a plain ``ValueError`` that names the value and the
remedy; a missing optional package is an ``ImportError`` that names the extra.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BenchmarkDataMissing",
    "BudgetSpent",
    "CompileFailed",
    "ConstraintConflict",
    "DRPGError",
    "EmbedderMismatch",
    "EvaluationFailed",
    "ModelNotFound",
    "OutdatedCandidate",
    "PolicyTooLong",
    "ResumeMismatch",
    "RunInUse",
    "StorageError",
    "UnknownRollout",
    "missing_extra",
]


class DRPGError(Exception):
    """Root of everything this library raises of its own."""


class BenchmarkDataMissing(DRPGError):
    """A benchmark's data is not where it was looked for; the message says what gets it."""


class CompileFailed(DRPGError):
    """A program failed on every training example, or no answer could be judged."""


class EvaluationFailed(DRPGError):
    """A judge could not reach a verdict (a crash, a missing database, a silent judge LM).

    The step becomes *not judged*: its score is NaN, it is counted and reported, and nothing
    is learned from it.
    """


class ResumeMismatch(DRPGError):
    """A stored run or memory is opened under settings other than its own.

    The message prints the stored and the given value of each setting that differs.
    """


class RunInUse(DRPGError):
    """Another live process (or thread) works on the run; the message names it."""


class EmbedderMismatch(ResumeMismatch):
    """A memory's vectors came from another embedding model than the one given.

    The remedy is ``drpg memory reindex``, which embeds every stored text anew.
    """


class ConstraintConflict(DRPGError):
    """A constraint was not put into force because it contradicts others that are.

    Attributes:
        conflicts: One :class:`drpg_dspy.optimizers.standing.conflicts.Conflict` for each.
    """

    def __init__(self, message: str, conflicts: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class OutdatedCandidate(DRPGError):
    """A learned policy is to be approved, and another stands than when it was learned.

    The message shows what changed in between.
    """


class PolicyTooLong(DRPGError):
    """A policy exceeds its hard limit on characters or rules."""


class ModelNotFound(DRPGError):
    """A local model is neither cached nor to be had from any of its sources."""


class UnknownRollout(DRPGError, KeyError):
    """Feedback names a rollout that this memory never recorded."""

    def __str__(self) -> str:
        # KeyError would print the message quoted, as if it were the missing key.
        return str(self.args[0]) if self.args else ""


class StorageError(DRPGError):
    """A value cannot be stored without loss, or a stored file is damaged."""


class BudgetSpent(BaseException):
    """The budget that pays for the LM calls of a block is used up; the call was not sent.

    No ``Exception``, so that a program or optimizer that goes on after a failed example does not
    take an empty purse for one: what ends is the whole block, see
    :class:`drpg_dspy.usage.Purse`.
    """


def missing_extra(feature: str, extra: str, package: str, instead: str = "") -> ImportError:
    """Return the one phrasing used for every optional package that is not installed.

    Args:
        feature: What needs it.
        extra: The extra of this distribution that brings it.
        package: Its name.
        instead: What does without it, as a sentence.
    """
    said = (
        f"{feature} needs the package {package!r}, which is not installed. "
        f"Install it with: pip install 'drpg-dspy[{extra}]'"
    )
    return ImportError(f"{said}. {instead}" if instead else said)
