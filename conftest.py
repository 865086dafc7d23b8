"""Everything runs with an embedder that needs no model, unless a test says otherwise.

What one test or page of documentation sets with ``dspy.configure`` is put back after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("DRPG_EMBEDDER", "hashing")


@pytest.fixture(autouse=True)
def _dspy_as_it_was() -> Iterator[None]:
    import dspy

    before = dspy.settings.copy()
    yield
    after = dspy.settings.copy()
    changed = {name: value for name, value in before.items() if after[name] is not value}
    if changed:
        dspy.configure(**changed)
