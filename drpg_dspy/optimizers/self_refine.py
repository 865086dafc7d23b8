"""Self-Refine: the LM comments on its own answer and writes it anew, before it is given."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from drpg_dspy.arguments import whole
from drpg_dspy.injection.fields import labelled_text
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer, Revision
from drpg_dspy.plain import sendable
from drpg_dspy.types import Guidance, ProgramCard

__all__ = ["SelfRefine"]

_PLAIN = (str, int, float, bool)
_VALUE = "answer"  # how the one value is called that is no dspy.Prediction
_DECISION = re.compile(r"needs_refinement\W*(true|false|yes|no)\b", re.IGNORECASE)


class SelfRefine(OnlineOptimizer):
    """Let the LM review its answer and refine it, round by round, until nothing has to change.

    After the program's own answer each round costs one call to review the last answer, which
    ends the rounds when it finds nothing to refine, and one to write the answer anew, which
    sees all attempts with their reviews. It learns nothing: no memory, no verdicts, no policy.

    All fields of the final prediction that a predictor of the program wrote are refined
    together, with the types and descriptions they have there; other fields stay. The LM is the
    one that answered. Both calls use DSPy's chat format and are never repeated: a reply that
    cannot be read ends the rounds with the answer at hand and counts as ``refine_unparsable``;
    ``refinements`` counts answers written anew.

    Args:
        rounds: At most so many, at least 1.

    Raises:
        ValueError: ``rounds`` is no whole number of at least 1.

    Source: Madaan et al. 2023, "Self-Refine: Iterative Refinement with Self-Feedback"; as a
    baseline of StreamBench (Wu et al. 2024), with 4 rounds.

    Deviations: whether to go on is a field of its own in the review, where the released code
    looks for a phrase in its text; prompts are made from the program's task and fields, where
    the released code has one set for each benchmark.
    """

    name = "self_refine"
    paper = "Madaan et al. 2023; Wu et al. 2024, StreamBench"
    writes_policies = False

    def __init__(self, rounds: int = 4) -> None:
        self.rounds = whole("rounds", rounds, 1)

    @property
    def max_lm_calls(self) -> int:  # type: ignore[override]
        """LM calls of a step beside the program's own: two a round."""
        return 2 * self.rounds

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return no policy and no examples."""
        return Guidance()

    def revise(
        self, inputs: Mapping[str, Any], answer: Any, guidance: Guidance, memory: MemoryView
    ) -> Revision:
        """Review and refine the answer.

        Raises:
            ValueError: The program's answer holds nothing that could be refined.
        """
        session = _Session(self.require_card(), inputs, answer)
        counts: Counter[str] = Counter()
        try:
            for _ in range(self.rounds):
                if not session.review():
                    break
                session.refine()
                counts["refinements"] += 1
        except AdapterParseError:
            counts["refine_unparsable"] += 1
        return Revision(session.answer() if counts["refinements"] else answer, dict(counts))


class ReviewAnswer(dspy.Signature):
    """An assistant did a task, and you are the last to look at its answer before it is handed in.
    Check it against the task and the inputs point by point: is everything done that was asked
    for, is each detail right, does the form fit?

    Be concrete: name each mistake and say how to put it right. Ask for no change that is a
    matter of taste. When nothing has to change, say so."""

    task: str = dspy.InputField(desc="what the assistant was asked to do")
    inputs: str = dspy.InputField(desc="what it was given to do it with")
    answer: str = dspy.InputField(desc="what it answered, field by field")
    review: str = dspy.OutputField(desc="the mistakes and how to put them right, in short")
    needs_refinement: bool = dspy.OutputField(desc="False when the answer is to stay as it is")


_REFINE = """You did a task, and a reviewer commented on each of your attempts. Write the answer \
anew: put right what the last review asks for, keep what was right already, and undo nothing that \
an earlier review asked for.

Give the whole answer, not only what changed, and do not mention the reviews in it."""

_REFINE_INPUTS = {
    "task": "what you are asked to do",
    "inputs": "what you are given to do it with",
    "attempts": "your attempts so far, the oldest first, each with its review",
}


class _Session:
    """One answer on its way through the rounds."""

    def __init__(self, card: ProgramCard, inputs: Mapping[str, Any], answer: Any) -> None:
        self.task = card.task
        self.inputs = labelled_text([inputs], {name: name for name in inputs})
        self.first = answer
        given = dict(answer.items()) if isinstance(answer, dspy.Prediction) else {_VALUE: answer}
        kinds = _PLAIN if isinstance(answer, dspy.Prediction) else (*_PLAIN, list, dict)
        self.fields = _written(given, card) or {
            name: (type(value), dspy.OutputField())
            for name, value in given.items()
            if type(value) in kinds
        }
        if not self.fields:
            raise ValueError(
                f"SelfRefine finds nothing to refine in a {type(answer).__name__} of "
                f"{', '.join(given) or 'no fields'}: no field is an output of one of the "
                "program's predictors, a text, a number or a bool."
            )
        self.values = {name: given[name] for name in self.fields}
        self.labels = {name: name for name in self.fields}
        self.label = _free("review", self.fields)
        self.attempts: list[dict[str, Any]] = []

    def review(self) -> bool:
        """Have the last answer reviewed; return whether it is to be refined."""
        shown = labelled_text([self.values], self.labels)
        reply = _ask(ReviewAnswer, task=self.task, inputs=self.inputs, answer=shown)
        self.attempts.append({**self.values, self.label: reply.review})
        return bool(reply.needs_refinement)

    def refine(self) -> None:
        """Have the answer written anew, in sight of all attempts."""
        labels = {**self.labels, self.label: self.label}
        shown = (self.task, self.inputs, labelled_text(self.attempts, labels))
        names = {_free(name, self.fields): desc for name, desc in _REFINE_INPUTS.items()}
        asked: dict[str, Any] = {
            name: (str, dspy.InputField(desc=desc)) for name, desc in names.items()
        }
        signature = dspy.Signature({**asked, **self.fields}, _REFINE)
        reply = _ask(signature, **dict(zip(names, shown, strict=True)))
        self.values = {name: reply[name] for name in self.fields}

    def answer(self) -> Any:
        """Return the answer as it stands, in the form in which the program gave its own."""
        if not isinstance(self.first, dspy.Prediction):
            return self.values[_VALUE]
        revised = self.first.copy(**self.values)
        revised.set_lm_usage(self.first.get_lm_usage())
        return revised


class _OneCall(dspy.ChatAdapter):
    """The chat format, read leniently and asked for once, whatever comes back."""

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Read a reply in chat format or JSON, and a review whose last field is garbled."""
        # Small models close an answer on its own line.
        closed = completion.replace("[[ ## completed ## ]]", "\n[[ ## completed ## ]]")
        try:
            return dict(super().parse(signature, closed))
        except AdapterParseError as error:
            decision = _DECISION.search(completion) if signature is ReviewAnswer else None
            try:
                return dict(dspy.JSONAdapter().parse(signature, completion))
            except AdapterParseError:
                if decision is None:
                    raise error from None
            said = completion[: decision.start()].replace("[[ ## review ## ]]", "").rstrip("[# ")
            needed = decision.group(1).lower() in {"true", "yes"}
            return {"review": said.strip(), "needs_refinement": needed}


def _ask(signature: Any, **inputs: str) -> dspy.Prediction:
    with dspy.context(adapter=_OneCall()):
        return dspy.Predict(signature)(**sendable(inputs))


def _written(given: Mapping[str, Any], card: ProgramCard) -> dict[str, tuple[Any, Any]]:
    """Return type and description of an answer's fields that are outputs of a predictor.

    Of predictors with an output of one name the last counts.
    """
    declared = {
        name: route.signature.output_fields[name]
        for route in card.routes
        if route.signature is not None
        for name in route.outputs
    }
    known = [name for name in given if name in declared]
    return {name: (declared[name].annotation, declared[name]) for name in known}


def _free(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name
