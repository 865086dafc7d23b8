"""SQLite statements as text: their tokens, and the one statement that a reply holds.

Nothing here changes a character inside a literal, a quoted name or a comment.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

__all__ = [
    "NotOneStatement",
    "Token",
    "detokenised",
    "extract_sql",
    "rejoined",
    "streambench_sql",
    "tokens",
]

Kind = Literal["space", "comment", "literal", "name", "word", "number", "variable", "mark", "bad"]


class Token(NamedTuple):
    """One token of a statement.

    Attributes:
        kind: ``"literal"``: ``'…'``; ``"name"``: ``"…"``, `` `…` `` or ``[…]``; ``"word"``: a
            keyword or a bare name; ``"mark"``: an operator or punctuation; ``"bad"``: an
            unterminated literal, or a character that SQL does not have.
        text: The characters as they stand.
        start: Offset of the first one.
    """

    kind: Kind
    text: str
    start: int

    @property
    def keyword(self) -> str:
        """The text in upper case for a bare word, else ``""``."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.start + len(self.text)


_TOKEN = re.compile(
    r"""
    (?P<space>   [ \t\n\f\r]+ )
  | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<literal> '[^']*(?:''[^']*)*' )
  | (?P<name>    "[^"]*(?:""[^"]*)*" | `[^`]*(?:``[^`]*)*` | \[[^\]]*\] )
  | (?P<number>  0[xX][0-9a-fA-F]+ | (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
  | (?P<word>    [A-Za-z_\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]* )
  | (?P<variable> \?[0-9]* | [:@$#][0-9A-Za-z_$\x80-\U0010ffff]+ )
  | (?P<mark>    ->> | -> | \|\| | << | >> | <= | >= | == | != | <> | [-+*/%&|~<>=.,;()] )
  | (?P<bad>     ['"`\[].*\Z | . )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(sql: str) -> Iterator[Token]:
    """Yield the tokens of a text; joined, they give the text back.

    >>> [t.text for t in tokens("SELECT ';' -- a;b") if t.kind != "space"]
    ['SELECT', "';'", '-- a;b']
    """
    for match in _TOKEN.finditer(sql):
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        yield Token(kind, match.group(), match.start())


# Operators that a tokeniser takes apart. With a blank inside none of them is SQL.
_SPLIT = {("<", "="), (">", "="), ("!", "="), ("<", ">"), ("|", "|")}


def detokenised(sql: str) -> str:
    r"""Join operators that a tokeniser took apart, and make each run of blanks one blank.

    CoSQL is published like that, and SQLite refuses ``> =``. Literals, quoted names and
    comments stay as they are.

    >>> detokenised("SELECT a FROM t\nWHERE  b ! =  '! =  ' and c > =  3 ")
    "SELECT a FROM t WHERE b != '! =  ' and c >= 3"
    """
    out: list[str] = []
    last = ""
    blank = ""
    for token in tokens(sql):
        if token.kind == "space":
            # A line comment would swallow what follows it.
            blank = "\n" if last.startswith("--") else " "
            continue
        if blank and out and (last, token.text) not in _SPLIT:
            out.append(blank)
        out.append(token.text)
        last, blank = token.text, ""
    return "".join(out)


# Those that the official evaluation of Spider and CoSQL joins in every query.
_REJOINED = {("<", "="), (">", "="), ("!", "=")}


def rejoined(sql: str) -> str:
    """Join ``! =``, ``> =`` and ``< =`` in a bare statement, and change nothing else.

    With a blank inside none of them is SQL, so no query that runs is changed: literals, quoted
    names and comments stay as they are. What does not begin as a statement (a reply with prose,
    whose apostrophes would be taken for quotes) is returned as it is.

    >>> rejoined("SELECT a FROM t WHERE b ! = '> =' AND  c > =  3")
    "SELECT a FROM t WHERE b != '> =' AND  c >=  3"
    >>> rejoined("It's SELECT '> ='")
    "It's SELECT '> ='"
    """
    if not _starts_statement(sql):
        return sql
    out: list[str] = []
    last: Token | None = None
    for token in tokens(sql):
        before = last is not None and last.kind == "space" and len(out) > 1 and out[-2]
        if before and token.kind == "mark" and (before, token.text) in _REJOINED:
            out.pop()
        out.append(token.text)
        last = token
    return "".join(out)


class NotOneStatement(ValueError):
    """A text does not hold exactly one SQL statement.

    Attributes:
        reason: ``"no statement"`` or ``"multiple statements"``.
    """

    def __init__(self, reason: Literal["no statement", "multiple statements"]) -> None:
        self.reason = reason
        super().__init__(
            {
                "no statement": "There is no SQL statement in the answer.",
                "multiple statements": "The answer holds several SQL statements; exactly one "
                "is allowed.",
            }[reason]
        )


# What a statement of SQLite can begin with.
_STARTS = frozenset(
    "ALTER ANALYZE ATTACH BEGIN COMMIT CREATE DELETE DETACH DROP END EXPLAIN INSERT PRAGMA REINDEX "
    "RELEASE REPLACE ROLLBACK SAVEPOINT SELECT UPDATE VACUUM VALUES WITH".split()
)
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[ \t]*(?:(?P<info>[A-Za-z0-9_+-]+)(?=\s|\Z))?")


def extract_sql(text: str) -> str:
    r"""Return the one SQL statement that a language model's reply holds.

    Fenced code wins over the prose around it. Without a fence, the whole text is the statement
    if it begins as one; otherwise the first line that does begins it. Comments, line breaks and
    literals stay byte for byte; only a final semicolon, and what follows it, is left off.
    Anything else (prose alone, ``DROP TABLE``) is returned trimmed: running it shows what it is.

    Args:
        text: The reply.

    Raises:
        NotOneStatement: It holds none (blank, comments alone) or several.

    >>> extract_sql("Here you go:\n```sql\n-- total\nSELECT 1;\n```\nHope it helps.")
    '-- total\nSELECT 1'
    >>> extract_sql("SELECT 1; SELECT 2")
    Traceback (most recent call last):
    evaluators.sql.text.NotOneStatement: The answer holds several SQL statements; ...
    """
    text = text.lstrip("\ufeff")
    found = {_single(block) for block in _fenced(text) if _starts_statement(block)}
    if len(found) > 1:
        raise NotOneStatement("multiple statements")
    if found:
        return found.pop()
    return _single(_without_prose(text))


def streambench_sql(text: str) -> str:
    r"""Return what StreamBench's released code would run for a reply.

    The first fenced block or else the text, trimmed, with ``SELECT`` and a blank before it
    unless it begins with exactly that word in capitals.

    >>> streambench_sql("```sql\nselect 1\n```")
    'SELECT select 1'
    """
    sql = text
    if text.startswith("```sql\n") and text.endswith("```"):
        sql = text[7:-3]
    elif "```" in text:
        block = re.search(r"```sql\n(.*?)\n```", text, re.DOTALL)
        if block:
            sql = block.group(1)
        else:
            opened = text.replace("```sql\n", "```").replace("```SQL\n", "```")
            sql = opened.partition("```")[2].replace("```", "")
    sql = sql.strip()
    return sql if sql.startswith("SELECT") else f"SELECT {sql}"


class _Opening(NamedTuple):
    fence: str
    end: int
    own_line: bool


def _fenced(text: str) -> list[str]:
    """Contents of the fenced blocks; a block that is never closed runs to the end.

    A fence closes with at least as many of its marks, as in CommonMark; one that opens in the
    middle of a line counts only where the text does not itself begin as a statement.
    """
    inline = not _starts_statement(text)
    blocks: list[str] = []
    position = 0
    while opening := _next_opening(text, position, inline):
        close = _closing(text, opening)
        blocks.append(text[opening.end : close.start() if close else len(text)])
        position = close.end() if close else len(text)
    return blocks


def _next_opening(text: str, position: int, inline: bool) -> _Opening | None:
    for match in _FENCE.finditer(text, position):
        own_line = _begins_line(text, match.start())
        if own_line or inline:
            # An info string is a language; a first word of SQL is not.
            sql = (match["info"] or "").upper() in _STARTS
            end = match.start("info") if sql else match.end()
            return _Opening(match["fence"], end, own_line)
    return None


def _closing(text: str, opening: _Opening) -> re.Match[str] | None:
    marks = re.escape(opening.fence[0]) + "{" + str(len(opening.fence)) + ",}"
    line_end = text.find("\n", opening.end)
    on_line = re.compile(marks).search(text, opening.end, line_end if line_end >= 0 else len(text))
    if on_line or not opening.own_line:
        return on_line or re.compile(marks).search(text, opening.end)
    return re.compile(rf"^[ \t]{{0,3}}{marks}(?![A-Za-z])", re.MULTILINE).search(text, opening.end)


def _begins_line(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip()


def _starts_statement(text: str) -> bool:
    first, second, third = [*itertools.islice(_significant(text), 3), None, None, None][:3]
    if first is None or first.keyword not in _STARTS:
        return False
    if first.keyword != "WITH" or second is None or second.keyword == "RECURSIVE":
        return True
    # "With this query …" is prose.
    return third is not None and (third.keyword == "AS" or third.text == "(")


def _significant(text: str) -> Iterator[Token]:
    return (t for t in tokens(text) if t.kind not in ("space", "comment") and t.text != ";")


_BEGINNINGS = (
    re.compile(r"^[ \t]*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE | re.MULTILINE),
    re.compile(r"\b(?:SELECT\s|WITH\s+\S+\s+AS\s*\()"),
    re.compile(r"\b(?:SELECT\s|WITH\s+\S+\s+AS\s*\()", re.IGNORECASE),
)


def _without_prose(text: str) -> str:
    """Leave off prose before the first place that begins a statement, and a fence after it."""
    if not _starts_statement(text):
        places = (m.start() for form in _BEGINNINGS for m in form.finditer(text))
        text = text[next((p for p in places if _starts_statement(text[p:])), 0) :]
    for token in tokens(text):
        if text.startswith("```", token.start) and _begins_line(text, token.start):
            return text[: token.start]
    return text


def _single(text: str) -> str:
    parts = _statements(text)
    if not parts:
        raise NotOneStatement("no statement")
    first, *rest = parts
    for follower in rest:
        # Prose may follow on a line of its own; on the same line nothing may.
        apart = "\n" in text[first[-1].end : follower[0].start]
        if follower[0].keyword in _STARTS or not apart:
            raise NotOneStatement("multiple statements")
    begin, end = 0, len(text)
    separators = [t for t in tokens(text) if t.text == ";" and t.kind == "mark"]
    for mark in separators:
        if mark.start < first[0].start:
            begin = mark.end
        else:
            end = mark.start
            break
    return text[begin:end].strip()


def _statements(text: str) -> Sequence[Sequence[Token]]:
    """Tokens that are neither blank nor comment, split at semicolons; empty parts left out."""
    parts: list[list[Token]] = [[]]
    for token in tokens(text):
        if token.kind == "mark" and token.text == ";":
            parts.append([])
        elif token.kind not in ("space", "comment"):
            parts[-1].append(token)
    return [part for part in parts if part]
