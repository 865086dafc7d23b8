"""Finds the lines that fill in the solution in what a language model replied."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator

from evaluators.code.frame import INSERT

__all__ = ["extract_code", "official_code"]

_FENCE = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<kind>[\w+.-]*)[^\n]*\n"
    r"(?P<body>.*?)(?:^[ \t]*(?P=mark)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_TAG = re.compile(r"<code>[ \t]*\n?(.*?)(?:</code>|<code>|\Z)", re.DOTALL | re.IGNORECASE)
_BEGIN = re.compile(r"^[ \t]*#*[ \t]*(?:BEGIN SOLUTION|SOLUTION START)[ \t]*$\n?", re.MULTILINE)
_END = re.compile(r"^[ \t]*#*[ \t]*(?:END SOLUTION|SOLUTION END)\b.*", re.MULTILINE | re.DOTALL)
_COMPLETED = re.compile(r"\s*\[\[ ## completed ## \]\]\s*\Z")
_CODE_KINDS = ("", "python", "py", "python3", "ipython", "pycon")
_MOST_LINES = 400


def extract_code(reply: str, frame: str = INSERT, problem: str = "") -> str:
    r"""Return the lines of a reply that belong at ``[insert]``.

    A reply that is code, and fits, is returned as it is. Else what stands in Markdown fences or
    ``<code>`` tags, after ``BEGIN SOLUTION`` and before ``END SOLUTION``; without words around
    it, without the problem's own code before it, and indented as the frame has it. Of several
    pieces the first that makes the frame a valid program is taken, or else the first.

    Args:
        reply: What the model wrote.
        frame: The program around ``[insert]``.
        problem: The problem, whose code a reply may repeat.

    >>> extract_code("So:\n```python\nresult = a + 1\n```\nThat adds one.")
    'result = a + 1'
    >>> extract_code("return x", frame="def f(x):\n[insert]\nresult = f(1)")
    '    return x'
    """
    text = reply.replace("\r\n", "\n").replace("\r", "\n")
    # Small models close an answer on its own line, and DSPy leaves the marker in the value.
    text = _COMPLETED.sub("", text)
    if not _marked(text) and _fits(text, frame) and _own_part(text, problem, frame) == text:
        return text
    pieces = [piece for piece in _pieces(text) if piece.strip()]
    for piece in pieces:
        for code in _readings(piece, frame, problem):
            if _fits(code, frame):
                return code
    for piece in pieces:
        for code in _without_words(_own_part(piece, problem, frame), frame):
            return code
    return pieces[0] if pieces else ""


def official_code(reply: str) -> str:
    """Return the code of a reply as DS-1000's own script takes it: what precedes the first end.

    >>> official_code("<code>x = 1</code> done")
    'x = 1'
    """
    code = reply.split("</code>")[0].replace("```python", "").split("```")[0]
    return code.split("\nEND SOLUTION")[0].replace("<code>", "")


def _marked(text: str) -> bool:
    return bool(INSERT in text or _FENCE.search(text) or _TAG.search(text))


def _pieces(text: str) -> Iterator[str]:
    for match in _FENCE.finditer(text):
        if match["kind"].lower() in _CODE_KINDS:
            yield from _whole_and_marked(match["body"])
    begin = _last(_BEGIN, text)
    after = text[begin.end() :] if begin else text
    for match in _TAG.finditer(after):
        yield from _whole_and_marked(match[1])
    bare = re.sub(r"^[ \t]*(?:```|~~~).*$\n?", "", after.split("</code>")[0], flags=re.MULTILINE)
    yield from _whole_and_marked(bare)
    if begin:
        yield from _pieces(text[: begin.start()])


def _whole_and_marked(text: str) -> Iterator[str]:
    """Yield a piece as it is, since its marks may be comments of its own, and cut at its marks."""
    text = re.sub(r"^[ \t]*(?:</?code>|\[insert\])[ \t]*$\n?", "", text, flags=re.MULTILINE)
    if inline := re.fullmatch(r"\s*`([^`\n]+)`\s*", text):
        text = inline[1]
    yield text.strip("\n")
    if begin := _last(_BEGIN, text):
        text = text[begin.end() :]
    yield _END.sub("", text).strip("\n")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return found


def _readings(piece: str, frame: str, problem: str) -> Iterator[str]:
    own = _own_part(piece, problem, frame)
    inside = _indent_at_insert(frame)
    for code in dict.fromkeys((_body_of_repeated_function(own, frame), own, piece)):
        if code.strip():
            yield code
            yield textwrap.indent(textwrap.dedent(code), inside)
            yield textwrap.indent(_even(code), inside)


def _own_part(piece: str, problem: str, frame: str) -> str:
    """Leave off the problem's code, or the frame's, where a reply begins by repeating it."""
    for given in (*_given(problem), frame.split(INSERT)[0]):
        wanted = [line.strip() for line in given.splitlines() if _says(line)]
        if all(line.startswith(("import ", "from ")) for line in wanted):
            continue
        lines = piece.split("\n")
        position = 0
        for number, line in enumerate(lines):
            if position == len(wanted):
                return "\n".join(lines[number:])
            if not _says(line):
                continue
            if line.strip() != wanted[position]:
                break
            position += 1
    return piece


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")


def _given(problem: str) -> list[str]:
    """Return the code that a problem shows: in its last ``<code>``, or all that is no comment."""
    begin = _last(_BEGIN, problem)
    before = problem[: begin.start()] if begin else problem
    start = before.lower().rfind("<code>")
    if start < 0:
        return [before] if _fits(before, INSERT) else []
    block = before[start + len("<code>") :]
    return [block.split("</code>")[0]]


def _body_of_repeated_function(code: str, frame: str) -> str:
    """Return a function's body where the frame has its head, and the reply both."""
    head = re.search(r"^def (\w+)\(.*\n(?:[ \t]*#.*\n)*\[insert\]", frame, re.MULTILINE)
    if not head:
        return code
    try:
        tree = _parsed(textwrap.dedent(code))
    except _UNREADABLE:
        return code
    lines = textwrap.dedent(code).split("\n")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == head[1]:
            imports = [lines[n.lineno - 1] for n in tree.body if isinstance(n, _IMPORTS)]
            body = lines[node.body[0].lineno - 1 : node.end_lineno]
            if node.body[0].lineno == node.lineno:
                return code
            return textwrap.indent("\n".join([*imports, textwrap.dedent("\n".join(body))]), "    ")
    return code


def _indent_at_insert(frame: str) -> str:
    lines = frame.split(INSERT)[0].rstrip().split("\n")
    while lines and lines[-1].strip().startswith("#"):
        lines.pop()
    last = lines[-1] if lines else ""
    return last[: len(last) - len(last.lstrip())] + "    " if last.endswith(":") else ""


def _even(code: str) -> str:
    """Give the first line the others' indentation: stripping a reply takes it from there."""
    first, _, rest = code.partition("\n")
    return first.lstrip() + "\n" + textwrap.dedent(rest) if rest.strip() else first.lstrip()


def _without_words(code: str, frame: str) -> Iterator[str]:
    """Find the longest run of lines that fits, cut at the end before the beginning."""
    lines = code.split("\n")
    if len(lines) > _MOST_LINES:
        return
    for start in range(len(lines)):
        for end in range(len(lines), start, -1):
            part = "\n".join(lines[start:end])
            if part.strip() and _meaningful(part, frame):
                yield part
                return


def _meaningful(code: str, frame: str) -> bool:
    """Tell code from a word that happens to be a valid expression."""
    inside = _indent_at_insert(frame)
    shifted = textwrap.indent(textwrap.dedent(code), inside)
    if not _fits(shifted, frame):
        return False
    try:
        tree = _parsed(textwrap.dedent(code))
    except _UNREADABLE:
        return inside != ""
    plain = (ast.Name, ast.Constant)
    return any(not (isinstance(n, ast.Expr) and isinstance(n.value, plain)) for n in tree.body)


_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
_IMPORTS = (ast.Import, ast.ImportFrom)


def _fits(code: str, frame: str) -> bool:
    """Tell whether the frame is a valid program with the code in it."""
    try:
        _parsed(frame.replace(INSERT, code))
    except _UNREADABLE:
        return False
    return True


def _parsed(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in a model's strings
        return ast.parse(code)
