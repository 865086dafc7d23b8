"""A draft answer, checked against the constraints that have rules, and repaired."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from drpg_dspy.constraints import Check, Constraint, LengthRule, RuleCheck, is_refusal, parse_rule
from drpg_dspy.constraints.measures import count_words
from drpg_dspy.constraints.wording import quoted
from drpg_dspy.injection.fields import labelled_text
from drpg_dspy.optimizers.standing.advice import advice
from drpg_dspy.optimizers.standing.clashes import literal_of
from drpg_dspy.optimizers.standing.mending import MENDS, Mend, kind_of, mended
from drpg_dspy.plain import sendable

__all__ = ["Draft", "mend", "repair"]

_RULES = RuleCheck()
_LEAST_KEPT = 0.5
"""Share of a draft's words that a repair keeps, unless the draft is too long."""

_RECITED = 5
_WORDS = re.compile(r"\w+")
_MARKER = re.compile(r"\[\[ ## (\w+) ## \]\]")


@dataclass(frozen=True)
class Draft:
    """An answer with what checking it found.

    Attributes:
        text: The answer.
        checks: By constraint id: what the check of each constraint that has a rule gave.
    """

    text: str
    checks: Mapping[str, Check]

    @classmethod
    def of(cls, text: str, constraints: Sequence[Constraint]) -> Draft:
        """Check an answer against the constraints that have rules."""
        checks = {one.id: _RULES.check(one.type, one.text, text) for one in constraints}
        return cls(text, {id: check for id, check in checks.items() if check.satisfied is not None})

    @property
    def violated(self) -> frozenset[str]:
        """Ids of the constraints that do not hold."""
        return frozenset(id for id, check in self.checks.items() if not check.satisfied)

    def beats(self, other: Draft) -> bool:
        """Tell whether it breaks nothing that held before and puts something right."""
        return self.violated < other.violated


def mend(
    draft: Draft, constraints: Sequence[Constraint], kinds: Container[Mend] = MENDS
) -> tuple[Draft, int]:
    """Put right what takes no writer, one constraint after the other, each only if it helps.

    Args:
        draft: The answer.
        constraints: Those in force.
        kinds: What may be put right; an answer's length is not, see :func:`.cut`.

    Returns:
        The draft as it is then, and how many constraints were put right.
    """
    before = len(draft.violated)
    for one in constraints:
        if one.id in draft.violated:
            attempt = _mended_for(draft, one, constraints, kinds)
            draft = attempt if attempt.beats(draft) else draft
    return draft, before - len(draft.violated)


def _mended_for(
    draft: Draft, one: Constraint, constraints: Sequence[Constraint], kinds: Container[Mend]
) -> Draft:
    """Put one constraint right, then what that broke: a capital letter put in front, say."""
    attempt = Draft.of(_satisfying(draft.text, one, kinds), constraints)
    broken = attempt.violated - draft.violated
    for other in constraints:
        if other.id in broken:
            attempt = Draft.of(_satisfying(attempt.text, other, kinds), constraints)
    return attempt


def _satisfying(text: str, one: Constraint, kinds: Container[Mend]) -> str:
    for rule in parse_rule(one.type, one.text):
        if kind_of(rule) in kinds and not rule.check(text).satisfied:
            text = mended(text, rule)
    return text


def repair(
    draft: Draft,
    constraints: Sequence[Constraint],
    *,
    task: str,
    inputs: Mapping[str, Any],
    kinds: Container[Mend],
    counts: Counter[str],
) -> Draft:
    """Tell the configured LM what to do about what is violated, and have it answer anew; one call.

    The draft is not shown: small models copy it, whatever they are told to change.

    Returns:
        The new answer where it breaks nothing that held and puts something right, else the
        draft. One that declines, is empty, recites a requirement or a reason, or loses more than
        half of a draft that was not too long, is never better.
    """
    broken = [
        rule
        for one in constraints
        if one.id in draft.violated
        for rule in parse_rule(one.type, one.text)
        if not rule.check(draft.text).satisfied
    ]
    reasons = [advice(rule, draft.text) for rule in broken]
    counts["constraint_repairs"] += 1
    text = _ask(
        task=task,
        inputs=labelled_text([inputs], {name: name for name in inputs}),
        requirements="\n".join(f"- {one.text}" for one in constraints),
        sent_back="\n".join(f"- {reason}" for reason in reasons),
    )
    attempt = Draft.of(text, constraints)
    if text.strip():
        attempt, _ = mend(attempt, constraints, kinds)
    good = _is_answer(attempt.text) and _keeps(attempt, draft, constraints)
    asked = [*(one.text for one in constraints), *reasons]
    literal = [text for rule in broken if (text := literal_of(rule))]
    if attempt.beats(draft) and good and not recites(attempt.text, asked, literal):
        return attempt
    counts["constraint_repairs_rejected"] += 1
    return draft


def _is_answer(text: str) -> bool:
    return bool(text.strip()) and not is_refusal(text)


def _keeps(attempt: Draft, draft: Draft, constraints: Sequence[Constraint]) -> bool:
    """Tell whether a repair keeps what the draft had to say, as far as its length shows."""
    too_long = any(
        isinstance(rule, LengthRule)
        and rule.most is not None
        and not rule.check(draft.text).satisfied
        for one in constraints
        if one.id in draft.violated
        for rule in parse_rule(one.type, one.text)
    )
    return too_long or count_words(attempt.text) >= _LEAST_KEPT * count_words(draft.text)


def recites(answer: str, asked: Sequence[str], literal: Sequence[str] = ()) -> bool:
    """Tell whether an answer repeats what was asked of it instead of doing that.

    That is, five words in a row of a requirement or an advice, other than what it quotes to be
    said.

    Args:
        answer: The answer.
        asked: Requirements and advice.
        literal: What is to be said, quoted or not.

    >>> asked = ["Mention the word 'budget' at least twice."]
    >>> recites("It is important to mention the word 'budget' at least twice.", asked)
    True
    >>> recites("The budget of the party is small, and the budget is fixed.", asked)
    False
    """
    said = _runs(answer)
    spoken = {run for words in literal for run in _runs(words)}
    for text in asked:
        allowed = spoken.union(*(_runs(words) for words in quoted(text)))
        if said & (_runs(text) - allowed):
            return True
    return False


def _runs(text: str) -> set[tuple[str, ...]]:
    words = _WORDS.findall(text.casefold())
    return set(zip(*(words[i:] for i in range(_RECITED)), strict=False))


class _WholeReply(dspy.ChatAdapter):
    """The chat format; a reply without its markers is the answer as a whole. Asked once."""

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        parts = _MARKER.split(completion)
        named = dict(zip(parts[1::2], parts[2::2], strict=False))
        text = named.get("answer", parts[0] if len(parts) > 1 else completion)
        return {"answer": text.strip()}


def _ask(**inputs: str) -> str:
    with dspy.context(adapter=_WholeReply()):
        try:
            return str(dspy.Predict(AnswerAnew)(**sendable(inputs)).answer)
        except AdapterParseError:  # DSPy refuses an empty completion by itself
            return ""


class AnswerAnew(dspy.Signature):
    """Do the task. Every requirement on the answer has to be met to the letter: a first answer was
    sent back, for the reasons listed. Answer anew, so that none of them can be given again.

    Give the answer alone: no apology, no word on requirements or on the first answer."""

    task: str = dspy.InputField(desc="what you are asked to do")
    inputs: str = dspy.InputField(desc="what you are given to do it with")
    requirements: str = dspy.InputField(desc="what has to hold for the answer")
    sent_back: str = dspy.InputField(desc="what to do otherwise than in the first answer")
    answer: str = dspy.OutputField(desc="the new answer, and nothing else")
