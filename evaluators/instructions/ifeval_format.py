"""IFEval: instructions on layout, marks, and parts that must be there."""

from __future__ import annotations

import json
import re

from evaluators._fields import shown
from evaluators.instructions.registry import Finding, count, instruction, of_prompt, text

__all__: list[str] = []

_PLACEHOLDER = re.compile(r"\[.*?\]")
# A lone * takes the next line into its bullet, as [^*] matches a line break.
_STAR_BULLET = re.compile(r"^\s*\*[^\*].*$", re.MULTILINE)
_DASH_BULLET = re.compile(r"^\s*-.*$", re.MULTILINE)
_HIGHLIGHT = re.compile(r"\*([^\n\*]*)\*")
_STRONG_HIGHLIGHT = re.compile(r"\*\*([^\n\*]*)\*\*")
_TITLE = re.compile(r"<<[^\n]+>>")
_FENCES = ("```json", "```Json", "```JSON", "```")
# Of three backticks or more, closed by as many; what stands inside may hold fewer.
_FENCED = re.compile(r"(?P<fence>`{3,})(?:json)?\s(?P<inside>.*)\s(?P=fence)", re.DOTALL | re.I)
_CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}
_SIX_STARS = "******"


@instruction("punctuation:no_comma", "no comma")
def _no_comma(response: str) -> Finding:
    number = response.count(",")
    return Finding(number == 0, f"{number}")


@instruction("startend:quotation", "the whole response in double quotation marks")
def _in_quotes(response: str) -> Finding:
    bare = response.strip()
    followed = len(bare) > 1 and bare[0] == bare[-1] == '"'
    return Finding(followed, f"a response from {bare[:1]!r} to {bare[-1:]!r}")


@instruction(
    "detectable_content:number_placeholders",
    "at least {num_placeholders} placeholders in square brackets",
    num_placeholders=count,
)
def _placeholders(response: str, num_placeholders: int) -> Finding:
    number = len(_PLACEHOLDER.findall(response))
    return Finding(number >= num_placeholders, f"{number}")


@instruction(
    "detectable_content:postscript",
    "a postscript beginning with {postscript_marker}",
    postscript_marker=text,
)
def _postscript(response: str, postscript_marker: str) -> Finding:
    marker = postscript_marker.strip()
    pattern = _POSTSCRIPTS.get(marker, marker.lower())
    try:
        found = re.search(pattern, response.lower())
    except re.error:
        found = re.search(re.escape(marker.lower()), response.lower())
    return Finding(found is not None, "none")


@instruction(
    "detectable_format:number_bullet_lists",
    "exactly {num_bullets} bullet points, each on a line that begins with * or -",
    num_bullets=count,
)
def _bullets(response: str, num_bullets: int) -> Finding:
    number = len(_STAR_BULLET.findall(response)) + len(_DASH_BULLET.findall(response))
    return Finding(number == num_bullets, f"{number}")


@instruction(
    "detectable_format:number_highlighted_sections",
    "at least {num_highlights} highlighted sections, like *this one*",
    num_highlights=count,
)
def _highlights(response: str, num_highlights: int) -> Finding:
    # **Strong** counts once: the single pairs in it hold nothing.
    marked = _HIGHLIGHT.findall(response) + _STRONG_HIGHLIGHT.findall(response)
    number = sum(bool(part.strip()) for part in marked)
    return Finding(number >= num_highlights, f"{number}")


@instruction(
    "detectable_format:multiple_sections",
    "at least {num_sections} sections, each beginning with '{section_spliter} X'",
    section_spliter=text,
    num_sections=count,
)
def _sections(response: str, section_spliter: str, num_sections: int) -> Finding:
    splitter = section_spliter.strip()
    try:
        number = len(re.findall(rf"{splitter}\s?\d+", response))
    except re.error:
        number = len(re.findall(rf"{re.escape(splitter)}\s?\d+", response))
    return Finding(number >= num_sections, f"{number}")


@instruction("detectable_format:title", "a title in double angular brackets, like <<this>>")
def _title(response: str) -> Finding:
    titles = _TITLE.findall(response)
    named = any(title.lstrip("<").rstrip(">").strip() for title in titles)
    return Finding(named, "an empty one" if titles else "none")


@instruction("detectable_format:json_format", "the whole response in JSON", None, {"exact": True})
def _json(response: str, exact: bool = False) -> Finding:
    bare = response.strip()
    if exact:
        fenced = _FENCED.fullmatch(bare)
        bare = fenced["inside"] if fenced else bare
    else:
        for fence in _FENCES:
            bare = bare.removeprefix(fence)
        bare = bare.removesuffix("```").strip()
    try:
        json.loads(bare, parse_constant=_no_number if exact else None)
    except (ValueError, RecursionError) as error:
        return Finding(False, f"something else ({error})")
    return Finding(True)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@instruction(
    "detectable_format:constrained_response",
    f"one of the answers {', '.join(repr(option) for option in _CONSTRAINED)}",
)
def _constrained(response: str) -> Finding:
    followed = any(option in response for option in _CONSTRAINED)
    return Finding(followed, f"'{shown(response, 60)}'")


@instruction("combination:two_responses", "two different responses set apart by ******")
def _two_responses(response: str) -> Finding:
    parts = [part.strip() for part in response.split(_SIX_STARS)]
    if not all(parts[1:-1]):
        return Finding(False, "an empty response between two separators")
    given = list(filter(None, parts))
    if len(given) != 2:
        return Finding(False, str(len(given)))
    return Finding(given[0] != given[1], "the same response twice")


@instruction(
    "combination:repeat_prompt",
    "the request repeated word for word before the answer",
    prompt_to_repeat=of_prompt,
)
def _repeats_prompt(response: str, prompt_to_repeat: str) -> Finding:
    followed = response.strip().lower().startswith(prompt_to_repeat.strip().lower())
    return Finding(followed, f"it begins with '{shown(response, 60)}'")
