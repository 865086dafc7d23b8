"""The map of the house: who may import whom. Read it top-down."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Each layer may import the ones below it, and itself.
LAYERS = [
    ["cli", "__main__"],
    ["report", "comparing"],
    ["continual", "streaming", "analysis", "testing", "scoring", "local_lm"],
    ["online"],
    ["optimizers", "governance"],
    ["retrieval"],
    ["memory", "tracking", "injection"],
    [
        *("types", "cards", "open_fields", "benchmark", "plain", "arguments", "exceptions"),
        *("carrier", "usage", "weights", "judging", "constraints"),
    ],
]
RANK = {name: rank for rank, layer in enumerate(reversed(LAYERS)) for name in layer}
# drpg_dspy.testing offers contracts for every layer and is imported by none of them.
# Programs are ordinary DSPy programs; some search a corpus, with the library's retrievers.
OUTSIDE = {
    "programs": {"types", "exceptions", "retrieval", "constraints"},
    "evaluators": {"types", "exceptions", "constraints"},
}

SOURCES = sorted((ROOT / "drpg_dspy").rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Return every imported module, deferred imports included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def part(path: Path) -> str:
    return path.relative_to(ROOT / "drpg_dspy").parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_library_imports_point_downward(path: Path) -> None:
    name = part(path)
    if name == "__init__":
        return
    for module in imports(path):
        top, _, rest = module.partition(".")
        assert top not in OUTSIDE, f"{path} imports {module}; the CLI resolves it at call time"
        if top == "drpg_dspy" and rest:
            below = rest.split(".")[0]
            assert RANK[below] <= RANK[name], f"{path}: {name} may not import {below}"


@pytest.mark.parametrize("folder", sorted(OUTSIDE))
def test_programs_and_evaluators_know_little_of_the_library(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        for module in imports(path):
            top, _, rest = module.partition(".")
            if top == "drpg_dspy":
                assert rest.split(".")[0] in OUTSIDE[folder], f"{path} imports {module}"
            if folder == "evaluators":
                assert top != "programs", f"{path} imports {module}"


JOINED = {"combined": {"constraints"}}
"""Optimizers that put others together, by these."""


def test_optimizers_do_not_import_each_other() -> None:
    from drpg_dspy import optimizers

    methods = {
        Path(__import__("inspect").getfile(value)).stem
        for value in vars(optimizers).values()
        if isinstance(value, type) and hasattr(value, "propose") and hasattr(value, "name")
    } - {"base"}
    for path in (ROOT / "drpg_dspy" / "optimizers").glob("*.py"):
        if path.stem in methods:
            known = {path.stem} | JOINED.get(path.stem, set())
            others = {f"drpg_dspy.optimizers.{m}" for m in methods - known}
            assert not imports(path) & others, f"{path} imports another method"
