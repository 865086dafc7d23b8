"""Everything runs with an embedder that needs no model, unless a test says otherwise."""

from __future__ import annotations

import os

os.environ.setdefault("DRPG_EMBEDDER", "hashing")
