"""The metric of instruction following."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evaluators._fields import label, output
from evaluators.instructions.following import InstructionVerdicts, verdicts
from evaluators.instructions.libraries import tagger_name
from evaluators.judgement import Judge, Judgement

__all__ = ["SCORINGS", "FollowsInstructions"]

SCORINGS = {
    "strict": "2",
    "loose": "2",
    "strict_2026": "1",
    "loose_2026": "1",
    "strict_described": "1",
    "loose_described": "1",
}
"""The scorings and their versions.

``strict`` and ``loose`` judge as the published checks did when IFBench came out and through 2025,
those of ``2026`` as IFBench's have since, and the last two as the prompts' words say where the
published checks are known to judge something else.
"""

_TAGGED = "words:start_verb"


class FollowsInstructions(Judge):
    """Judge a response by whether it follows all of its instructions.

    A metric for ``dspy.Evaluate``, MIPROv2, GEPA and the rest: call it with an example that has
    ``prompt``, ``instruction_id_list`` and ``kwargs``, as the rows of IFBench and IFEval do, and
    a prediction that has a ``response`` (or is one).

    A verdict is a :class:`~evaluators.judgement.Judgement` with

    * ``score``: 1.0 when all are followed under ``compare``, else 0.0; NaN when a package that
      an instruction needs is missing;
    * ``feedback``: each violated instruction in words, and what was found instead;
    * ``subscores``: ``followed``, the share of instructions followed under ``compare``, and
      ``strict_all`` and ``loose_all``, 1.0 or 0.0;
    * ``violated``: the ids of the instructions not followed under ``compare``;
    * ``row``: the line that ``drpg score --rows`` writes, with the verdict of each instruction in
      both forms; ``None`` for both where nothing was judged;
    * ``compare``, ``compare_version``: the scoring.

    Args:
        compare: A name of :data:`SCORINGS`.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN, for ``dspy.Evaluate`` and
            optimizers that average scores.

    Raises:
        ValueError: An unknown scoring; when called, the example or the prediction lacks a field,
            or the instructions are unknown or their arguments do not fit.
        EvaluationFailed: When called, with ``raises``: a package is missing.

    >>> import dspy
    >>> asked = dspy.Example(
    ...     prompt="Describe the sea in at least 5 words, without commas.",
    ...     instruction_id_list=["length_constraints:number_words", "punctuation:no_comma"],
    ...     kwargs=[{"relation": "at least", "num_words": 5}, {}],
    ... )
    >>> verdict = FollowsInstructions()(asked, dspy.Prediction(response="Wide, blue, calm."))
    >>> print(verdict.feedback)
    2 of 2 instructions are not followed:
    - length_constraints:number_words: asked for at least 5 words, found 3
    - punctuation:no_comma: asked for no comma, found 2
    """

    scorings = SCORINGS

    def __init__(self, compare: str = "strict", *, raises: bool = False) -> None:
        super().__init__(compare, raises=raises)
        self._form, _, named = compare.partition("_")
        self._reading = named or "2025"

    @property
    def compare_version(self) -> str:
        """Version of the scoring; verdicts of different versions are not comparable.

        It names the tagger at work, which decides on first words.
        """
        return f"{SCORINGS[self.compare]}-{tagger_name()}"

    def _judged(self, example: Any, prediction: Any) -> Judgement:
        prompt, ids = label(example, "prompt"), label(example, "instruction_id_list")
        response = output(prediction, "response")
        response = "" if response is None else str(response)
        found = verdicts(ids, label(example, "kwargs"), prompt, response, reading=self._reading)
        return self._judge(prompt, ids, found)

    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        row = _row(label(example, "prompt"), None)
        return self._judgement(math.nan, feedback, {}, (), row)

    def _judge(self, prompt: str, ids: Sequence[str], found: InstructionVerdicts) -> Judgement:
        followed = found.strict if self._form == "strict" else found.loose
        broken = [place for place, good in enumerate(followed) if not good]
        if broken:
            lines = [f"- {ids[place]}: {found.problems[place]}" for place in broken]
            are = "is" if len(ids) == 1 else "are"
            head = f"{len(broken)} of {len(ids)} instructions {are} not followed:"
            feedback = "\n".join([head, *lines])
        else:
            feedback = "Every instruction is followed."
        subscores = {
            "followed": sum(followed) / len(followed) if followed else 1.0,
            "strict_all": float(found.strict_all),
            "loose_all": float(found.loose_all),
        }
        violated = tuple(ids[place] for place in broken)
        return self._judgement(
            float(not broken), feedback, subscores, violated, _row(prompt, found)
        )

    def _judgement(
        self,
        score: float,
        feedback: str,
        subscores: dict[str, float],
        violated: tuple[str, ...],
        row: dict[str, Any],
    ) -> Judgement:
        return Judgement(
            score=score,
            feedback=feedback,
            informative=not math.isnan(score),
            subscores=subscores,
            violated=violated,
            row=row,
            compare=self.compare,
            compare_version=self.compare_version,
        )


def _row(prompt: str, found: InstructionVerdicts | None) -> dict[str, Any]:
    if found is None:
        return {"prompt": prompt, "strict": None, "loose": None}
    return {
        "prompt": prompt,
        "strict": {"follow_all": found.strict_all, "verdicts": list(found.strict)},
        "loose": {"follow_all": found.loose_all, "verdicts": list(found.loose)},
    }
