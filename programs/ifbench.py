"""IFBench: 58 instructions of kinds that no training set has, for a program that checks itself.

Paper:      Pyatkin et al., "Generalizing Verifiable Instruction Following", 2025. As a program of
            several modules: NLPG.
Licence:    ODC-BY 1.0 (data).
Source:     ``data/IFBench_test.jsonl`` of allenai/IFBench on GitHub.
Sizes:      300 prompts with one or two of 58 instructions, 344 in all; one split.
Example:    prompt              Is it plausible that frequent hardship can make a society more
                                resilient? Include exactly 2 numbers in the response.
            instruction_id_list count:numbers
            kwargs              {"N": 2}
Metric:     the share of prompts all of whose instructions are followed
            (:mod:`evaluators.instructions`), ``compare="strict"`` unless asked otherwise;
            ``"loose"`` forgives a first and a last line and asterisks. Both stand in the rows.
            ``"strict_2026"`` and ``"loose_2026"`` judge as the published checks have since they
            were changed, ``"strict_described"`` and ``"loose_described"`` as the prompts' words
            say, the first two as the published checks did when IFBench came out.
Deviations: none known; :mod:`evaluators.instructions` says where its checks follow the published
            ones rather than the wording of a prompt.

The program has three modules: ``generate`` writes a response, ``check`` names the instructions
that it does not follow, and ``repair`` rewrites it for those. Where ``check`` finds nothing the
response is given as it is, so a prompt costs two calls or three. None of them sees anything but
the prompt and what the others wrote: the checks of the benchmark are for the judge alone. An
example's ``category`` is the id of its first instruction and its ``family`` the part of that
before the colon; ``categories`` and ``families`` name all. A running program has no such labels:
:func:`category` tells the first instruction from the prompt's words.

The data is looked for in the folder given, or in ``$DRPG_DATA``, ``../shared/data`` and
``data``; each may be the folder of the file or hold it as ``ifbench``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.instructions import SCORINGS, FollowsInstructions
from programs._files import find_file
from programs._instruction_kinds import kinds_in
from programs._instructions import examples_of, paired_responses

__all__ = ["BENCHMARK", "category", "evaluator", "key", "load", "program", "read_predictions"]

_FILE = "IFBench_test.jsonl"
_GET_IT = (
    "Get data/IFBench_test.jsonl of allenai/IFBench on GitHub and put it in data/ifbench; pass "
    "the folder as --data, or set DRPG_DATA to it."
)
_NOTHING = ("none", "nothing", "no violations", "no instructions", "all instructions are followed")


class Generate(dspy.Signature):
    """Respond to the prompt, and follow every instruction in it to the letter."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    prompt: str = dspy.InputField()
    response: str = dspy.OutputField(desc="What the prompt asks for, without any comment on it.")


class Check(dspy.Signature):
    """Compare a response with the prompt, instruction by instruction. Count where an instruction
    names a number; look only at how the response is written, not at whether it is true."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    prompt: str = dspy.InputField()
    response: str = dspy.InputField()
    violations: str = dspy.OutputField(
        desc="One line for each instruction that is not followed: what it asks for and what "
        "stands there instead. The word none when all are followed."
    )


class Repair(dspy.Signature):
    """Rewrite a response so that it follows every instruction of the prompt. Change what the
    violations name and keep the rest."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    prompt: str = dspy.InputField()
    response: str = dspy.InputField()
    violations: str = dspy.InputField()
    repaired: str = dspy.OutputField(desc="The whole response anew, without any comment on it.")


class IFBench(dspy.Module):
    """Two calls or three: generate, check, and repair where the check found something."""

    def __init__(self) -> None:
        super().__init__()
        self.generate = dspy.Predict(Generate)
        self.check = dspy.Predict(Check)
        self.repair = dspy.Predict(Repair)

    def forward(self, prompt: str) -> dspy.Prediction:
        """Respond to one prompt.

        Returns:
            A prediction with the final ``response``, the ``draft`` before repair, and what
            ``check`` said of that (``violations``).
        """
        draft = self.generate(prompt=prompt).response
        violations = self.check(prompt=prompt, response=draft).violations
        response = draft
        if not _finds_nothing(violations):
            repaired = self.repair(prompt=prompt, response=draft, violations=violations)
            response = repaired.repaired
        return dspy.Prediction(response=response, draft=draft, violations=violations)


def load(
    data: str | os.PathLike[str] | None = None, *, limit: int | None = None
) -> list[dspy.Example]:
    """Read the prompts in the order of the file.

    Args:
        data: The folder of the file, or one that holds it as ``ifbench``; ``None`` = look in the
            places named above.
        limit: Keep the first so many.

    Returns:
        Examples as :func:`programs._instructions.examples_of` describes them.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: A negative limit, or a row that cannot be used; the message names it.
    """
    path = find_file(data, "ifbench", [_FILE], title="IFBench", get_it=_GET_IT)
    return examples_of(path, limit)


def program() -> dspy.Module:
    """Return the program: the predictors ``generate``, ``check`` and ``repair``."""
    return IFBench()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "strict", **options: Any
) -> FollowsInstructions:
    """Return the judge.

    Args:
        data: Not looked at: the examples carry what is judged by.
        compare: A name of :data:`evaluators.instructions.SCORINGS`.
        options: Passed on to :class:`evaluators.instructions.FollowsInstructions`.
    """
    return FollowsInstructions(compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the prompt."""
    return str(inputs["prompt"])


def category(inputs: Mapping[str, Any]) -> str:
    """Tell from a prompt's words which instruction comes first in it, without any label.

    Returns:
        Its id, with its family before the colon, as in ``"count:numbers"``; ``""`` for wordings
        that are not known. It is the ``category`` of all 300 published prompts.

    >>> category({"prompt": "Is the sea blue? Include exactly 2 numbers in the response."})
    'count:numbers'
    """
    return next(iter(kinds_in(str(inputs["prompt"]))), "")


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[tuple[dspy.Example, dspy.Prediction]]:
    """Read responses, each with its example; see :func:`programs._instructions.paired_responses`.

    Raises:
        ValueError: The file does not fit; the message names the place.
    """
    return paired_responses(path, examples)


BENCHMARK = Benchmark(
    name="ifbench",
    title="IFBench: instructions that a program can check, in three modules",
    paper="Pyatkin et al., 2025",
    licence="ODC-BY 1.0",
    metric="prompts with every instruction followed",
    k=3,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
    category=category,
)
"""All of it, for ``drpg run ifbench``."""


def _finds_nothing(violations: str) -> bool:
    """Tell whether a check's answer says that there is nothing to repair.

    >>> _finds_nothing("None."), _finds_nothing("- none"), _finds_nothing(" ")
    (True, True, True)
    >>> _finds_nothing("None of the sentences ends in an emoji.")
    False
    """
    said = violations.strip().strip("-*•.\"' \n").lower()
    return not said or said in _NOTHING
