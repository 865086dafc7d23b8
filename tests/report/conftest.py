"""Small runs on disk, made without any model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.analysis.summary import STATUS_KEY
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.streaming import RunConfig, RunFolder
from drpg_dspy.streaming.position import rollout_name
from drpg_dspy.streaming.settings import SETTINGS_KEY
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule, Usage

MakeRun = Callable[..., RunFolder]


def write_run(
    root: Path,
    name: str,
    scores: Sequence[float | None],
    *,
    total: int | None = None,
    state: str = "finished",
    asked: str = "question",
    settings: dict[str, Any] | None = None,
    rules: Sequence[str] = (),
    tokens: int = 10,
    **config: Any,
) -> RunFolder:
    """Write a run with these scores; NaN = not judged, ``None`` = still waiting.

    Args:
        root: Where runs are kept.
        name: Its name.
        scores: By step.
        total: Length of its stream; ``None`` = as many as there are scores.
        state: How it stands.
        asked: What its questions begin with.
        settings: Changes to what its stream is recognised by.
        rules: One policy of one rule for each step; the last one stays.
        tokens: Output tokens of each answer.
        config: Changes to its settings.
    """
    defaults = {"benchmark": "bench", "optimizer": "drpg", "lm": "lab/small", "seed": 42}
    folder = RunFolder.create(name, RunConfig(**{**defaults, **config}), root)
    total = len(scores) if total is None else total
    with closing(SQLiteMemory(folder.memory_path)) as memory:
        for step, score in enumerate(scores, start=1):
            chosen = rules[min(step, len(rules)) - 1] if rules else ""
            policies = {"predict": Policy("predict", (Rule(chosen),))} if chosen else {}
            rollout = Rollout(
                rollout_name(step),
                step,
                {"q": f"{asked} {step}"},
                {"a": "42"},
                guidance=Guidance(policies),
                usage=Usage(calls=1, prompt_tokens=100, completion_tokens=tokens),
                seconds=float(step),
            )
            memory.record(rollout)
            if score is not None:
                memory.commit(rollout.id, Feedback(score))
        stream = {"examples": total, "data": f"{asked}-{total}", "judge": "j", "threshold": 0.5}
        memory.set_meta(SETTINGS_KEY, json.dumps({**stream, **(settings or {})}))
        memory.set_meta(STATUS_KEY, json.dumps({"state": state, "reason": "budget spent"}))
    return folder


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write a run into a folder of its own; see :func:`write_run`."""

    def make(name: str, scores: Sequence[float | None], **changes: Any) -> RunFolder:
        return write_run(tmp_path / "runs", name, scores, **changes)

    return make


class Tables(HTMLParser):
    """Collects the tables of a page, and every tag and attribute that it meets."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._section = ""
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
        elif tag == "table":
            self.tables[self._section] = []
        elif tag == "tr":
            self.tables[self._section].append([])
        elif tag in ("th", "td"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td") and self._cell is not None:
            self.tables[self._section][-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


@pytest.fixture
def parse() -> Callable[[Path], Tables]:
    """Read a page."""

    def parsed(page: Path) -> Tables:
        parser = Tables()
        parser.feed(page.read_text(encoding="utf-8"))
        return parser

    return parsed
