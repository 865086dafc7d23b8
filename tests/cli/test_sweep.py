from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Drpg = Callable[..., Result]
LM = "scripted/tiny_bench:calculator"
OTHER = "scripted/tiny_bench:clumsy"


@pytest.fixture
def table(workdir: Path) -> Path:
    """Two cells of the tiny benchmark."""
    folder = workdir / "table"
    folder.mkdir()
    for method in ("zero_shot", "drpg"):
        (folder / f"tiny-{method}.toml").write_text(
            f'benchmark = "tiny_bench:BENCHMARK"\noptimizer = "{method}"\n'
            'embedder = "hashing"\nmlflow = false\nlimit = 3\n'
        )
    return folder


def states(result: Result) -> dict[str, str]:
    return {row["run"]: row["state"] for row in json.loads(result.stdout)}


def test_every_file_runs_with_every_model_and_only_once(drpg: Drpg, table: Path) -> None:
    first = drpg("sweep", str(table), "--lm", LM, "--lm", OTHER, "--jobs", "2", "--json")

    assert states(first) == {
        f"tiny-{method}-tiny_bench-{lm}": "finished"
        for method in ("drpg", "zero_shot")
        for lm in ("calculator", "clumsy")
    }
    assert {row["n"] for row in json.loads(first.stdout)} == {3}

    again = drpg("sweep", str(table), "--lm", LM, "--lm", OTHER, "--json")
    assert set(states(again).values()) == {"done already"}


def test_a_cell_that_stopped_is_resumed_and_one_that_failed_stops_no_other(
    drpg: Drpg, table: Path, workdir: Path
) -> None:
    locked = "scripted/tiny_bench:locked"
    failed = drpg("sweep", str(table), "--lm", locked, "--lm", LM, "--json", exit_code=1)

    found = states(failed)
    assert [found[f"tiny-{m}-tiny_bench-calculator"] for m in ("drpg", "zero_shot")] == [
        "finished",
        "finished",
    ]
    log = Path(".drpg", "sweep", "tiny-drpg-tiny_bench-locked.log")
    assert f"failed, see {log}" == found["tiny-drpg-tiny_bench-locked"]
    assert "This key was revoked." in log.read_text()

    (workdir / "key").touch()
    mended = drpg("sweep", str(table), "--lm", locked, "--json")
    assert set(states(mended).values()) == {"finished"}


def test_a_dry_run_says_what_would_be_done_and_does_nothing(drpg: Drpg, table: Path) -> None:
    said = drpg("sweep", str(table), "--lm", LM, "--limit", "2", "--dry-run").stdout

    assert "tiny-drpg-tiny_bench-calculator: run --config" in said
    assert "--limit 2" in said
    assert not Path(".drpg").exists()


def test_a_run_of_the_same_name_with_other_settings_is_refused(drpg: Drpg, table: Path) -> None:
    drpg("sweep", str(table / "tiny-drpg.toml"), "--lm", LM)

    said = drpg("sweep", str(table), "--lm", LM, "--limit", "2", exit_code=2).stderr

    assert "limit: 3, now 2" in " ".join(said.split())


def test_files_of_one_name_are_told_apart_by_their_folder(drpg: Drpg, table: Path) -> None:
    other = table.with_name("other")
    other.mkdir()
    (other / "tiny-drpg.toml").write_bytes((table / "tiny-drpg.toml").read_bytes())

    said = drpg("sweep", str(table), str(other), "--lm", LM, "--dry-run").stdout

    names = [line.split(":")[0] for line in said.splitlines()]
    assert names == [
        "table-tiny-drpg-tiny_bench-calculator",
        "tiny-zero_shot-tiny_bench-calculator",
        "other-tiny-drpg-tiny_bench-calculator",
    ]


def test_what_holds_no_settings_is_refused(drpg: Drpg, table: Path) -> None:
    empty = table.with_name("empty")
    empty.mkdir()
    (table / "wrong.toml").write_text("benchmrk = 'x'")

    assert "no .toml" in drpg("sweep", str(empty), "--lm", LM, exit_code=2).stderr
    said = drpg("sweep", str(table), "--lm", LM, exit_code=2).stderr
    assert "Did you mean 'benchmark'?" in " ".join(said.split())
    assert not Path(".drpg").exists()


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra ray is absent")
def test_a_ray_cluster_runs_the_same_sweep(
    drpg: Drpg, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    try:
        swept = drpg("sweep", str(table), "--lm", LM, "--ray", "local", "--json")
    finally:
        ray.shutdown()

    assert set(states(swept).values()) == {"finished"}


def test_without_ray_the_extra_is_named(
    drpg: Drpg, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import builtins

    original = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return original(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)

    said = drpg("sweep", str(table), "--lm", LM, "--ray", "local", exit_code=1).stderr

    assert "drpg-dspy[ray]" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("benchmark = 'tiny_bench:BENCHMARK'\nlimit = 'all'", "limit must be a whole number"),
        ("benchmark = 'tiny_bench:BENCHMARK'\n[set]\nwriters = 1", "no argument 'writers'"),
        ("benchmark = 'tiny_bench:BENCHMARK'\ncompare = 'lose'", "Did you mean 'loose'?"),
        ("limit = 3", "names no benchmark"),
        ("limit = ", "cannot be read as TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file_before_anything_starts(
    drpg: Drpg, table: Path, text: str, said: str
) -> None:
    (table / "wrong.toml").write_text(text)

    message = " ".join(drpg("sweep", str(table), "--lm", LM, exit_code=2).stderr.split())

    assert "'FILES'" in message
    assert "--config" not in message
    assert str(table / "wrong.toml") in message
    assert said in message
    assert not Path(".drpg").exists()


def test_a_file_that_was_changed_is_not_taken_for_done(drpg: Drpg, table: Path) -> None:
    path = table / "tiny-drpg.toml"
    drpg("sweep", str(path), "--lm", LM)
    with path.open("a") as file:
        file.write("holdout = 0.4\n")

    said = drpg("sweep", str(path), "--lm", LM, exit_code=2).stderr

    assert "holdout: None, now 0.4" in " ".join(said.split())
