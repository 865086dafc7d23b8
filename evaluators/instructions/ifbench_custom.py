"""IFBench: tasks that are instructions throughout (its family ``custom``)."""

from __future__ import annotations

import calendar
import csv
import io
import re
import string
import unicodedata
from collections.abc import Callable
from itertools import pairwise

from evaluators._fields import shown
from evaluators.instructions.libraries import punkt_sentences
from evaluators.instructions.registry import Finding, instruction
from evaluators.instructions.text import sentences, trimmed, unpunctuated

__all__: list[str] = []

_MULTIPLES = [str(number) for number in range(14, 51, 7)]
_QUESTION = re.compile(r"\n*Question \d+[.|):;]?\s*")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w+")
_QUESTIONS, _OPTIONS = 4, 5
_MARKS = string.punctuation + string.whitespace + "‘’“”„«»—–…¿¡"
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_LIFETIME = range(1769, 1822)
# By latitude, from north to south. The published list has no Kyiv.
_CAPITALS = """Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin
    Berlin Amsterdam Warsaw London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest
    Vaduz Chisinau Bern Ljubljana Zagreb""".split()
_COUNTRIES = 52  # two less than there are in Africa
_LAST_COUNTRY = "Zimbabwe"
_CITY = ["ID", "Country", "City", "Year", "Count"]
_PRODUCT = ["ProductID", "Category", "Brand", "Price", "Stock"]
_PRODUCTS = 14
_STUDENT = ["StudentID", "Subject", "Grade", "Semester", "Score"]
_SPECIAL = re.compile(r'".*[^\d\w\s].*"')


@instruction("custom:multiples", f"the multiples of 7 from 10 to 50, {', '.join(_MULTIPLES)}")
def _multiples(response: str) -> Finding:
    found = re.findall(r"\d+", response)
    return Finding(found == _MULTIPLES, f"the numbers {shown(', '.join(found), 60) or 'none'}")


@instruction("custom:character_reverse", "'bald eagle' with its letters in reverse order")
def _character_reverse(response: str) -> Finding:
    return Finding("elgae dlab" in response.lower(), f"'{shown(response, 60)}'")


@instruction("custom:word_reverse", "'bald eagle' with its words in reverse order")
def _word_reverse(response: str) -> Finding:
    reversed_words = " ".join(reversed(unpunctuated(response.lower()).split()))
    return Finding("bald eagle" in reversed_words, f"'{shown(response, 60)}'")


@instruction(
    "custom:sentence_alphabet",
    "26 sentences whose first letters run through the alphabet",
    {"cut": punkt_sentences},
    {"skipped": _MARKS},
)
def _sentence_alphabet(
    response: str, cut: Callable[[str], list[str]] = sentences, skipped: str | None = None
) -> Finding:
    found = cut(response)
    if len(found) != len(string.ascii_lowercase):
        return Finding(False, f"{len(found)} sentences")
    for sentence, wanted in zip(found, string.ascii_lowercase, strict=True):
        if not sentence.lstrip(skipped).lower().startswith(wanted):
            return Finding(False, f"'{shown(sentence, 40)}' where '{wanted}' is due")
    return Finding(True)


@instruction(
    "custom:date_format_list",
    "nothing but dates as YYYY-MM-DD, separated by commas, of Napoleon's lifetime",
)
def _dates(response: str) -> Finding:
    for date in response.split(","):
        parts = _DATE.fullmatch(date.strip())
        if parts is None or not _is_day(*map(int, parts.groups())):
            return Finding(False, f"'{shown(date, 40)}'")
    return Finding(True)


def _is_day(year: int, month: int, day: int) -> bool:
    # The published check sets upper bounds only, and none for the days of a month 00. 1804 is a
    # leap year: the 29th of February passes in any year.
    days = calendar.monthrange(1804, month)[1] if 1 <= month <= 12 else day
    return year in _LIFETIME and month <= 12 and day <= days


@instruction(
    "custom:european_capitals_sort",
    f"{len(_CAPITALS)} capitals separated by commas, from north to south",
)
def _capitals(response: str) -> Finding:
    given = [city.strip() for city in _ascii(response).split(",") if city.strip()]
    if len(given) != len(_CAPITALS):
        return Finding(False, f"{len(given)}")
    for city, wanted in zip(given, _CAPITALS, strict=True):
        if city != wanted:
            return Finding(False, f"'{shown(city, 40)}' where '{wanted}' is due")
    return Finding(True)


@instruction(
    "custom:reverse_newline",
    "the countries of Africa from Zimbabwe on in reverse alphabetical order, one a line",
)
def _reverse_lines(response: str) -> Finding:
    lines = [line for line in map(trimmed, response.split("\n")) if line]
    start = next((at for at, line in enumerate(lines) if _LAST_COUNTRY in line), len(lines))
    found = [_ascii(line) for line in lines[start:]]
    if len(found) < _COUNTRIES:
        return Finding(False, f"{len(found)} lines from there")
    for one, other in pairwise(found):
        if one < other:
            return Finding(False, f"'{shown(other, 40)}' after '{shown(one, 40)}'")
    return Finding(True)


def _ascii(text: str) -> str:
    """Return a text without accents, and without any other character that ASCII has not."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


@instruction(
    "custom:mcq_count_length",
    f"{_QUESTIONS} questions from 'Question 1' on with {_OPTIONS} options (A to E) each, every "
    "question longer than the one before",
)
def _multiple_choice(response: str) -> Finding:
    if not response.startswith("Question"):
        return Finding(False, f"'{shown(response, 40)}' at the start")
    questions = [part.strip() for part in _QUESTION.split(response) if part.strip()]
    if len(questions) != _QUESTIONS:
        return Finding(False, f"{len(questions)}")
    lengths = []
    for question in questions:
        lines = [line.strip() for line in question.split("\n")]
        options = [at for at, line in enumerate(lines) if _OPTION.match(line)]
        if len(options) != _OPTIONS:
            return Finding(False, f"{len(options)} options in '{shown(question, 40)}'")
        lengths.append(len(" ".join(lines[: options[0]]).strip()))
    followed = all(one < other for one, other in pairwise(lengths))
    return Finding(followed, f"questions of {', '.join(map(str, lengths))} characters")


@instruction(
    "custom:csv_city",
    f"CSV with the columns {', '.join(_CITY)} and 7 rows, separated by commas",
)
def _csv_city(response: str) -> Finding:
    header, *rows = _parsed(response, ",")
    if header != _CITY:
        return Finding(False, f"the columns {shown(', '.join(header), 80)}")
    return _shape(rows, 7, len(_CITY)) or Finding(True)


@instruction(
    "custom:csv_special_character",
    f"CSV with the columns {', '.join(_PRODUCT)} and {_PRODUCTS} rows, separated by commas, and a "
    "field in double quotes that holds a special character",
)
def _csv_special_character(response: str) -> Finding:
    if (header := _header(response, _PRODUCT, r",[ \t]*")) is not None:
        return header
    _, *rows = _parsed(_with_quotes(response), ",")
    if len(rows) != _PRODUCTS:
        return Finding(False, f"{len(rows)} rows")
    for row in rows:  # the rows below such a field are not looked at
        if len(row) != len(_PRODUCT):
            return Finding(False, f"a row of {len(row)} fields")
        if any(map(_SPECIAL.match, row)):
            return Finding(True)
    return Finding(False, "no such field")


@instruction(
    "custom:csv_quotes",
    f"CSV with the columns {', '.join(_STUDENT)} and 3 rows, separated by tabs, every field in "
    "double quotes",
)
def _csv_quotes(response: str) -> Finding:
    if (header := _header(response, _STUDENT, r"\t *")) is not None:
        return header
    first, *rows = _parsed(_with_quotes(response), "\t")
    if (odd := _shape(rows, 3, len(_STUDENT))) is not None:
        return odd
    bare = [field for row in (first, *rows) for field in row if not _is_quoted(field.strip())]
    return Finding(not bare, f"'{shown(', '.join(bare), 60)}' without")


def _header(response: str, columns: list[str], separator: str) -> Finding | None:
    """Return what is wrong with the first line, where a column may be quoted."""
    line = response.split("\n")[0].strip()
    pattern = separator.join(f'(?:{column}|"{column}")' for column in columns)
    return None if re.fullmatch(pattern, line) else Finding(False, f"'{shown(line, 80)}' on top")


def _with_quotes(response: str) -> str:
    # Three marks for one: the reader takes the outer ones off and leaves one to look at.
    return response.replace('"', '"""')


def _parsed(response: str, delimiter: str) -> list[list[str]]:
    """Return the lines' fields, the header first; one empty line for what is no CSV."""
    try:
        return list(csv.reader(io.StringIO(response), delimiter=delimiter)) or [[]]
    except csv.Error:
        return [[]]


def _shape(rows: list[list[str]], number: int, columns: int) -> Finding | None:
    """Return what is wrong with the number of rows and of fields in them."""
    if len(rows) != number:
        return Finding(False, f"{len(rows)} rows")
    odd = next((row for row in rows if len(row) != columns), None)
    return None if odd is None else Finding(False, f"a row of {len(odd)} fields")


def _is_quoted(field: str) -> bool:
    return field[:1] == field[-1:] == '"'
