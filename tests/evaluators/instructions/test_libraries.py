"""The packages behind the checks, imported when they are first needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("nltk")

AT_ONCE = """
import threading
from concurrent.futures import ThreadPoolExecutor

from evaluators.instructions import libraries

together = threading.Barrier(8)
firsts = [libraries.tokens, libraries.punkt_sentences, libraries.verb_first, libraries.tokens]

def work(number):
    together.wait()
    return firsts[number % 4]("Run home. Then rest.")

with ThreadPoolExecutor(8) as pool:
    print(*pool.map(work, range(8)), sep="\\n")
"""


def test_several_threads_may_be_the_first_to_need_them() -> None:
    found = subprocess.run(
        [sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False
    )

    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0] == "['Run', 'home', '.', 'Then', 'rest', '.']"
    assert lines[4:] == lines[:4]
