"""Wordings whose sense a rule would miss or turn round: they are left to a judge."""

from __future__ import annotations

import re

from drpg_dspy.constraints.wording import with_digits

__all__ = ["doubtful"]

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|‘[^’]*’|«[^»]*»|(?<!\w)'[^']*'(?!\w)")
_UNITS = r"(?:words?|sentences?|paragraphs?)"
_SHAPES = r"(?:lists?|tables?|headings?|paragraphs?|json|bullets?|bullet\s+points?|prose)"

_ANYWHERE = re.compile(
    # "do not omit" asks for what "omit" forbids; "rather than" and "neither" carry half of it
    r"\b(?:omit\w*|forget\w*|forgot\w*|leav\w+\s+(?:it\s+)?out|fail\w*\s+to|skip\w*|missing|neither"
    r"|rather\s+than|instead\s+of|(?:one|1)\s+of|either|unless|except|apart\s+from|reduc\w+|doubl\w+"
    r"|tripl\w+|halv\w+|half|usual)\b",
    re.I,
)
_BY_KIND = {
    "Length": re.compile(
        rf"\b{_UNITS}\s*,?\s+(?:at\s+(?:most|least)|max(?:imum)?|min(?:imum)?|tops)\b"
        r"\s*(?=[.,;!)]|$|and\b|but\b)"  # "150 words at most"
        r"|\b(?:at\s+(?:least|most)|under|over|below|above|than)\s+\d+\s*(?:[.;!]|$)"  # of what?
        r"|\d\.\d{3}\b|\d\s\d{3}\b|\d\s?k\b|\d\s?\^"  # 1.000, 1 000, 2k, 10^2
        rf"|\b0\s+{_UNITS}|\bno\s+(?:sentence|paragraph|line|item)\b"
        rf"|\b{_UNITS}\s+or\s+(?!less\b|fewer\b|more\b)",
        re.I,
    ),
    "Keyword": re.compile(r"\bwithout\b|,\s*not\b|\b0\s+times", re.I),
    "Format": re.compile(
        rf"\b{_SHAPES}\s+(?:or|and)\s+(?:an?\s+)?(?:numbered\s+|bulleted\s+)?{_SHAPES}\b"
        r"|,\s*(?:no|not|without|nothing)\b|\bcomma.separated\b|\bhtml\b",
        re.I,
    ),
    "No_Commas": re.compile(
        r"\d|\bmore\s+than\b|\bfewer\b|\bless\b|\bat\s+most\b|\boxford\b|\bserial\b|\binverted\b"
        r"|\bsparing|\boften\b",
        re.I,
    ),
    "All_Lower": re.compile(r"\d|\bat\s+(?:least|most)\b|\bmore\s+than\b|\b(?:start|begin)", re.I),
    "All_Upper": re.compile(
        r"\d|\bat\s+(?:least|most)\b|\bmore\s+than\b|\b(?:start|begin|first|initials?|names?)\b",
        re.I,
    ),
    "Start_With": re.compile(r"\bcontain|\bthat\s+(?:has|includes|mentions)\b", re.I),
    "End_With": re.compile(r"\bcontain|\bthat\s+(?:has|includes|mentions)\b", re.I),
}
_UNQUOTED = {
    # "Mention Berlin and Paris": one phrase or two? "Start with Hello and be kind": how much?
    "Keyword": re.compile(r",|\band\b|\bor\b", re.I),
    "Start_With": re.compile(r"\band\b", re.I),
    "End_With": re.compile(r"\band\b", re.I),
}
_COUNTS = re.compile(r"\b(?:once|twice|thrice|\d+\s+times)\b", re.I)


def doubtful(kind: str, text: str) -> bool:
    """Tell whether a rule read from a text might not be what the text says.

    Quoted words are not looked at.

    >>> doubtful("Keyword", 'Do not omit the word "tax".'), doubtful("Length", "150 words at most.")
    (True, True)
    >>> doubtful("Keyword", 'Use the phrase "do not forget".')
    False
    """
    bare = with_digits(_QUOTED.sub("''", text))
    if _ANYWHERE.search(bare) or ((found := _BY_KIND.get(kind)) and found.search(bare)):
        return True
    if kind == "Keyword" and len(_COUNTS.findall(bare)) > 1:
        return True
    return "''" not in bare and kind in _UNQUOTED and bool(_UNQUOTED[kind].search(bare))
