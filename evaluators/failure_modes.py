"""Six ways in which adaptation fails under changing constraints, each with its detector.

A detector looks at one answer, at the answers of one step, or at a whole run, and returns a
:class:`Finding` or ``None``. It is a symptom that is found, not its cause: compare how often a
mode is found with a method and with the plain program.

==================  =====================================================  ====================
mode                what is found                                          looks at
==================  =====================================================  ====================
specification_lock  a replaced value is followed instead of the new one    answer and policy
refusal             the task is declined                                   answer
demonstration       an answer begins or goes on like a demonstration       answer and examples
prefix              answers to different prompts open with the same words  answers of a step
inert_growth        the written policy grows, the answers do not change    run and baseline
keyword_persists    a keyword whose constraint was deleted is still there  answer
==================  =====================================================  ====================

Source: "RECAP: Regression Evaluation for Continual Adaptation of Prompts", App. G, which
describes the modes; the rules below are ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drpg_dspy.constraints import (
    KeywordRule,
    Rule,
    RuleCheck,
    StartRule,
    is_refusal,
    parse_rule,
)
from drpg_dspy.constraints.wording import negated

__all__ = [
    "MODES",
    "Finding",
    "demonstration_noise",
    "inert_growth",
    "keyword_persists",
    "prefix_contamination",
    "refusal_cascade",
    "specification_lock",
]

MODES = (
    "specification_lock",
    "refusal",
    "demonstration",
    "prefix",
    "inert_growth",
    "keyword_persists",
)
"""Names of the six modes, in the paper's order."""

PREFIX_WORDS = 3
"""Opening words that answers must share to count as a prefix."""

PREFIX_SHARE = 0.30
"""Share of a step's answers, of at least three, that must share them."""

COPIED_WORDS = 6
"""Words in a row that an answer and a demonstration must share, and nothing else that was asked."""

GROWTH = 1.5
"""How many times longer the written policy must have become."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'“])")

_ASKING = r"\b(?:mention|include|use|using|say|contain|repeat|word|term|phrase)s?\s+"

SAME_ANSWERS = 0.5
"""Share of answers equal to the baseline's from which growth is inert."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure that was found.

    Attributes:
        mode: Which of :data:`MODES`.
        detail: What was seen, in one line.
    """

    mode: str
    detail: str


def specification_lock(
    kind: str, old: str, new: str, answer: str, policy: str = ""
) -> Finding | None:
    """Find a replaced value that is followed, or still demanded by the written policy.

    Args:
        kind: The constraint's type.
        old: Its text before the edit.
        new: Its text now.
        answer: An answer given after the edit.
        policy: What the method has written into the prompt.

    >>> specification_lock("Length", "Under 5 words.", "At least 7 words.", "Only three words.")
    Finding(mode='specification_lock', detail="follows 'Under 5 words.', not 'At least 7 words.'")
    """
    rules = RuleCheck()
    was, now = rules.check(kind, old, answer), rules.check(kind, new, answer)
    if was.satisfied and now.satisfied is False:
        return Finding("specification_lock", f"follows {old!r}, not {new!r}")
    for line in policy.splitlines():
        if _demands(line, kind, old) and not _demands(line, kind, new):
            return Finding("specification_lock", f"the policy still says {line.strip()[:80]!r}")
    return None


def refusal_cascade(answer: str) -> Finding | None:
    """Find an answer that declines the task.

    >>> refusal_cascade("The harbour opens at nine.") is None
    True
    """
    return Finding("refusal", answer.strip()[:80]) if is_refusal(answer) else None


def demonstration_noise(
    answer: str, demonstrations: Iterable[str], asked: str = ""
) -> Finding | None:
    """Find words that an answer took over from a demonstration.

    Args:
        answer: The answer.
        demonstrations: Responses of the examples that were shown.
        asked: Prompt and constraints; what stands there is not copied from an example.

    >>> shown = ["Here are two useful tools for your class: the bell and the board."]
    >>> demonstration_noise("Here are two useful tools for your garden.", shown).detail
    "copies 'here are two useful tools for'"
    """
    said = _words(answer)
    known = _runs(_words(asked), COPIED_WORDS)
    for shown in demonstrations:
        copied = _runs(said, COPIED_WORDS) & _runs(_words(shown), COPIED_WORDS) - known
        if copied:
            first = min(copied, key=lambda run: _place(said, run))
            return Finding("demonstration", f"copies {' '.join(first)!r}")
    return None


def prefix_contamination(answers: Sequence[str], constraints: Sequence[str] = ()) -> Finding | None:
    """Find an opening that answers to different prompts share and that nothing asks for.

    Args:
        answers: The answers of one step, one a prompt.
        constraints: Texts in force; an opening that one of them asks for is no finding.

    >>> prefix_contamination(["Here is what you wanted: tea.", "Here is what I know.", "No."] * 2)
    Finding(mode='prefix', detail="4 of 6 answers begin with 'here is what'")
    """
    asked = [
        " ".join(_words(rule.text))
        for text in constraints
        for rule in parse_rule("Start_With", text)
        if isinstance(rule, StartRule)
    ]
    opened = Counter(
        run
        for answer in answers
        if len(run := tuple(_words(answer)[:PREFIX_WORDS])) == PREFIX_WORDS
    )
    for run, count in opened.most_common(1):
        text = " ".join(run)
        wanted = any(text.startswith(one) or one.startswith(text) for one in asked)
        if count >= max(3, PREFIX_SHARE * len(answers)) and not wanted:
            return Finding("prefix", f"{count} of {len(answers)} answers begin with {text!r}")
    return None


def inert_growth(
    policies: Sequence[str], answers: Mapping[str, str], baseline: Mapping[str, str]
) -> Finding | None:
    """Find a written policy that grows while most answers stay those of the plain program.

    Args:
        policies: What the method had written, step after step.
        answers: Its answers, by any name.
        baseline: The plain program's answers, by the same names.

    >>> same = {"a": "Yes.", "b": "No."}
    >>> inert_growth(["", "Be kind.", "Be kind. Be brief. Be clear."], same, same).detail
    'the policy grew from 8 to 28 characters; 2 of 2 answers are as without it'
    """
    sizes = [len(policy) for policy in policies if policy]
    common = answers.keys() & baseline.keys()
    if len(sizes) < 2 or sizes[-1] < GROWTH * sizes[0] or not common:
        return None
    same = sum(answers[name].strip() == baseline[name].strip() for name in common)
    if same < SAME_ANSWERS * len(common):
        return None
    return Finding(
        "inert_growth",
        f"the policy grew from {sizes[0]} to {sizes[-1]} characters; "
        f"{same} of {len(common)} answers are as without it",
    )


def keyword_persists(deleted: str, answer: str) -> Finding | None:
    """Find a keyword in an answer although the constraint that asked for it was deleted.

    Args:
        deleted: The deleted constraint's text, of type Keyword.
        answer: An answer given afterwards.

    >>> keyword_persists('Mention the word "ethnographic".', "An Ethnographic study.").detail
    "still mentions 'ethnographic'"
    """
    for rule in parse_rule("Keyword", deleted):
        if not isinstance(rule, KeywordRule) or rule.most == 0:
            continue
        if KeywordRule(rule.keyword).check(answer).satisfied:
            return Finding("keyword_persists", f"still mentions {rule.keyword!r}")
    return None


def _demands(line: str, kind: str, text: str) -> bool:
    """Tell whether a line of a policy asks for what a constraint says, in its words or others."""
    if _holds(line, text):
        return True
    wanted = set(parse_rule(kind, text))
    if not wanted:
        return False
    for part in _SENTENCE.split(line):
        stated: set[Rule] = set(parse_rule(kind, part.strip(" -*•\t")))
        stated |= {rule for rule in wanted if _mentions(part, rule)}
        if wanted <= stated:
            return True
    return False


def _mentions(text: str, rule: Rule) -> bool:
    """Tell whether a text asks for a keyword without quotes around it: "always mention tea"."""
    if not isinstance(rule, KeywordRule) or rule.most == 0 or negated(text):
        return False
    words = r"\s+".join(map(re.escape, rule.keyword.split()))
    return bool(re.search(rf"{_ASKING}(?:\W*\w+\W+){{0,3}}?\W*{words}\b", text, re.I))


def _holds(text: str, mark: str) -> bool:
    """Tell whether a text holds certain words in a row."""
    return f" {' '.join(_words(mark))} " in f" {' '.join(_words(text))} "


def _words(text: str) -> list[str]:
    return re.findall(r"\w+(?:['’]\w+)?", text.casefold())


def _runs(words: Sequence[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def _place(words: Sequence[str], run: tuple[str, ...]) -> int:
    return next(i for i in range(len(words)) if tuple(words[i : i + len(run)]) == run)
