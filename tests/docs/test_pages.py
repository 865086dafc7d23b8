"""Pages of the documentation are true: examples run, links lead somewhere, commands exist."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from drpg_dspy.cli import cli
from drpg_dspy.optimizers import OnlineOptimizer

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# README.md's examples are run by pytest itself.
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("reference/*.md"), ROOT / "README.md"])
WITH_EXAMPLES = [path for path in DOCS.glob("*.md") if ">>> " in path.read_text()]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
FENCE = re.compile(r"^(```+)(\w*)\n(.*?)^\1 *$", re.MULTILINE | re.DOTALL)


def fences(path: Path, *languages: str) -> Iterator[str]:
    for _, language, text in FENCE.findall(path.read_text(encoding="utf-8")):
        if language in languages:
            yield text


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.name)
def test_the_examples_of_a_page_run(path: Path) -> None:
    result = doctest.testfile(str(path), module_relative=False, optionflags=OPTIONS)

    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_examples_stand_in_blocks_of_code_and_not_in_quotations(path: Path) -> None:
    outside = FENCE.sub("", path.read_text(encoding="utf-8"))

    assert not re.search(r"^>>> ", outside, re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_the_links_of_a_page_lead_to_files(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_the_python_of_a_page_imports_what_there_is(path: Path) -> None:
    for text in fences(path, "python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("drpg_dspy"):
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module}.{alias.name}"


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command line ``drpg …`` on a page."""
    blocks = [*fences(path, "", "console", "bash"), *indented(path)]
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        match = re.match(r"\s*(?:\$ )?drpg (.*)", line)
        if match:
            words = shlex.split(re.sub(r"\s{2,}[^-\s#'\"].*", "", match[1]), comments=True)
            yield list(dict.fromkeys(words))


def indented(path: Path) -> Iterator[str]:
    text = FENCE.sub("", path.read_text(encoding="utf-8")).replace("\\\n", " ")
    yield from re.findall(r"^    drpg .*", text, re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_the_commands_of_a_page_and_their_options_exist(path: Path) -> None:
    for words in commands(path):
        command: Any = cli
        context = click.Context(cli, info_name="drpg")
        rest = list(words)
        while isinstance(command, click.Group) and rest:
            if rest[0] not in command.commands:
                rest.insert(
                    0, "give"
                )  # drpg feedback NAME … is short for drpg feedback give NAME …
            _, command, rest = command.resolve_command(context, rest)
        known = {opt for p in command.params for opt in (*p.opts, *p.secondary_opts)} | {"--help"}
        for word in rest:
            if word.startswith("--"):
                assert word.split("=")[0] in known, f"drpg {' '.join(words)}: {word}"


def test_the_calls_that_the_choosing_page_recommends_can_be_made() -> None:
    names: dict[str, Any] = dict(vars(importlib.import_module("drpg_dspy")))
    names.update({name: getattr(importlib.import_module("drpg_dspy"), name) for name in EXPORTED})
    names.update(big_lm=None, examples=[], metric=lambda example, prediction: True)
    table = (DOCS / "choosing.md").read_text().split("## By symptom")[1].split("\nEach call")[0]
    cells = [row.split("|")[3] for row in table.splitlines() if row.startswith("| ")][2:]
    calls = [call for cell in cells for call in re.findall(r"`([^`]+)`", cell)]

    assert len(calls) > 10
    for call in calls:
        if not call.startswith("compare("):
            assert isinstance(eval(call, names), OnlineOptimizer), call


EXPORTED = importlib.import_module("drpg_dspy").__all__
