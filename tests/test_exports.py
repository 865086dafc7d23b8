from __future__ import annotations

import subprocess
import sys

import drpg_dspy


def test_every_exported_name_can_be_had_and_no_other() -> None:
    assert sorted(drpg_dspy.__all__) == sorted(drpg_dspy._HOMES)
    assert all(getattr(drpg_dspy, name) is not None for name in drpg_dspy.__all__)


def test_importing_the_package_does_not_import_dspy() -> None:
    code = "import drpg_dspy, sys; assert 'dspy' not in sys.modules and 'mlflow' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
