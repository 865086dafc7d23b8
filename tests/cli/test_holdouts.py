"""``--holdout``: refused where it does nothing, and visible wherever a run is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.cli import names

Drpg = Callable[..., Result]
PLAIN = sorted(n for n, cls in names.optimizer_classes().items() if not cls.writes_policies)


def test_baselines_write_no_policy_and_drpg_does() -> None:
    baselines = {
        "grow_prompt", "mam_stream_icl", "mem_prompt", "self_refine", "self_stream_icl",
        "zero_shot",
    }  # fmt: skip
    assert baselines <= set(PLAIN)
    assert not {"drpg", "nlpg"} & set(PLAIN)


@pytest.mark.parametrize("method", PLAIN)
def test_a_guard_around_a_method_without_policies_is_refused(
    run: Drpg, workdir: Path, method: str
) -> None:
    said = run("--optimizer", method, "--holdout", "0.2", exit_code=2).stderr

    said = " ".join(said.split())
    assert "'--holdout'" in said
    assert f"{method} writes no policy" in said
    assert "drpg" in said.partition("policies: ")[2]
    assert not (workdir / ".drpg").exists()


@pytest.mark.parametrize("method", ["grow_prompt", "mem_prompt", "self_stream_icl", "zero_shot"])
def test_a_method_that_says_so_writes_no_policy(
    run: Drpg, as_json: Callable[..., Any], method: str
) -> None:
    run("--optimizer", method, "--limit", "6")

    assert not any(step["policies"] for step in as_json("show", "first")["steps"])


def test_a_guarded_run_is_seen_to_be_one(
    drpg: Drpg, run: Drpg, as_json: Callable[..., Any], workdir: Path
) -> None:
    finished = run("--holdout", "0.4").stdout

    shown = drpg("show", "first").stdout
    arms = as_json("show", "first")["holdout"]
    for said in (finished, shown):
        assert "first: drpg (holdout 0.4) on tiny_bench" in said
        given, withheld = arms["given"], arms["withheld"]
        assert f"with the policy {given['correct']} right of {given['judged']} judged" in said
        assert f"without {withheld['correct']} right of {withheld['judged']} judged" in said
        assert "probability that policies help" in said
    assert arms["share"] == 0.4
    assert arms["withheld"]["judged"] > 1
    assert given["judged"] + withheld["judged"] == 11  # the first question has no policy to get
    assert 0 < arms["helps"] < 1
    assert not arms["resting"]
    assert "drpg (holdout 0.4) on" in drpg("list", "runs").stdout
    assert as_json("list", "runs")[0]["holdout"] == 0.4
    drpg("report", "first", "--out", "out")
    assert "drpg (holdout=0.4)" in (workdir / "out" / "index.html").read_text()


def test_a_run_without_a_guard_says_nothing_of_it(
    drpg: Drpg, run: Drpg, as_json: Callable[..., Any]
) -> None:
    assert "holdout" not in run("--limit", "2").stdout
    assert "holdout" not in as_json("show", "first")


def test_the_methods_that_can_be_guarded_are_listed(as_json: Callable[..., Any]) -> None:
    listed = {row["name"]: row["writes_policies"] for row in as_json("list", "optimizers")}

    assert listed["drpg"]
    assert [name for name, writes in listed.items() if not writes] == PLAIN
