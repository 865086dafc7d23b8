"""IFEval: prompts with instructions that a program can check.

Paper:      Zhou et al., "Instruction-Following Evaluation for Large Language Models", 2023.
Licence:    Apache-2.0.
Source:     ``input_data.jsonl`` of google-research/instruction_following_eval; here as
            ``josejg/instruction_following_eval`` on GitHub carries it.
Sizes:      541 prompts with one to three of 25 instructions, 834 in all; one split.
Example:    prompt              I am planning a trip to Japan … You are not allowed to use any
                                commas in your response.
            instruction_id_list punctuation:no_comma
            kwargs              {}
Metric:     the share of prompts all of whose instructions are followed
            (:mod:`evaluators.instructions`), ``compare="strict"`` unless asked otherwise;
            ``"loose"`` forgives a first and a last line and asterisks. Both stand in the rows.
Deviations: the official keys are numbers; an ``id`` is their text.

The program is shown the prompt and nothing else. The data is looked for in the folder given, or
in ``$DRPG_DATA``, ``../shared/data`` and ``data``; each may be the folder of the file or hold it
as ``ifeval``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.instructions import FollowsInstructions
from programs._files import find_file
from programs._instructions import examples_of, paired_responses

__all__ = ["BENCHMARK", "evaluator", "key", "load", "program", "read_predictions"]

_FILE = "input_data.jsonl"
_GET_IT = (
    "Get data/input_data.jsonl of google-research/instruction_following_eval on GitHub and put "
    "it in data/ifeval; pass the folder as --data, or set DRPG_DATA to it."
)


class Respond(dspy.Signature):
    """Respond to the prompt, and follow every instruction in it to the letter."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    prompt: str = dspy.InputField()
    response: str = dspy.OutputField(desc="What the prompt asks for, without any comment on it.")


class IFEval(dspy.Module):
    """One call: prompt in, response out."""

    def __init__(self) -> None:
        super().__init__()
        self.respond = dspy.Predict(Respond)

    def forward(self, prompt: str) -> dspy.Prediction:
        """Respond to one prompt."""
        return self.respond(prompt=prompt)


def load(
    data: str | os.PathLike[str] | None = None, *, limit: int | None = None
) -> list[dspy.Example]:
    """Read the prompts in the order of the file.

    Args:
        data: The folder of the file, or one that holds it as ``ifeval``; ``None`` = look in the
            places named above.
        limit: Keep the first so many.

    Returns:
        Examples as :func:`programs._instructions.examples_of` describes them.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: A negative limit, or a row that cannot be used; the message names it.
    """
    path = find_file(data, "ifeval", [_FILE], title="IFEval", get_it=_GET_IT)
    return examples_of(path, limit)


def program() -> dspy.Module:
    """Return the program: one predictor, ``respond``."""
    return IFEval()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "strict", **options: Any
) -> FollowsInstructions:
    """Return the judge.

    Args:
        data: Not looked at: the examples carry what is judged by.
        compare: A name of :data:`evaluators.instructions.SCORINGS`; those of ``2026`` differ for
            IFBench alone.
        options: Passed on to :class:`evaluators.instructions.FollowsInstructions`.
    """
    return FollowsInstructions(compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the prompt."""
    return str(inputs["prompt"])


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[tuple[dspy.Example, dspy.Prediction]]:
    """Read responses, each with its example; see :func:`programs._instructions.paired_responses`.

    Raises:
        ValueError: The file does not fit; the message names the place.
    """
    return paired_responses(path, examples)


BENCHMARK = Benchmark(
    name="ifeval",
    title="IFEval: instructions that a program can check",
    paper="Zhou et al., 2023",
    licence="Apache-2.0",
    metric="prompts with every instruction followed",
    k=3,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=("strict", "loose", "strict_described", "loose_described"),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run ifeval``."""
