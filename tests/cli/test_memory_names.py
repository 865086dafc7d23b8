"""What a name stands for: a run, a learner or a file, for every command alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.cli.memory_names import MEMORY, known_names, memory_path

Drpg = Callable[..., Result]

RUN_MEMORY = Path(".drpg/runs/first/memory.sqlite")
LEARNER = Path(".drpg/shop.sqlite")

TAKING_A_MEMORY = [
    ("show", "NAME"),
    ("show", "NAME", "--step", "1"),
    ("policy", "list", "NAME"),
    ("policy", "log", "NAME"),
    ("policy", "freeze", "NAME"),
    ("constraints", "list", "NAME"),
    ("constraints", "log", "NAME"),
    ("constraints", "add", "NAME", "No_Commas", "Use no commas."),
    ("memory", "reindex", "NAME", "--embedder", "hashing"),
]
NEEDING_A_RUN = [
    ("resume", "NAME"),
    ("feedback", "NAME", "1", "--score", "1"),
    ("feedback", "pull", "NAME"),
    ("audit", "NAME", "--out", "out"),
    ("report", "NAME", "--out", "out"),
]


def called(command: tuple[str, ...], name: str) -> list[str]:
    return [name if word == "NAME" else word for word in command]


@pytest.fixture
def shop(run: Drpg, workdir: Path) -> Path:
    """A learner ``shop`` that did what run ``first`` did."""
    run("--limit", "2")
    (workdir / LEARNER).write_bytes((workdir / RUN_MEMORY).read_bytes())
    return workdir / LEARNER


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", TAKING_A_MEMORY, ids=" ".join)
@pytest.mark.parametrize("name", ["first", "shop", str(LEARNER), str(RUN_MEMORY)])
def test_a_run_a_learner_and_a_file_are_named_alike(
    drpg: Drpg, command: tuple[str, ...], name: str
) -> None:
    drpg(*called(command, name))


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", TAKING_A_MEMORY, ids=" ".join)
def test_an_unknown_name_lists_runs_and_learners(drpg: Drpg, command: tuple[str, ...]) -> None:
    said = " ".join(drpg(*called(command, "shpo"), exit_code=2).stderr.split())

    assert (
        "Invalid value for 'NAME': There is no run or learner 'shpo'. Did you mean 'shop'? "
        "Known: first, shop." in said
    )


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", NEEDING_A_RUN, ids=" ".join)
def test_a_command_that_needs_a_run_says_what_a_learner_is_good_for(
    drpg: Drpg, command: tuple[str, ...]
) -> None:
    said = " ".join(drpg(*called(command, "shop"), exit_code=2).stderr.split())

    assert "'shop' is a learner" in said
    assert ("drpg show shop" in said) or ("MODULE:ATTRIBUTE" in said)


def test_a_name_in_an_empty_folder_says_how_to_begin(drpg: Drpg, workdir: Path) -> None:
    said = " ".join(drpg("constraints", "list", "first", exit_code=2).stderr.split())

    assert "This folder has none yet: drpg run --help; or give a memory file." in said
    assert not (workdir / ".drpg").exists()


def test_a_learners_figures_are_shown_without_settings(
    shop: Path, drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    assert "shop: a learner\n  score " in drpg("show", "shop").stdout

    plain, of_run = as_json("show", "shop"), as_json("show", "first")
    assert plain.keys() == of_run.keys() - {"status", "config"}
    assert plain["steps"] == of_run["steps"]
    drpg("show", "shop", "--html", "shop.html")
    assert Path("shop.html").stat().st_size > 1000


def test_where_names_are_the_same_the_run_is_meant(shop: Path, workdir: Path) -> None:
    (workdir / "first").write_bytes(shop.read_bytes())
    shop.rename(shop.with_stem("first"))

    assert memory_path("first") == RUN_MEMORY


@pytest.mark.usefixtures("shop")
def test_names_are_completed() -> None:
    assert known_names() == ["first", "shop"]
    assert [item.value for item in MEMORY.shell_complete(None, None, "sh")] == ["shop"]
