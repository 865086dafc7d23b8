"""SQLite statements as text: their tokens, and the one statement that a reply holds.

Nothing here changes a character inside a literal, a quoted name or a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["NotOneStatement", "Token", "extract_sql", "streambench_sql", "tokens"]

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
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[A-Za-z0-9_+-]*)(?=\s|\Z)")


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
    blocks = [block for block in _fenced(text) if _significant(block)]
    statements = [block for block in blocks if _starts_statement(block)] or blocks[:1]
    found = {_single(block) for block in statements}
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


@dataclass(frozen=True, slots=True)
class _Opening:
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
        close = re.compile(
            (r"^[ \t]{0,3}" if opening.own_line else "")
            + re.escape(opening.fence[0]) + "{%d,}" % len(opening.fence),
            re.MULTILINE,
        ).search(text, opening.end)  # fmt: skip
        if close is None and opening.own_line:
            # `SELECT 1```` on one line is what small models write.
            close = re.compile(re.escape(opening.fence) + r"[ \t]*$", re.MULTILINE).search(
                text, opening.end
            )
        blocks.append(text[opening.end : close.start() if close else len(text)])
        position = close.end() if close else len(text)
    return blocks


def _next_opening(text: str, position: int, inline: bool) -> _Opening | None:
    for match in _FENCE.finditer(text, position):
        line_start = text.rfind("\n", 0, match.start()) + 1
        own_line = not text[line_start : match.start()].strip()
        if not own_line and not inline:
            continue
        # An info string is a language; a first word of SQL is not.
        word = match["info"].upper()
        end = match.start("info") if word in _STARTS else match.end()
        return _Opening(match["fence"], end, own_line)
    return None


def _starts_statement(text: str) -> bool:
    first = next(iter(_significant(text)), None)
    return first is not None and first.keyword in _STARTS


def _significant(text: str) -> list[Token]:
    return [t for t in tokens(text) if t.kind not in ("space", "comment") and t.text != ";"]


def _without_prose(text: str) -> str:
    """Leave off prose before the first line that begins a statement, and a stray fence after."""
    if not _starts_statement(text):
        begin = re.search(r"^[ \t]*(?:SELECT|WITH|VALUES)\b", text, re.IGNORECASE | re.MULTILINE)
        if begin is None:
            begin = re.search(r"\b(?:SELECT\s|WITH\s+\S+\s+AS\s*\()", text, re.IGNORECASE)
        text = text[begin.start() :] if begin else text
    for token in tokens(text):
        stray = token.text.startswith("```") and token.kind in ("name", "bad")
        if stray and not text[text.rfind("\n", 0, token.start) + 1 : token.start].strip():
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
