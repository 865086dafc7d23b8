from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Drpg


def test_a_run_whose_steps_are_gone_is_not_repeated_in_silence(
    run: Drpg, drpg: Drpg, workdir: Path
) -> None:
    run("--limit", "3")
    memory = workdir / ".drpg" / "runs" / "first" / "memory.sqlite"
    for path in memory.parent.glob("memory.sqlite*"):
        if path.suffix not in (".lock", ".running"):
            path.unlink()

    for command in (["resume", "first"], ["show", "first"], ["policy", "log", "first"]):
        said = drpg(*command, exit_code=1)
        assert "is gone. Restore the file from a copy, or start over" in said.stderr
        assert not memory.exists()

    run("--limit", "3", "--overwrite")
    assert memory.exists()
