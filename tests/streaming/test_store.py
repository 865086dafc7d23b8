from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from drpg_dspy.exceptions import ResumeMismatch, RunInUse, StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.streaming import RunConfig, RunFolder, damaged_runs, list_runs

CONFIG = RunConfig(
    "spider", "drpg", {"k": 16}, lm="local/small", limit=100, exclude_db=("wta_1",),
    budget={"lm_calls": 50}, versions={"dspy": "3.4.1"},
)  # fmt: skip


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRPG_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_a_run_is_found_again_with_the_settings_it_was_started_with() -> None:
    made = RunFolder.create("first", CONFIG)

    found = RunFolder.open("first")

    assert found == made
    assert found.config == CONFIG
    assert found.memory_path.parent == found.path


def test_runs_are_kept_below_the_working_folder_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRPG_RUNS")
    monkeypatch.chdir(tmp_path)

    assert RunFolder.create("first", CONFIG).path == Path(".drpg/runs/first")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", ".hidden", "-x", "é", "x" * 101, None])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a run"):
        RunFolder.create(name, CONFIG)


def test_a_taken_name_is_refused_with_the_remedies() -> None:
    RunFolder.create("first", CONFIG)

    with pytest.raises(ValueError, match=r"another name.*drpg resume first.*--overwrite"):
        RunFolder.create("first", CONFIG)


def test_overwriting_starts_from_nothing() -> None:
    old = RunFolder.create("first", CONFIG)
    SQLiteMemory(old.memory_path).close()

    new = RunFolder.create("first", RunConfig("spider", "zero_shot"), overwrite=True)

    assert RunFolder.open("first").config.optimizer == "zero_shot"
    assert not new.memory_path.exists()


def test_a_live_run_is_not_overwritten() -> None:
    run = RunFolder.create("first", CONFIG)

    with run.lock(), pytest.raises(RunInUse, match="'first' is running"):
        RunFolder.create("first", CONFIG, overwrite=True)


def test_a_folder_that_is_no_run_is_not_deleted(root: Path) -> None:
    (root / "thesis").mkdir(parents=True)
    (root / "thesis" / "chapter1.tex").write_text("precious")

    with pytest.raises(ValueError, match="no run"):
        RunFolder.create("thesis", CONFIG, overwrite=True)
    assert (root / "thesis" / "chapter1.tex").exists()


def test_whether_a_name_is_free_is_found_out_without_making_anything(root: Path) -> None:
    RunFolder.check_free("second")
    assert not root.exists()
    RunFolder.create("first", CONFIG)

    with pytest.raises(ValueError, match="drpg resume first"):
        RunFolder.check_free("first")
    RunFolder.check_free("first", overwrite=True)
    assert RunFolder.open("first").config == CONFIG


def test_a_run_keeps_another_limit_and_nothing_else() -> None:
    run = RunFolder.create("first", CONFIG)
    moved = dataclasses.replace(run, config=dataclasses.replace(CONFIG, data="/elsewhere"))

    assert moved.with_limit(200).config.data == "/elsewhere"
    assert RunFolder.open("first").config == dataclasses.replace(CONFIG, limit=200)
    assert [path.name for path in run.path.iterdir()] == ["config.json"]


def test_a_creation_that_was_killed_leaves_the_name_free(root: Path) -> None:
    (root / "first").mkdir(parents=True)
    (root / "first" / ".config.json.4711").write_text("{")

    assert RunFolder.create("first", CONFIG).config == CONFIG


def test_of_several_processes_that_create_a_run_at_once_one_wins() -> None:
    children = []
    for i in range(6):
        pid = os.fork()
        if not pid:
            os._exit(_create(i))
        children.append(pid)

    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]

    assert sorted(codes) == [0, 3, 3, 3, 3, 3]
    assert RunFolder.open("race").config.optimizer == f"method-{codes.index(0)}"


def _create(i: int) -> int:
    try:
        RunFolder.create("race", RunConfig("spider", f"method-{i}"))
    except ValueError:
        return 3
    return 0


def test_a_missing_run_is_answered_with_its_neighbours() -> None:
    RunFolder.create("first", CONFIG)

    with pytest.raises(ValueError, match=r"no run 'frist' .*first"):
        RunFolder.open("frist")


def test_all_runs_are_listed_and_an_unreadable_one_apart(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    RunFolder.create("b", CONFIG)
    RunFolder.create("a", CONFIG)
    RunFolder.create("broken", CONFIG)
    (root / "broken" / "config.json").write_text("{")
    (root / "something else").mkdir()

    assert [run.name for run in list_runs()] == ["a", "b"]
    assert list(damaged_runs()) == ["broken"]
    assert "config.json cannot be read" in damaged_runs()["broken"]
    assert caplog.text == ""
    with pytest.raises(StorageError, match="cannot be read"):
        RunFolder.open("broken")


def test_without_any_run_the_list_is_empty() -> None:
    assert list_runs() == []


def test_settings_of_a_newer_version_are_refused(root: Path) -> None:
    run = RunFolder.create("first", CONFIG)
    stored = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**stored, "quantum": True}))

    with pytest.raises(StorageError, match=r"quantum.*newer version"):
        RunFolder.open("first")


def test_other_settings_on_resume_are_listed_with_both_values() -> None:
    with pytest.raises(ResumeMismatch) as caught:
        CONFIG.check({"limit": 200, "lm": "openai/big", "benchmark": "spider"})

    message = str(caught.value)
    assert "limit: stored 100, given 200" in message
    assert "lm: stored 'local/small', given 'openai/big'" in message
    assert "benchmark" not in message


def test_a_budget_versions_and_the_place_of_the_data_may_change() -> None:
    CONFIG.check({"budget": {"lm_calls": 500}, "data": "/elsewhere", "versions": {}})
    CONFIG.check({"exclude_db": ("wta_1",), "options": {"k": 16}})


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="colour"):
        CONFIG.check({"colour": "blue"})


@pytest.mark.parametrize(
    ("kept", "status"),
    [
        (None, "new"),
        ({"state": "finished", "reason": ""}, "finished"),
        ({"state": "running", "reason": "x"}, "interrupted"),
        ({"state": "interrupted", "reason": "x"}, "interrupted"),
        ({"state": "stopped", "reason": "enough"}, "stopped: enough"),
        ({"state": "failed", "reason": "ValueError: x"}, "failed: ValueError: x"),
    ],
)
def test_the_status_is_what_the_memory_says(kept: dict[str, str] | None, status: str) -> None:
    run = RunFolder.create("first", CONFIG)
    assert run.status == "new"
    memory = SQLiteMemory(run.memory_path)
    if kept is not None:
        memory.set_meta("stream:status", json.dumps(kept))
    memory.close()

    assert run.status == status


def test_a_locked_run_is_running() -> None:
    run = RunFolder.create("first", CONFIG)

    with run.lock():
        assert run.status == "running"
    assert run.status == "new"


def begun(name: str) -> RunFolder:
    """Return a run that a stream was started in, and whose memory is gone."""
    run = RunFolder.create(name, CONFIG)
    SQLiteMemory(run.memory_path).close()
    with run.lock():
        pass
    assert run.status == "new"
    run.check_whole()
    run.memory_path.unlink()
    return run


def test_a_run_whose_steps_are_gone_is_damaged_not_new() -> None:
    run = begun("first")

    assert run.status.startswith("damaged: its steps were in ")
    with pytest.raises(StorageError, match=r"'first'.*is gone\. Restore .*--overwrite"):
        run.check_whole()


def test_a_run_whose_steps_are_gone_may_be_started_over() -> None:
    begun("first")

    assert RunFolder.create("first", CONFIG, overwrite=True).status == "new"


def test_a_damaged_memory_does_not_hide_the_run() -> None:
    run = RunFolder.create("first", CONFIG)
    run.memory_path.write_bytes(os.urandom(200))

    assert list_runs()[0].status.startswith("damaged: ")


def test_a_setting_of_the_wrong_kind_is_damage_and_no_crash(root: Path) -> None:
    run = RunFolder.create("first", CONFIG)
    stored = json.loads((run.path / "config.json").read_text())

    for name, value in {"exclude_db": 3, "extra": None, "limit": "all", "options": []}.items():
        (run.path / "config.json").write_text(json.dumps({**stored, name: value}))
        with pytest.raises(StorageError, match=f"{name} is damaged"):
            RunFolder.open("first")


def test_a_status_that_says_nothing_is_damage_and_no_crash() -> None:
    run = RunFolder.create("first", CONFIG)
    memory = SQLiteMemory(run.memory_path)
    for kept in ("{", "[]", "{}"):
        memory.set_meta("stream:status", kept)
        assert run.status.startswith("damaged: "), kept
    memory.close()


def test_a_run_keeps_another_budget_and_nothing_else() -> None:
    run = RunFolder.create("first", CONFIG)

    with run.lock():
        changed = run.with_budget({"lm_calls": 9})

    assert changed.config == RunFolder.open("first").config
    assert changed.config == dataclasses.replace(CONFIG, budget={"lm_calls": 9})
