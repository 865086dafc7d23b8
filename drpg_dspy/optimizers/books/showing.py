"""What a keeper of notes is shown of a case, of its notes, and what asking it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import dspy

from drpg_dspy.optimizers.books.notes import Note
from drpg_dspy.optimizers.corrections.replies import ask
from drpg_dspy.plain import digest
from drpg_dspy.types import Usage
from drpg_dspy.usage import meter

__all__ = ["NONE", "asked", "lm_identity", "numbered", "under"]

NONE = "(none)"


def numbered(notes: Iterable[Note], *, counts: bool = False, scores: bool = False) -> str:
    """Return notes with their ids, one a line, under their headings.

    >>> numbered([Note("n-1", "Use cents.", section="units", helpful=2)], counts=True)
    '## units\\n[n-1] (helped 2, misled 0) Use cents.'
    """
    lines: list[str] = []
    section = ""
    for note in notes:
        if note.section != section:
            section = note.section
            lines.append(f"## {section or 'other'}")
        said = f" (helped {note.helpful}, misled {note.harmful})" if counts else ""
        said += f" (score {note.score:g})" if scores else ""
        lines.append(f"[{note.id}]{said} {note.text}")
    return "\n".join(lines) or NONE


def asked(signature: Any, schema: Mapping[str, Any], **inputs: Any) -> tuple[str, Usage]:
    """Call the configured LM once; return its raw reply and what it cost."""
    with meter() as usage:
        reply = ask(signature, schema, **inputs)
    return reply, usage.total()


def under(lm: dspy.BaseLM | None) -> Any:
    """Return a context in which that LM is asked; ``None`` = the one that is configured."""
    return dspy.context(lm=lm) if lm is not None else dspy.context()


def lm_identity() -> str:
    """Name the configured LM, as far as its replies depend on it."""
    lm = dspy.settings.lm
    return digest(str(getattr(lm, "model", lm)), getattr(lm, "kwargs", {}).get("temperature"))
