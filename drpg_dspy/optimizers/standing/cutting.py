"""An answer that is too long, without its last sentences: the last resort, and never blindly."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Container, Sequence

from drpg_dspy.constraints import Constraint, LengthRule, is_refusal, parse_rule
from drpg_dspy.constraints.measures import is_json, sentence_ends
from drpg_dspy.optimizers.standing.mending import Mend
from drpg_dspy.optimizers.standing.repairing import Draft, mend

__all__ = ["LEAST_OF_LIMIT", "cut"]

LEAST_OF_LIMIT = 1 / 3
"""Share of the length allowed that has to be left: of less, the answer is mostly gone."""

_ANNOUNCES = re.compile(r"[:;,][*_\"'”’)\]]*$")
_HEADING = re.compile(r"[ \t]*(?:#{1,6}[ \t].*|\*\*[^*]+\*\*|__[^_]+__)")
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"), ("«", "»"))
_ALIKE = ('"', "**", "`", "~~~")
_SINGLE = (re.compile(r"(?<!\w)['‘](?=\w)"), re.compile(r"(?<=[\w.,!?…])['’](?!\w)"))
_TAGS = (re.compile(r"<(?!br\b|hr\b|img\b|input\b)\w[^<>]*(?<!/)>", re.I), re.compile(r"</\w+>"))
_CARRIES = re.compile(
    r"^[\s*_#>\"'“‘(-]*(?:so|thus|hence|therefore|in\s+(?:conclusion|short|summary|sum)|overall"
    r"|(?:the|my|our|final|correct|short)\s+(?:\w+\s+)?(?:answer|result|solution|verdict|total)"
    r"|answer|result|solution|but|only|yet|although|though|note|warning|caution|important"
    r"|careful|if|always)\b"
    r"|\b(?:except|unless|however|not|never|cannot)\b|n['’]t\b",
    re.I,
)
"""A sentence that may hold the answer, an exception or a warning: without it, the rest is wrong."""


def cut(
    draft: Draft, constraints: Sequence[Constraint], kinds: Container[Mend], counts: Counter[str]
) -> Draft:
    """Leave out as few whole sentences at the end as it takes for everything to hold.

    Done only where the answer is longer than one constraint allows and wrong in nothing else, and
    only if every constraint that has a rule holds then; what the answer was to end with is put
    back. Nothing is cut within a sentence, a quotation, brackets, a table, tags or a block of
    code, right after a heading or what announces something ("as follows:"), in JSON, or so that
    less than :data:`LEAST_OF_LIMIT` of the length allowed is left. No sentence goes that reads
    like the answer itself, an exception or a warning.

    Args:
        draft: The answer, and what is violated.
        constraints: Those in force.
        kinds: What may be put right; without ``"length"`` nothing is cut.
        counts: ``constraint_cuts`` and ``sentences_cut`` are added to where it is done.

    Returns:
        The shorter answer, or the draft as it is.
    """
    limits = _exceeded(draft, constraints) if "length" in kinds else {}
    if not limits or is_json(draft.text):
        return draft
    ends = sentence_ends(draft.text)
    fitting = bisect.bisect_left(
        ends,
        True,
        key=lambda end: any(r.count(draft.text[:end]) > most for r, most in limits.items()),
    )
    starts = [0, *ends]
    sentences = [draft.text[start:end] for start, end in zip(starts, ends, strict=False)]
    needed = max((i + 1 for i, each in enumerate(sentences) if _CARRIES.search(each)), default=0)
    for kept in range(fitting, max(needed, 1) - 1, -1):
        text, rest = draft.text[: ends[kept - 1]], draft.text[ends[kept - 1] :]
        if any(rule.count(text) < LEAST_OF_LIMIT * most for rule, most in limits.items()):
            break
        if not _whole(text, rest):
            continue
        attempt, _ = mend(Draft.of(text, constraints), constraints, kinds)
        if not attempt.violated and not is_refusal(attempt.text):
            counts["constraint_cuts"] += 1
            counts["sentences_cut"] += len(ends) - kept
            return attempt
    return draft


def _exceeded(draft: Draft, constraints: Sequence[Constraint]) -> dict[LengthRule, int]:
    """Return the lengths that are exceeded, where nothing else is wrong; else nothing."""
    wrong = [one for one in constraints if one.id in draft.violated]
    if len(wrong) != 1:
        return {}
    broken = [
        r for r in parse_rule(wrong[0].type, wrong[0].text) if not r.check(draft.text).satisfied
    ]
    limits = {
        rule: rule.most
        for rule in broken
        if isinstance(rule, LengthRule) and rule.most is not None
        and rule.count(draft.text) > rule.most
    }  # fmt: skip
    return limits if len(limits) == len(broken) else {}


def _whole(text: str, rest: str) -> bool:
    """Tell whether a text may end here: nothing is left open, and nothing hangs in the air."""
    last = text.rpartition("\n")[2]
    here, _, following = rest.partition("\n")
    row, below = f"{last}{here}", following.lstrip().partition("\n")[0]
    in_table = "|" in row and (bool(here.strip()) or "|" in below)
    left_open = any(text.count(one) > text.count(other) for one, other in _PAIRS) or any(
        len(one.findall(text)) > len(other.findall(text)) for one, other in (_SINGLE, _TAGS)
    )
    unpaired = any(text.count(mark) % 2 for mark in _ALIKE)
    hangs = _ANNOUNCES.search(text) or _HEADING.fullmatch(last)
    return not (in_table or left_open or unpaired or hangs)
