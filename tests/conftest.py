"""What holds for every test: no state of the machine's own, and interrupts as at a terminal."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile

import pytest


def _own_cache() -> None:
    """Give DSPy a cache that is empty and goes with the tests."""
    if "dspy" in sys.modules:
        raise pytest.UsageError("dspy was imported before tests/conftest.py could place its cache.")
    folder = tempfile.mkdtemp(prefix="drpg-tests-dspy-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["DSPY_CACHEDIR"] = folder


_own_cache()

# A job in the background is started with Ctrl-C ignored, and so would be its children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
