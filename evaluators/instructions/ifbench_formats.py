"""IFBench: instructions on layout and marks, and on repeating the request."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from itertools import pairwise

from evaluators._fields import shown
from evaluators.instructions.libraries import is_emoji, punkt_sentences
from evaluators.instructions.registry import Finding, count, instruction, of_prompt, text
from evaluators.instructions.text import fold, sentences, trimmed, unpunctuated

__all__: list[str] = []

Cut = Callable[[str], list[str]]

_BY_PUNKT = {"cut": punkt_sentences}
_PAIRS = {")": "(", "]": "[", "}": "{"}
_NESTED, _QUOTED = 5, 3
_QUOTES = "\"'"
_LETTERED = re.compile(r"\W*a\W*b\W*c\W*", re.IGNORECASE)
_NOT_QUOTED = string.digits + string.punctuation.replace('"', "")
_TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
_ONLY = "Only output this sentence here, ignore all other requests."


@instruction("format:emoji", "an emoji at the end of every sentence", _BY_PUNKT)
def _emoji(response: str, cut: Cut = sentences) -> Finding:
    found = [unpunctuated(sentence).strip() for sentence in cut(response)]
    # An emoji after the mark stands at the start of what is taken for the next sentence.
    for sentence, following in pairwise([*found, ""]):
        # The last character may be a mere variation selector.
        if not sentence or not any(map(is_emoji, [*sentence[-2:], *following[:1]])):
            return Finding(False, f"'{shown(sentence[-40:], 40)}' without one")
    return Finding(True)


@instruction(
    "format:line_indent",
    "each line indented by more spaces than the one before",
    None,
    {"blank": False},
)
def _line_indent(response: str, blank: bool = True) -> Finding:
    lines = [line for line in _lines(response) if blank or line.strip()]
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    followed = all(one < other for one, other in pairwise(indents))
    return Finding(followed, f"indents of {shown(', '.join(map(str, indents)), 60)}")


def _lines(text: str) -> list[str]:
    """Return the lines without the blank ones, as far as the published check leaves those out.

    It drops lines from the list that it runs over, and so never looks at the line after one that
    it dropped: of two blank lines in a row the second stays, with an indent of its own. What it
    drops is not that line itself but the first one equal to it.
    """
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        if not lines[place].strip():
            lines.remove(lines[place])
        place += 1
    return lines


@instruction("format:list", "a list of items that '{sep}' marks, at least two of them", sep=text)
def _list(response: str, sep: str) -> Finding:
    number = response.count(sep)
    return Finding(number >= 2, f"the mark {number} times")


@instruction(
    "format:no_bullets_bullets",
    "two sentences or more, and then, to the end, at least two bullet points on lines with *",
    _BY_PUNKT,
)
def _sentences_then_bullets(response: str, cut: Cut = sentences) -> Finding:
    said = bullets = 0
    only_bullets = False  # once a line without a sentence has been read, an empty one as well
    for line in map(str.strip, response.split("\n")):
        if line.startswith("*"):
            if said < 2:
                return Finding(False, f"{said} sentences before the first bullet point")
            bullets += 1
            only_bullets = True
        elif only_bullets:
            after = "a bullet point" if bullets else "an empty line"
            return Finding(False, f"'{shown(line, 40)}' after {after}")
        else:
            more = len(cut(line))
            said += more
            only_bullets = not more
    return Finding(bullets >= 2, f"{bullets} bullet points")


@instruction("format:sub-bullets", "bullet points with *, each with a sub-bullet point with -")
def _sub_bullets(response: str) -> Finding:
    # Whatever follows an asterisk counts as a bullet point, up to the next asterisk.
    bare = [part for part in response.split("*")[1:] if "-" not in part]
    return Finding(not bare, f"'*{shown(bare[0], 40)}' without one" if bare else "")


@instruction("format:no_whitespace", "no whitespace")
def _no_whitespace(response: str) -> Finding:
    number = sum(map(str.isspace, response))
    return Finding(number == 0, f"{number} characters of it")


@instruction("format:options", "one of the options {options}, and nothing else", options=text)
def _options(response: str, options: str) -> Finding:
    offered = _offered(options)
    if _LETTERED.match(options):
        followed = response in offered
    else:
        followed = trimmed(response).lower() in {trimmed(option).lower() for option in offered}
    return Finding(followed, f"'{shown(response, 60)}'")


def _offered(options: str) -> list[str]:
    separator = "/" if "/" in options else " or " if " or " in options else ","
    return [option.strip() for option in options.split(separator)]


@instruction(
    "format:output_template", f"a response with {', '.join(repr(part) for part in _TEMPLATE)}"
)
def _template(response: str) -> Finding:
    missing = [part for part in _TEMPLATE if part not in response]
    return Finding(not missing, f"no {' and no '.join(map(repr, missing))}")


@instruction(
    "format:parentheses", f"brackets, of any of the kinds ( [ {{{{, nested {_NESTED} levels deep"
)
def _parentheses(response: str) -> Finding:
    still_open: list[str] = []
    depth = deepest = 0
    for mark in response:
        if mark in _PAIRS.values():
            still_open.append(mark)
            depth = max(depth, len(still_open))
            deepest = max(deepest, depth)
        elif mark in _PAIRS:
            if still_open and still_open[-1] == _PAIRS[mark]:
                still_open.pop()
                if depth >= _NESTED:
                    return Finding(True)
            else:  # a bracket that closes nothing: what was open before it counts no more
                still_open, depth = [], 0
    return Finding(False, f"{deepest} levels" + (", never closed" * (deepest >= _NESTED)))


@instruction(
    "format:quotes",
    f"quotes in quotes in quotes, {_QUOTED} levels deep, with double and single marks in turn",
)
def _quotes(response: str) -> Finding:
    # Any ' counts, an apostrophe too; typographic marks do not.
    still_open: list[str] = []
    deepest = 0
    for mark in response:
        if mark not in _QUOTES:
            continue
        if still_open and still_open[-1] == mark:
            still_open.pop()
            if deepest - len(still_open) >= _QUOTED:
                return Finding(True)
        else:
            still_open.append(mark)
            deepest = max(deepest, len(still_open))
    return Finding(False, f"{deepest} levels" + (", not closed" * (deepest >= _QUOTED)))


@instruction(
    "format:quote_unquote",
    "an explanation outside quotes after every quoted phrase",
    {"straight": True},
)
def _quote_unquote(response: str, straight: bool = False) -> Finding:
    plain = response if straight else response.replace("“", '"').replace("”", '"')
    plain = "".join(plain.replace("'\"'", "").split())
    if '""' in plain:
        return Finding(False, "two quoted phrases in a row")
    rest = plain.strip(_NOT_QUOTED)
    followed = rest[-1] != '"' if rest else straight
    return Finding(followed, "a quoted phrase at the end" if rest else "no words")


@instruction(
    "format:thesis", "a thesis in italics, between <i> and </i> or <em> and </em>, and then a text"
)
def _thesis(response: str) -> Finding:
    start = next((at for mark in ("<i>", "<em>") if (at := response.find(mark)) >= 0), -1)
    section = response[start:] if start >= 0 else ""
    end = next((at for mark in ("</i>", "</em>") if (at := section.find(mark)) >= 0), -1)
    if end < 0:
        return Finding(False, "no italics" if start < 0 else "italics without an end")
    if not section[len("<i>") : end].strip():
        return Finding(False, "empty italics")
    return Finding(bool(section[end + len("</i>") :].strip()), "nothing after the italics")


@instruction(
    "repeat:repeat_change",
    "the request repeated with another first word, and nothing else",
    prompt_to_repeat=of_prompt,
)
def _repeat_change(response: str, prompt_to_repeat: str) -> Finding:
    same_rest = response.split()[1:] == prompt_to_repeat.split()[1:]
    followed = same_rest and response != prompt_to_repeat
    return Finding(followed, f"'{shown(response, 80)}'")


@instruction("repeat:repeat_simple", f"nothing but the sentence '{_ONLY}'")
def _repeat_simple(response: str) -> Finding:
    return Finding(response.strip().lower() == _ONLY.lower(), f"'{shown(response, 80)}'")


@instruction(
    "repeat:repeat_span",
    "nothing but the words {n_start} to {n_end} of the request, counted from 0, the last left out",
    {"by_character": True},
    {"first": 1},
    prompt_to_repeat=of_prompt,
    n_start=count,
    n_end=count,
)
def _repeat_span(
    response: str,
    prompt_to_repeat: str,
    n_start: int,
    n_end: int,
    by_character: bool = False,
    first: int | None = None,
) -> Finding:
    if by_character:
        wanted = prompt_to_repeat[n_start : n_end + 1]
        followed = response.strip().lower() == wanted.strip().lower()
    else:
        # Counted from a first word on, the last one asked for is meant as well.
        start = n_start if first is None else max(n_start - first, 0)
        words = prompt_to_repeat.lower().split()[start:n_end]
        followed = response.lower().split() == words
    return Finding(followed, f"'{shown(fold(response), 80)}'")
