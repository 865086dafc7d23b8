"""From a constraint's own text to the rules it states.

``"Keep under 200 words."`` is read as it stands: no second field says 200. A text from which no
rule can be read safely (another language, a condition, one part of the answer, a choice) gives
none, and belongs to a judge. Rather no rule than a wrong one.
"""

from __future__ import annotations

import functools
import re

from drpg_dspy.constraints.base import MAX_TEXT, RULE_TYPES, Check, known_type
from drpg_dspy.constraints.doubts import doubtful
from drpg_dspy.constraints.rules import (
    CaseRule,
    EndRule,
    FormatRule,
    KeywordRule,
    LengthRule,
    NoCommasRule,
    Rule,
    StartRule,
    Unit,
)
from drpg_dspy.constraints.wording import Limit, is_partial, limits, negated, quoted, with_digits

__all__ = ["BARE_WORDS_ARE_ABOUT", "RuleCheck", "parse_rule"]

BARE_WORDS_ARE_ABOUT = 20
"""From so many words on, a bare "in 200 words" means about 200; fewer mean exactly so many."""

_MOST_KEYWORDS = 20
_CLAUSES = re.compile(r"(?<=[.;!?])\s+|;\s*|,?\s+but\s+", re.I)
_UNIT = re.compile(
    r"[\s-]*(?:[a-z-]+\s+){0,2}?(?P<unit>words?|sentences?|paragraphs?)\b(?P<minus>\s+or\s+"
    r"(?:less|fewer))?(?P<plus>\s+or\s+more)?",
    re.I,
)
_JOINED = re.compile(r"\s*,?\s*(?:and|but)\s*", re.I)
_TIMES = re.compile(r"\s*(?:times?|occurrences?|mentions?)\b", re.I)
_VERB = r"(?:mention|include|use|say|contain|repeat|write|incorporate|feature|add)(?:s|ing)?"
_NAMED = re.compile(
    rf"\b{_VERB}\s+(?:the\s+)?(?:exact\s+)?(?:key)?(?:words?|terms?|phrases?|names?)\s+"
    r"(?P<word>\w[\w-]*)",
    re.I,
)
_BARE = re.compile(
    rf"\b{_VERB}\s+(?:the\s+(?:(?:key)?word|term|phrase|name)\s+)?(?P<word>\w[\w' -]{{0,60}}?)"
    r"\s*(?=[.,;!]|$|\s(?:at|exactly|precisely|no|not|more|up|about|between|\d))",
    re.I,
)
_COUNT_AHEAD = re.compile(r"(?:key)?words?\b|terms?\b|phrases?\b|names?\b", re.I)
_VAGUE = re.compile(r"^(?:an?|some|any|your|its|his|her|their|relevant|the|\d+)\b", re.I)
_START = re.compile(r"\b(?:start|begin|open)(?:s|ning|ing)?\b|\bfirst\s+word", re.I)
_END = re.compile(r"\b(?:end|finish|close|conclude)(?:s|ing)?\b|\blast\s+word", re.I)
_WITH = re.compile(
    r"\b(?:with|by|in|on|is|be|must\s+be)\s+(?:the\s+)?(?:exact\s+)?"
    r"(?P<what>word|words|phrase|sentence|letter|term|name|text|line)?s?\s*:?\s*(?P<text>\S[^.;!\n]{0,80})",
    re.I,
)
_MARKS = {
    "question mark": "?",
    "exclamation mark": "!",
    "exclamation point": "!",
    "full stop": ".",
    "period": ".",
    "ellipsis": "...",
    "colon": ":",
}
_LOWER = re.compile(r"\blower[\s-]?case\b|\bsmall\s+letters\b|\bno\s+(?:capital|upper)", re.I)
_UPPER = re.compile(r"\bupper[\s-]?case\b|\b(?:all|block)[\s-]?cap(?:ital)?s?\b|\bcapital\s", re.I)
_EACH_WORD = re.compile(r"\beach\s+word|\bevery\s+word|\binitial|\bfirst\s+letter", re.I)


class RuleCheck:
    """Checks answers by rule alone: no language model, no state.

    >>> RuleCheck().check("Keyword", "Mention Python at least 3 times.", "Python, PYTHON")
    Check(satisfied=False, detail="2 times 'Python', at least 3 asked", by='rule')
    >>> RuleCheck().check("Length", "Sei kurz.", "Gut.").satisfied is None
    True
    """

    def check(
        self, constraint_type: str, constraint_text: str, answer: str, prompt: str = ""
    ) -> Check:
        """Check one answer; not judged where the text states no rule that can be read.

        Args:
            constraint_type: The constraint's type.
            constraint_text: The constraint as it was written.
            answer: What the program gave.
            prompt: Not looked at: rules speak of the answer alone.

        Raises:
            ValueError: There is no such type.
        """
        rules = parse_rule(constraint_type, constraint_text)
        if not rules:
            return Check(None, _no_rule(constraint_type, constraint_text))
        if not answer.strip():
            return Check(False, "the answer is empty")
        checks = [rule.check(answer) for rule in rules]
        wrong = [check.detail for check in checks if not check.satisfied]
        details = wrong or [check.detail for check in checks]
        return Check(not wrong, "; ".join(details))


def parse_rule(constraint_type: str, text: str) -> tuple[Rule, ...]:
    """Return the rules that a constraint's text states; all of them must hold.

    Args:
        constraint_type: One of :data:`~drpg_dspy.constraints.TYPES`.
        text: The constraint as it was written.

    Returns:
        The rules; none where no rule can be read from the text, or the type has none.

    Raises:
        ValueError: There is no such type.

    >>> parse_rule("Length", "Keep the answer under 200 words.")
    (LengthRule(unit='words', least=0, most=199),)
    >>> parse_rule("Start_With", "Begin your reply with 'Dear team'.")
    (StartRule(text='Dear team', whole=True),)
    >>> parse_rule("Tone", "Be friendly.")
    ()
    """
    return _parsed(known_type(constraint_type), text if len(text) <= MAX_TEXT else "")


@functools.lru_cache(maxsize=4096)
def _parsed(kind: str, text: str) -> tuple[Rule, ...]:
    if kind not in RULE_TYPES or not text.strip():
        return ()
    joined = " ".join(text.split())
    return () if doubtful(kind, joined) else _PARSERS[kind](joined)


def _length(text: str) -> tuple[Rule, ...]:
    if is_partial(text):
        return ()
    plain = with_digits(text)
    rules: list[Rule] = []
    waiting: list[Limit] = []
    for limit in limits(plain):
        unit = _UNIT.match(plain, limit.end)
        if waiting and not _JOINED.fullmatch(plain[waiting[-1].end : limit.start]):
            waiting = []
        waiting.append(limit)
        if unit:
            rules += [_length_rule(one, unit) for one in waiting]
            waiting = []
    return tuple(rules)


def _length_rule(limit: Limit, found: re.Match[str]) -> Rule:
    unit: Unit = f"{found['unit'].lower().rstrip('s')}s"  # type: ignore[assignment]
    if limit.exact and found["minus"]:
        return LengthRule(unit, 0, limit.most)
    if limit.exact and found["plus"]:
        return LengthRule(unit, limit.least, None)
    if limit.exact and unit == "words" and limit.least >= BARE_WORDS_ARE_ABOUT:
        about = next(iter(limits(f"about {limit.least}")))
        return LengthRule(unit, about.least, about.most)
    return LengthRule(unit, limit.least, limit.most)


def _keyword(text: str) -> tuple[Rule, ...]:
    if is_partial(text) or re.search(r"['\"”’]\s*(?:or|/)\s*['\"“‘]", text):
        return ()
    rules: list[Rule] = []
    for clause in _CLAUSES.split(text):
        words = list(dict.fromkeys(quoted(clause))) or _unquoted(clause)
        if len(words) > _MOST_KEYWORDS:
            return ()
        limit = _times(clause, words)
        for word in words:
            if limit is not None:
                rules.append(KeywordRule(word, limit.least, limit.most))
            elif negated(_outside(clause, words)):
                rules.append(KeywordRule(word, 0, 0))
            else:
                rules.append(KeywordRule(word))
    return tuple(rules)


def _times(clause: str, words: list[str]) -> Limit | None:
    """Return how often something is to occur, where the clause says so."""
    plain = with_digits(_outside(clause, words))
    found = None
    for limit in limits(plain):
        if times := _TIMES.match(plain, limit.end):
            rest = plain[times.end() :]
            if limit.exact and re.match(r"\s+or\s+more\b", rest, re.I):
                limit = Limit(limit.least, None, False, limit.start, limit.end)
            elif limit.exact and re.match(r"\s+or\s+(?:less|fewer)\b", rest, re.I):
                limit = Limit(0, limit.most, False, limit.start, limit.end)
            elif limit.exact and not re.search(r"\bonly\b|\bexactly\b|\bprecisely\b", plain, re.I):
                # "Mention it 3 times" is met by a fourth; "only 3 times" is not.
                limit = Limit(limit.least, None, False, limit.start, limit.end)
            found = limit
    return found


def _outside(clause: str, words: list[str]) -> str:
    for word in words:
        clause = clause.replace(word, " ")
    return " ".join(clause.split())


def _unquoted(clause: str) -> list[str]:
    named = _NAMED.search(clause)
    if named:
        return [named["word"]]
    bare = _BARE.search(clause)
    word = bare["word"].strip() if bare else ""
    if not word or _VAGUE.match(word) or _COUNT_AHEAD.match(word) or len(word.split()) > 3:
        return []
    # A name, or a word that is counted; "mention the main reasons" asks for no keyword.
    counted = _times(clause, [word]) is not None
    return [word] if counted or word[:1].isupper() else []


def _format(text: str) -> tuple[Rule, ...]:
    if is_partial(text) or re.search(r"\blevels?\b", text, re.I):
        return ()
    plain = with_digits(text)
    rules: list[Rule] = []
    for clause in re.split(
        r"(?<=[.;!?])\s+|\s+(?=without\b)|,?\s+(?:but|with\s+(?=no\s+(?!more|fewer|less|longer)))",
        plain,
    ):
        rules += _format_clause(clause)
    return tuple(rules)


def _format_clause(clause: str) -> list[Rule]:
    unlimited = clause
    for limit in reversed(list(limits(clause))):  # "no more than 3" forbids nothing
        unlimited = unlimited[: limit.start] + " " + unlimited[limit.end :]
    forbidden = negated(unlimited)
    if re.search(r"\bJSON\b", clause, re.I):
        within = bool(re.search(r"\b(?:include|contain|embed)", clause, re.I))
        return [FormatRule("json", most=0 if forbidden else None, within=within)]
    if re.search(r"\btables?\b", clause, re.I):
        if forbidden:
            return [FormatRule("table", most=0)]
        return _counted(clause, FormatRule("table"), {"row": "rows", "column": "columns"})
    if re.search(r"\b(?:sub)?head(?:ing|er)s?\b|\bsection\s+titles?\b", clause, re.I):
        if forbidden:
            return [FormatRule("headings", "headings", 0, 0)]
        parts = {"head": "headings", "subhead": "headings", "section": "headings"}
        return _counted(clause, FormatRule("headings"), parts)
    if re.search(r"\bbullet|\blist(?:s|ed)?\b|\bnumbered\b", clause, re.I):
        marks = "number" if re.search(r"\bnumbered\b|\bordered\b", clause, re.I) else ""
        marks = "bullet" if not marks and re.search(r"\bbullet", clause, re.I) else marks
        if forbidden:
            return [FormatRule("list", "items", 0, 0, marks)]  # type: ignore[arg-type]
        shape = FormatRule("list", marks=marks)  # type: ignore[arg-type]
        return _counted(clause, shape, {"item": "items", "bullet": "items", "point": "items"})
    if re.search(r"\bparagraphs?\b|\bprose\b|\brunning\s+text\b", clause, re.I) and not forbidden:
        return [FormatRule("paragraphs"), *_length(clause)]
    return []


def _counted(clause: str, shape: FormatRule, nouns: dict[str, str]) -> list[Rule]:
    """Return the shape, once for each count that the clause states of its parts."""
    found: list[Rule] = []
    for limit in limits(clause):
        noun = re.match(r"[\s-]*(?:[a-z]+\s+)??([a-z]+)", clause[limit.end :], re.I)
        word = noun[1].lower() if noun else ""
        part = next((part for start, part in nouns.items() if word.startswith(start)), "")
        if not part and shape.kind == "list" and word and not _UNIT.match(clause, limit.end):
            # "List exactly 5 reasons": the list is of those, whatever they are.
            listed = re.search(r"\blist(?:\s+of)?\s*$", clause[: limit.start], re.I)
            part = "items" if listed else ""
        if part:
            # "A list of at most 4 points" asks for a list.
            least = max(1, limit.least) if shape.kind == "list" else limit.least
            found.append(FormatRule(shape.kind, part, least, limit.most, shape.marks))  # type: ignore[arg-type]
    return found or [shape]


def _start(text: str) -> tuple[Rule, ...]:
    around = _outside(text, quoted(text))
    if not _START.search(around) or negated(around) or is_partial(around):
        return ()
    wanted, letter = _edge(text, _START)
    return (StartRule(wanted, whole=not letter),) if wanted else ()


def _end(text: str) -> tuple[Rule, ...]:
    around = _outside(text, quoted(text))
    if not _END.search(around) or negated(around) or is_partial(around):
        return ()
    if not quoted(text):
        for name, mark in _MARKS.items():
            if re.search(rf"\b{name}\b", text, re.I):
                return (EndRule(mark),)
    wanted, letter = _edge(text, _END)
    return (EndRule(wanted, whole=not letter),) if wanted else ()


def _edge(text: str, verb: re.Pattern[str]) -> tuple[str, bool]:
    """Return what an answer is to begin or end with, and whether it is one letter."""
    found = verb.search(text)
    rest = text[found.start() :] if found else text
    letter = bool(re.search(r"\bletter\b", rest, re.I))
    words = quoted(rest, edge=True)
    if words:
        return (words[0], letter) if len(words) == 1 else ("", False)
    named = _WITH.search(rest)
    if not named:
        return "", False
    wanted = named["text"].strip(" \"'“”‘’")
    said = bool(named["what"]) or wanted[:1].isupper()
    if not said or _VAGUE.match(wanted) or len(wanted.split()) > 8:
        return "", False
    return wanted, letter


def _no_commas(text: str) -> tuple[Rule, ...]:
    forbids = negated(text) or re.search(r"comma[\s-]free", text, re.I)
    comma = re.search(r"\bcommas?\b", text, re.I)
    return (NoCommasRule(),) if comma and forbids and not is_partial(text) else ()


def _lower(text: str) -> tuple[Rule, ...]:
    found = _LOWER.search(text)
    bare = re.sub(
        r"\b(?:no|not|without|any)\s+(?:\w+\s+){0,3}?(?:capital|upper)\w*", " ", text, flags=re.I
    )
    if not found and bare == text:
        return ()
    if is_partial(bare) or negated(bare) or _EACH_WORD.search(text):
        return ()
    return (CaseRule(upper=False),)


def _upper(text: str) -> tuple[Rule, ...]:
    found = _UPPER.search(text)
    bare = re.sub(
        r"\b(?:no|not|without|any)\s+(?:\w+\s+){0,3}?(?:small|lower)\w*", " ", text, flags=re.I
    )
    if not found or is_partial(bare) or negated(bare) or _EACH_WORD.search(text):
        return ()
    return (CaseRule(upper=True),)


def _no_rule(kind: str, text: str) -> str:
    if known_type(kind) not in RULE_TYPES:
        return f"{kind} is not checked by rule"
    return f"no rule can be read from {' '.join(text.split())[:80]!r}"


_PARSERS = {
    "Length": _length,
    "Keyword": _keyword,
    "Format": _format,
    "Start_With": _start,
    "End_With": _end,
    "No_Commas": _no_commas,
    "All_Lower": _lower,
    "All_Upper": _upper,
}
