"""The guard for systems without Landlock and seccomp; the others are met in test_attacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
START = """
import sys
sys.path.insert(0, {root!r})
from evaluators.code.confine import _Hook
sys.addaudithook(_Hook({folder!r}))
open({folder!r} + "/mine", "w").write("x")
open({outside!r}).read()
try:
    {attempt}
except PermissionError as error:
    print("refused:", error)
else:
    print("done")
"""


@pytest.mark.parametrize(
    "attempt",
    [
        "open({outside!r}, 'w')",
        "open({outside!r}, 'r+')",
        "__import__('os').open({outside!r}, __import__('os').O_WRONLY)",
        "__import__('os').remove({outside!r})",
        "__import__('os').rename({outside!r}, {folder!r} + '/x')",
        "__import__('os').mkdir({outside!r} + '.d')",
        "__import__('shutil').rmtree('/nowhere')",
        "__import__('os').chmod({outside!r}, 0)",
        "__import__('socket').socket()",
        "__import__('subprocess').run(['true'])",
        "__import__('os').system('true')",
        "__import__('os').fork()",
        "__import__('os').kill(1, 0)",
    ],
)
def test_the_hook_refuses_what_reaches_outside(tmp_path: Path, attempt: str) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("untouched")
    names = {"folder": str(folder), "outside": str(outside)}
    code = START.format(root=str(ROOT), attempt=attempt.format(**names), **names)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("refused:"), found.stdout
    assert outside.read_text() == "untouched"
