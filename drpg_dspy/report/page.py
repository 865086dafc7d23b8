"""The page: one HTML file without outside resources and without code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from drpg_dspy.analysis.policies import Change, InForce
from drpg_dspy.exceptions import missing_extra
from drpg_dspy.report.charts import Figure
from drpg_dspy.report.tables import Cell, Table, readable

__all__ = ["Page", "PolicyBlock", "render"]

_FOLDER = resources.files(__package__)
_BREAKS = r"(?<=[_/-])(?=\w)"
_LONGEST_RULE = 600
_MOST_RULES = 20

# Okabe and Ito's sky blue and orange: dark text can be read on both.
_BETTER, _WORSE, _EQUAL = (86, 180, 233), (230, 159, 0), (255, 255, 255)


@dataclass(frozen=True, slots=True)
class PolicyBlock:
    """What the page shows of one run's policies.

    Attributes:
        title: Names the run.
        step: The step shown.
        in_force: Its policies there.
        changes: What changed between versions.
        versions: How many there are, in words.
    """

    title: str
    step: int
    in_force: tuple[InForce, ...]
    changes: tuple[Change, ...]
    versions: str


@dataclass(frozen=True, slots=True)
class Page:
    """Everything on the page.

    Attributes:
        title: Its heading.
        notes: What a reader must know first: runs left out, unfinished, cut.
        tables: By their names.
        scatter: Score against output tokens; ``None`` = there is no score.
        letters: Sign of each model in these; empty for one model.
        curves: Score over the stream.
        window: Judged steps behind a point of the rolling curve.
        policies: By run.
        version: Of this library.
    """

    title: str
    notes: tuple[str, ...]
    tables: dict[str, Table]
    scatter: Figure | None
    letters: dict[str, str]
    curves: Sequence[Figure]
    window: int
    policies: Sequence[PolicyBlock]
    version: str

    @property
    def policy_steps(self) -> str:
        """The steps whose policies are shown: one, or from which to which.

        >>> blocks = [PolicyBlock("a", 60, (), (), ""), PolicyBlock("b", 20, (), (), "")]
        >>> Page("", (), {}, None, {}, (), 50, blocks, "").policy_steps
        'steps 20 to 60'
        """
        steps = sorted({block.step for block in self.policies})
        if len(steps) == 1:
            return f"step {steps[0]}"
        return f"steps {steps[0]} to {steps[-1]}"


def render(page: Any, template: str = "page.html") -> str:
    """Return the page, to be written as UTF-8, with all content of the runs escaped.

    Args:
        page: What the template shows under the name ``page``, a :class:`Page` or another's.
        template: The file beside this module.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise missing_extra("The report", "report", "jinja2") from error

    def shown(value: Any) -> Any:
        return value if isinstance(value, Markup) else readable(str(value))

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda name: (_FOLDER / name).read_text(encoding="utf-8")),
    )

    def breakable(text: str) -> Markup:
        """Let a long name end its line where a reader would break it."""
        parts = re.split(_BREAKS, readable(text))
        return Markup("<wbr>").join(part for part in parts if part)

    environment.filters |= {"rules": _rules, "tint": _tint, "breakable": breakable}
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(page=page, style=Markup(style), markup=Markup)


def _rules(texts: Sequence[str]) -> list[str]:
    """Bound what one policy takes of the page; what is cut is said."""
    shown = [
        text
        if len(text) <= _LONGEST_RULE
        else f"{text[:_LONGEST_RULE]} [… {len(text) - _LONGEST_RULE:,} characters cut]"
        for text in texts[:_MOST_RULES]
    ]
    if len(texts) > _MOST_RULES:
        shown.append(f"[… {len(texts) - _MOST_RULES:,} rules cut]")
    return shown


def _tint(cell: Cell) -> str:
    """Return the colour of a heat map's cell."""
    share = max(-1.0, min(1.0, cell.tint or 0.0))
    end = _BETTER if share > 0 else _WORSE
    mixed = (round(a + (b - a) * abs(share)) for a, b in zip(_EQUAL, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
