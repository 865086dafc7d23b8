"""How much memory a searchable history takes, as a ratio of its float vectors.

    python benchmarks/memory_size.py --size 100000 --json

The file is written by a process of its own. Another opens it, searches, steps through a share
of it as a stream would, and measures the growth of its resident memory since just before it
opened the file (libraries loaded, nothing of the memory read), at rest and at its highest.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from step_overhead import DIMENSION, PARTS, Table, clustered, fill, ours, question

from drpg_dspy.memory import SQLiteMemory


def resident(name: str) -> int:
    """Return a figure of ``/proc/self/status`` in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{name} is not in /proc/self/status; this benchmark needs Linux.")


def write(path: Path, n: int) -> None:
    """Fill a file."""
    rng = np.random.default_rng(0)
    vectors = clustered(n, rng)
    memory = SQLiteMemory(path, Table(vectors))
    fill(memory, n, vectors, rng.random(n) < 0.6)
    memory.close()


def read(path: Path, n: int, steps: int) -> dict[str, Any]:
    """Open the file, use it, and measure."""
    queries = clustered(n + steps, np.random.default_rng(1))[n:]  # the only vectors kept here

    class Queries(Table):
        def __call__(self, texts: Any) -> np.ndarray:
            return self.vectors[[int(text.rsplit(" ", 1)[1]) - n for text in texts]]

    warm = SQLiteMemory(":memory:", Queries(queries))  # loads what libraries load on first use
    parts: dict[str, list[float]] = {name: [] for name in PARTS}
    ours(warm, n, True, parts)
    warm.close()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark so far
    before = resident("VmRSS")
    memory = SQLiteMemory(path, Queries(queries))
    memory.search(question(n), 16)
    built = resident("VmRSS") - before
    for i in range(n, n + steps):
        ours(memory, i, i % 3 > 0, parts)
    gc.collect()
    vectors = 4 * DIMENSION * n
    figures = {
        "built": built / vectors,
        "in_use": (resident("VmRSS") - before) / vectors,
        "highest": (resident("VmHWM") - before) / vectors,
    }
    return {"n": n, "vectors_mb": vectors / 1e6, "file_mb": path.stat().st_size / 1e6, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, spawn.Pool(1, maxtasksperchild=1) as pool:
        path = Path(folder) / "memory.sqlite"
        pool.apply(write, (path, options.size))
        result = pool.apply(read, (path, options.size, options.steps))
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{result['n']} experiences, {result['vectors_mb']:.0f} MB of vectors")
    print(f"after building the index  {result['built']:.2f} x the vectors")
    print(f"after {options.steps} steps           {result['in_use']:.2f} x")
    print(f"at the highest            {result['highest']:.2f} x")


if __name__ == "__main__":
    main()
