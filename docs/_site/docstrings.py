"""Docstrings as the site shows them: roles become links, examples and ``::`` blocks of code."""

from __future__ import annotations

import html
import re
import textwrap
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|attr|mod|data|exc|obj):`(?P<short>~?)(?P<name>[\w.]+)`")

# An example ends at the first empty line that no further prompt follows.
EXAMPLE = re.compile(
    r"^(?P<indent>[ \t]*)>>> .*(?:\n(?!\s*$).*|\n[ \t]*(?=\n[ \t]*>>> ))*", re.MULTILINE
)

# A line of a card: a word, and what belongs to it in a column beside it.
ENTRY = re.compile(
    r"^(?P<label>[A-Z]\w*):(?P<gap> {2,}| (?=.*\n {12}))(?P<text>.+(?:\n {8,}\S.*)*)$",
    re.MULTILINE,
)


class Roles(griffe.Extension):
    """Rewrite every docstring once it is collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value, obj)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Drop what a class only declares: a method that another base of its heirs brings.

        It would stand before that method, which comes later among the bases, and hide it.
        """
        for name, member in list(cls.members.items()):
            bare = member.is_attribute and member.value is None and member.docstring is None
            if bare and str(member.annotation).startswith("Callable[") and not cls.decorators:
                del cls.members[name]


def as_markdown(text: str, obj: griffe.Object) -> str:
    """Return a docstring whose roles are links where the site has their target."""

    def link(match: re.Match[str]) -> str:
        name = match["name"]
        shown = name.rpartition(".")[2] if match["short"] else name.lstrip(".")
        target = name if name.startswith("drpg_dspy.") else resolved(name, obj)
        return (
            f'<autoref optional identifier="{html.escape(target)}">'
            f"<code>{html.escape(shown)}</code></autoref>"
        )

    text = ENTRY.sub(entry, ROLE.sub(link, text))
    text = EXAMPLE.sub(r"\g<indent>```pycon\n\g<0>\n\g<indent>```", text)
    text = re.sub(r"^[ \t]*::[ \t]*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"::[ \t]*(?=\n\n)", ":", text)


def entry(match: re.Match[str]) -> str:
    """Return one line of a card as an item of a list; an example keeps its columns."""
    label, text = match["label"], match["text"]
    if label != "Example":
        return f"- **{label}:** {' '.join(text.split())}"
    rows = textwrap.dedent(f"{' ' * (len(label) + 1 + len(match['gap']))}{text}")
    block = textwrap.indent(f"```text\n{rows}\n```", " " * 4)
    return f"- **{label}:**\n\n{block}\n"


def resolved(name: str, obj: griffe.Object) -> str:
    """Return the full path of a name as the object's scope knows it, else the name itself."""
    try:
        return obj.resolve(name)
    except griffe.NameResolutionError:
        return name
