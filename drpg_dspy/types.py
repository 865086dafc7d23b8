"""The nouns of the library: what a policy, a rollout, a feedback and an experience are.

A **learner** meets a **stream**. For each example it **predicts** under its current
**policy** (a *rollout*), receives **feedback**, and **learns** (an *experience*).

All records are immutable. Everything in them has a plain JSON form (:mod:`drpg_dspy.plain`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import dspy

from drpg_dspy.arguments import scalar
from drpg_dspy.benchmark import Benchmark
from drpg_dspy.cards import ProgramCard, RouteCard
from drpg_dspy.open_fields import (
    JUDGED_SHOTS_DESC,
    OPEN_FIELD,
    POLICY_DESC,
    SHOTS_DESC,
    PolicyField,
    ShotsField,
)
from drpg_dspy.plain import digest

__all__ = [
    "CANDIDATE",
    "CONSTRAINT",
    "JUDGED_SHOTS_DESC",
    "OPEN_FIELD",
    "PLAIN_VALUE",
    "POLICY_DESC",
    "REVISION",
    "SHOTS_DESC",
    "SHOT_VERDICT",
    "Benchmark",
    "Call",
    "Experience",
    "Feedback",
    "Guidance",
    "Policy",
    "PolicyField",
    "ProgramCard",
    "Rollout",
    "RouteCard",
    "Rule",
    "ShotsField",
    "Usage",
    "Verdict",
]

Verdict = Literal["correct", "wrong"]
"""What the threshold makes of a score. Experiences that were not judged have none."""

PLAIN_VALUE = "$value"
"""The one output of a program that returns something else than a ``dspy.Prediction``."""

SHOT_VERDICT = "$verdict"
"""Key in a shot beside its field values: shows the example with this :data:`Verdict`."""

CANDIDATE = "candidate"
"""Begins the message of a policy that waits for a person's approval, and was not in force."""

CONSTRAINT = "c-"
"""Begins the id of a pinned rule that is a constraint; see :attr:`Rule.required`."""

REVISION = "$revision"
"""Route of the last entry in a trace whose answer was revised; see :class:`Call`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One instruction in plain language.

    Attributes:
        text: One line, no bullet mark.
        id: Stable name, derived from the text where none is given.
        author: The optimizer's name (``"drpg"``) or ``"person:NAME"``.
        pinned: A pinned rule survives every optimizer.
        sources: Ids of the experiences it came from.

    Raises:
        ValueError: The text is empty.
    """

    text: str
    id: str = ""
    author: str = "drpg"
    pinned: bool = False
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("A rule needs a text; got an empty one.")
        if not self.id:
            object.__setattr__(self, "id", f"r-{digest(self.text, length=10)}")

    @property
    def required(self) -> bool:
        """Whether it is a constraint in force: no choice of a policy puts it in or leaves it out.

        >>> Rule("Be brief.", pinned=True).required, Rule("Be brief.", "c-1", pinned=True).required
        (False, True)
        """
        return self.pinned and self.id.startswith(CONSTRAINT)


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules that one route of a program is given, and where they came from.

    Attributes:
        route: Name of the predictor it is injected into (DSPy's predictor path).
        rules: In the order in which they are shown.
        version: Number among the distinct texts of this route, from 1; 0 = not stored yet.
        parent: Version in force before this one was written; 0 = none.
        author: Who wrote it: an optimizer's name or ``"person:NAME"``.
        step: Step of the stream at which it was first in force; 0 = outside a stream.
        message: One line on why, as in a commit.
        category: The inputs that it is for; ``""`` = all of the route. The same text for
            another category is another version.
    """

    route: str
    rules: tuple[Rule, ...] = ()
    version: int = 0
    parent: int = 0
    author: str = "drpg"
    step: int = 0
    message: str = ""
    category: str = ""

    @property
    def place(self) -> str:
        """Route and category in one, where there is one.

        >>> Policy("answer").place, Policy("answer", category="comparison").place
        ('answer', 'answer [comparison]')
        """
        return f"{self.route} [{self.category}]" if self.category else self.route

    @property
    def text(self) -> str:
        """The rules as they stand in the prompt, one bullet a line; empty without rules."""
        return "\n".join(f"- {rule.text}" for rule in self.rules)

    @property
    def sources(self) -> tuple[str, ...]:
        """Ids of all experiences behind the rules, first mention first."""
        return tuple(dict.fromkeys(s for rule in self.rules for s in rule.sources))


@dataclass(frozen=True, slots=True)
class Usage:
    """What language-model calls cost.

    Attributes:
        calls: Requests sent to a model, failed ones included, cached answers not.
        prompt_tokens, completion_tokens: As the providers report them.
        cached_tokens: The part of ``prompt_tokens`` that a prefix cache served.
        cost: US dollars, the sum of what is known.
        seconds: Wall time spent in the calls.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens read and written together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            *(getattr(self, f.name) + getattr(other, f.name) for f in dataclasses.fields(self))
        )


@dataclass(frozen=True, slots=True)
class Guidance:
    """What an optimizer gives a program for one call.

    Attributes:
        policies: By route. A route that is missing, or whose policy has no rules, runs with
            exactly the prompt of the plain program.
        shots: By route: retrieved examples as field values, most similar last. One that holds
            :data:`SHOT_VERDICT` is shown with it, as text, never as a demo: a wrong answer in the
            model's own voice would be imitated.
        retrieved: Ids of the experiences looked at, by purpose (``"shots"``, ``"correct"``,
            ``"wrong"``, …), most similar first.
        usage: What writing the guidance cost.
        counts: Events worth counting, e.g. ``{"policy_unparsable": 1}``.
        memo: Replies of the policy writer to keep for the same evidence, key to text.
    """

    policies: Mapping[str, Policy] = field(default_factory=dict)
    shots: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    retrieved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    usage: Usage = Usage()
    counts: Mapping[str, int] = field(default_factory=dict)
    memo: Mapping[str, str] = field(default_factory=dict)

    def without_policies(self) -> Guidance:
        """Return the same examples and costs, and no policy."""
        return dataclasses.replace(self, policies={})

    def counting(self, counts: Mapping[str, int]) -> Guidance:
        """Return the same guidance with more counts; those it has already are added to."""
        total = dict(self.counts)
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
        return dataclasses.replace(self, counts=total)


@dataclass(frozen=True, slots=True)
class Call:
    """One predictor call of a rollout, in the order in which they ended.

    Where the optimizer revised the answer, the trace ends with an entry of the route
    :data:`REVISION`: its inputs are the changed fields as the program gave them, its outputs the
    same as the caller got them. The calls before stay as they were answered.

    Attributes:
        route: The predictor's route; ``""`` for a predictor that is not attached.
        inputs, outputs: Field values, without policy and shots. ``outputs`` is ``None`` when
            the call failed.
        error: The failure's class and message; ``""`` when it succeeded.
    """

    route: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One call of the program: what went in, under which policy, and what came out.

    Attributes:
        id: Unique name; what feedback refers to.
        step: Position in the stream, from 1. Outside a stream, the number of the call.
        inputs: The call's arguments; never a label.
        outputs: The prediction's fields. A program that returns something else than a
            ``dspy.Prediction`` gives ``{"$value": …}``. ``None`` when it raised.
        key: The text that stands for the inputs in retrieval; ``""`` = not retrievable.
        trace: The predictor calls.
        guidance: The exact policies and shots used.
        usage: What answering cost (writing the policy is in ``guidance.usage``).
        error: The failure's class and message; ``""`` when the program returned.
        created_at: Seconds since the epoch.
        seconds: Wall time of the whole call, policy writing included.
    """

    id: str
    step: int
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] | None
    key: str = ""
    trace: tuple[Call, ...] = ()
    guidance: Guidance = Guidance()
    usage: Usage = Usage()
    error: str = ""
    created_at: float = 0.0
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """True when the program raised instead of answering."""
        return self.outputs is None

    @property
    def unreadable(self) -> bool:
        """True when it failed because a predictor's reply had not the form that it should have."""
        last = self.trace[-1].error if self.trace else ""
        return self.failed and last.startswith("AdapterParseError")

    @property
    def answer(self) -> Any:
        """What the program returned, as judges expect it: a ``dspy.Prediction`` or a value."""
        if self.outputs is not None and self.outputs.keys() == {PLAIN_VALUE}:
            return self.outputs[PLAIN_VALUE]
        return dspy.Prediction(**(self.outputs or {}))


@dataclass(frozen=True, slots=True)
class Feedback:
    """The environment's verdict on one rollout.

    Attributes:
        score: In [0, 1]; NaN = not judged: counted, never learned from.
        text: What the judge or a person says about it; data, never instructions. ``None`` is
            taken as no text.
        subscores: Named parts of the score.
        informative: False for a verdict that counts in the report but proves nothing (two
            empty results that agree, a gold answer that the data does not determine). Such a
            step is never learned from.
        id: Names this piece of feedback: the same id again is a revision, not a second vote.
        author: ``"judge"``, ``"metric"`` or ``"person:NAME"``.
        usage: What judging with and learning from it cost in LM calls.
        error: What went wrong when it was learned from; the verdict itself stands.

    Raises:
        ValueError: The score is not a bool, a number in [0, 1] or NaN (one of NumPy or torch
            counts, an array does not), or text, id or author is no string.
    """

    score: float
    text: str = ""
    subscores: Mapping[str, float] = field(default_factory=dict)
    informative: bool = True
    id: str = ""
    author: str = "metric"
    usage: Usage = Usage()
    error: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", _checked_score(self.score))
        for name in ("text", "id", "author"):
            value: Any = getattr(self, name)
            if value is None and name == "text":
                object.__setattr__(self, name, "")
            elif not isinstance(value, str):
                raise ValueError(f"Feedback {name} must be a string, got {value!r}.")

    @property
    def judged(self) -> bool:
        """False when the score is NaN."""
        return not math.isnan(self.score)

    @property
    def teaches(self) -> bool:
        """True when something may be learned from it."""
        return self.judged and self.informative


@dataclass(frozen=True, slots=True)
class Experience:
    """A rollout with its feedback: one line of memory.

    Attributes:
        rollout: What happened.
        feedback: What the environment said.
        correct: The score reached the learner's threshold.
    """

    rollout: Rollout
    feedback: Feedback
    correct: bool

    @property
    def id(self) -> str:
        """The rollout's id: one experience for each rollout."""
        return self.rollout.id


def _checked_score(score: Any) -> float:
    value = scalar(score)
    if value is None:
        raise ValueError(
            f"A score must be a bool, a number in [0, 1] or NaN (= not judged), got {score!r} "
            f"({type(score).__name__})."
        )
    if not math.isnan(value) and not 0.0 <= value <= 1.0:
        raise ValueError(
            f"A score must lie in [0, 1], got {value!r}; divide by the maximum of your metric."
        )
    return value
