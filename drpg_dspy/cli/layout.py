"""How the commands print: clipped lines, tables, indented blocks, JSON."""

from __future__ import annotations

import json
import math
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import click

from drpg_dspy.plain import to_plain

__all__ = [
    "block",
    "clean",
    "clip",
    "columns",
    "count",
    "emit_json",
    "heading",
    "minutes",
    "plural",
    "printed_json",
    "ranges",
    "share",
]


def clean(text: Any) -> str:
    r"""Return text that any terminal can show: control characters and stray surrogates escaped.

    What a model wrote must neither steer the reader's terminal nor fail to be printed.

    >>> clean("a\x1b[2Jb\ud800")
    'a\\x1b[2Jb\\ud800'
    """
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cs"} else _escaped(char)
        for char in str(text)
    )


def clip(text: Any, width: int = 72) -> str:
    """Return a value as one line of at most ``width`` characters.

    >>> clip("How many\\n orders?", 12)
    'How many or…'
    """
    line = " ".join(clean(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def block(text: Any, indent: str = "  ", max_lines: int | None = None) -> str:
    """Indent a value; a long one is cut after ``max_lines`` lines, visibly."""
    shown = clean(text if isinstance(text, str) else json.dumps(text, default=str))
    lines = shown.splitlines() or [""]
    if max_lines is not None and len(lines) > max_lines:
        left = len(lines) - max_lines
        lines = [*lines[:max_lines], f"… {left} more lines (--full shows them)"]
    return textwrap.indent("\n".join(lines), indent, lambda _: True)


def heading(text: str) -> str:
    """Return a heading, bold on a terminal."""
    return click.style(text, bold=True)


def columns(rows: Sequence[Sequence[Any]], header: Sequence[str] = ()) -> str:
    """Align rows; a column whose cells are all numbers is set to the right.

    >>> print(columns([("zero_shot", "56.3 %"), ("drpg", "60.5 %")], ("method", "score")))
    method      score
    zero_shot  56.3 %
    drpg       60.5 %
    """
    body = [[str(cell) for cell in row] for row in rows]
    table = [list(header), *body] if header else body
    if not table:
        return ""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    right = [all(_numeric(row[i]) for row in body) for i in range(len(widths))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in table
    )


def plural(n: int, thing: str, things: str = "") -> str:
    """Return a number with its noun.

    >>> plural(1, "step"), plural(3, "LM call"), plural(0, "policy", "policies")
    ('1 step', '3 LM calls', '0 policies')
    """
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {things or thing + 's'}"


def ranges(numbers: Sequence[int], most: int = 8) -> str:
    """Return rising numbers, three or more in a row as a range; beyond ``most`` parts cut.

    >>> ranges([1, 2, 3, 5, 8, 9]), ranges([1, 3, 5], most=2)
    ('1–3, 5, 8, 9', '1, 3, …')
    """
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    parts = [
        part
        for row in rows
        for part in ([f"{row[0]}–{row[-1]}"] if len(row) > 2 else map(str, row))
    ]
    return ", ".join(parts[:most]) + (", …" if len(parts) > most else "")


def share(value: float | None) -> str:
    """Return a share as a percentage; ``–`` where there is none.

    >>> share(0.605), share(float("nan"))
    ('60.5 %', '–')
    """
    return "–" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def count(value: float) -> str:
    """Return a count with thousands separated.

    >>> count(1833.2)
    '1,833'
    """
    return f"{value:,.0f}"


def minutes(seconds: float) -> str:
    """Return a duration.

    >>> minutes(9), minutes(312)
    ('9.0 s', '5.2 min')
    """
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def emit_json(value: Any, *, line: bool = False) -> None:
    """Print a value as strict JSON, NaN as ``null``, on one line or indented."""
    plain = _without_nan(to_plain(value))
    layout: dict[str, Any] = {} if line else {"indent": 2}
    click.echo(json.dumps(plain, allow_nan=False, **layout))
    if (ctx := click.get_current_context(silent=True)) is not None:
        ctx.meta[_PRINTED] = True


def printed_json() -> bool:
    """Tell whether the command that is under way has printed its JSON value."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_PRINTED))


_PRINTED = "drpg_dspy.cli.printed"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.keys() == {"$float"}:
            return None
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return value


def _numeric(cell: str) -> bool:
    bare = cell.removesuffix(" %").removesuffix(" min").removesuffix(" s").replace(",", "")
    return bare in {"", "–"} or bare.lstrip("+-").replace(".", "", 1).isdigit()
