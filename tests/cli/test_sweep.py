from __future__ import annotations

import importlib.util
import json
import os
import socket
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

    told = " ".join(said.split())
    assert "limit: 3, now 2" in told
    name = "tiny-drpg-tiny_bench-calculator"
    assert f"{table / 'tiny-drpg.toml'} would be the run '{name}'" in told
    assert f"drpg resume {name} --limit 2" in told
    assert "--prefix WORD" in told
    assert "DRPG_RUNS=FOLDER" in told


def test_what_the_message_advises_lets_the_sweep_go_on(drpg: Drpg, table: Path) -> None:
    path = str(table / "tiny-drpg.toml")
    drpg("sweep", path, "--lm", LM)
    drpg("sweep", path, "--lm", LM, "--limit", "5", exit_code=2)

    drpg("resume", "tiny-drpg-tiny_bench-calculator", "--limit", "5")

    assert set(states(drpg("sweep", path, "--lm", LM, "--limit", "5", "--json")).values()) == {
        "done already"
    }


def test_all_names_that_are_taken_are_told_at_once(drpg: Drpg, table: Path) -> None:
    drpg("sweep", str(table), "--lm", LM)

    said = drpg("sweep", str(table), "--lm", LM, "--limit", "2", exit_code=2).stderr

    assert said.count("was started with other settings") == 2


def test_a_prefix_gives_runs_names_of_their_own_that_a_pattern_finds(
    drpg: Drpg, table: Path
) -> None:
    path = str(table / "tiny-drpg.toml")
    drpg("sweep", path, "--lm", LM)

    swept = drpg("sweep", path, "--lm", LM, "--limit", "2", "--prefix", "short", "--json")

    assert states(swept) == {"short-tiny-drpg-tiny_bench-calculator": "finished"}
    drpg("report", "short-*", "--out", "out")
    assert (Path("out") / "index.html").exists()
    drpg("sweep", str(table), "--lm", LM, "--prefix", "../up", exit_code=2)


def test_parts_and_databases_are_set_for_one_benchmark_or_for_all_that_take_them(
    drpg: Drpg, table: Path
) -> None:
    tiny = "tiny_bench:BENCHMARK"
    for given in ("sum-7", f"{tiny}=sum-7"):
        swept = drpg(
            "sweep", str(table / "tiny-drpg.toml"), "--lm", LM, "--exclude-db", given,
            "--limit", "12", "--json", "--prefix", "all" if given == "sum-7" else "one",
        )  # fmt: skip
        assert {row["n"] for row in json.loads(swept.stdout)} == {11}

    said = drpg("sweep", str(table), "--lm", LM, "--split", "spider=dev", exit_code=2).stderr
    assert "'spider'" in said
    assert tiny in said
    twice = ("--split", "a", "--split", "b")
    assert "several parts" in drpg("sweep", str(table), "--lm", LM, *twice, exit_code=2).stderr


def test_a_dry_run_names_the_data_that_is_missing_and_fails(drpg: Drpg, table: Path) -> None:
    (table / "sql.toml").write_text('benchmark = "spider"\nsplit = "test"\nlimit = 1\n')
    empty = table.with_name("nothing")
    empty.mkdir()
    command = ("sweep", str(table), "--lm", LM, "--data", str(empty), "--dry-run")

    refused = drpg(*command, exit_code=1)

    said = " ".join(refused.stderr.split())
    assert "1 of 3 cells lack data" in said
    assert "sql-tiny_bench-calculator: Spider (test split)" in said
    assert "tiny-drpg-tiny_bench-calculator: run --config" in refused.stdout
    rows = json.loads(drpg(*command, "--json", exit_code=1).stdout)
    assert [bool(row["missing"]) for row in rows] == [True, False, False]
    assert not Path(".drpg").exists()


def test_a_dry_run_names_databases_that_the_judge_cannot_read(
    drpg: Drpg, table: Path, change_judge: Callable[[str], None]
) -> None:
    change_judge('judge.missing = lambda examples: sorted({e.id for e in examples} & {"sum-7"})')
    command = ("sweep", str(table), "--lm", LM, "--limit", "12", "--dry-run")

    said = " ".join(drpg(*command, exit_code=1).stderr.split())

    assert "2 of 2 cells lack data" in said
    assert "nothing can be judged on sum-7" in said
    drpg(*command, "--exclude-db", "sum-7")


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


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra ray is absent")
def test_an_address_where_no_cluster_answers_is_refused_at_once(drpg: Drpg, table: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens on it
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = drpg("sweep", str(table), "--lm", LM, "--ray", address, exit_code=2).stderr

    assert f"nothing answers at {address}" in " ".join(said.split())


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra ray is absent")
def test_a_cluster_that_refuses_is_said_with_the_remedy(
    drpg: Drpg, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def refuse(**options: Any) -> None:
        raise ConnectionError("no token")

    monkeypatch.setattr(ray, "init", refuse)

    said = drpg("sweep", str(table), "--lm", LM, "--ray", "local", exit_code=1).stderr

    assert "no token" in said
    assert "RAY_AUTH_MODE=token" in said


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra ray is absent")
def test_a_cell_whose_worker_dies_fails_and_the_others_go_on(
    drpg: Drpg, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray
    from ray.exceptions import WorkerCrashedError

    class Remote:
        def __init__(self, task: Any) -> None:
            self.task = task

        def remote(self, cell: Any, command: list[str]) -> Any:
            return lambda: self.task(cell, command) if "zero" in cell.name else self.die()

        def die(self) -> int:
            raise WorkerCrashedError

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "remote", lambda **options: Remote)
    monkeypatch.setattr(ray, "get", lambda waiting: waiting())

    swept = drpg("sweep", str(table), "--lm", LM, "--ray", "local", "--json", exit_code=1)

    found = states(swept)
    assert sorted(state.split(",")[0] for state in found.values()) == ["failed", "finished"]
    (lost,) = [name for name, state in found.items() if state != "finished"]
    assert "The cluster lost this cell" in Path(".drpg", "sweep", f"{lost}.log").read_text()


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
