"""What one online step costs beside the language model and the embedder.

Ours: search 16 correct and 8 wrong experiences, record the prediction with its guidance, commit
the verdict. The peer is the same work done StreamBench's way: one flat L2 index over everything,
the text embedded for the query and again for the insert, min(10 k, n) neighbours filtered by
verdict afterwards, once for the shots and once for each side of the policy; payloads in a list
in memory, nothing written to disk.

    python benchmarks/step_overhead.py --sizes 1000 10000 100000 --json

Both run in one process on the same vectors, twice: each alone, some hundred steps on end, and then
step by step in turn, so that a noisy machine slows both; there each finds the processor's caches
full of the other's vectors. Beside wall time stands the processor time of the thread, which another
program's turns do not lengthen (its use of the caches does). Embedding is timed apart: a fixed
table stands for the embedder, and ``--embed-ms`` says what one embedding is taken to cost in
the totals that include it.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.types import Call, Feedback, Guidance, Policy, Rollout, Rule

DIMENSION = 384
SHOTS, SIDE = 16, 8
PARTS = ("search", "record", "commit", "total", "cpu")
SCHEMA = "CREATE TABLE singer (singer_id INT, name TEXT, country TEXT, age INT);\n" * 14


def clustered(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return unit vectors like sentence embeddings: topics, and variants of a question in them.

    Cosines: about 0.15 between topics, 0.5 within one, 0.8 between variants.
    """
    base = rng.standard_normal(DIMENSION)
    topics = rng.standard_normal((max(20, n // 250), DIMENSION)) + 0.4 * base
    questions = topics[rng.integers(len(topics), size=max(50, n // 10))]
    questions = questions + 0.9 * rng.standard_normal(questions.shape)
    vectors = questions[rng.integers(len(questions), size=n)]
    vectors = vectors + 0.65 * rng.standard_normal(vectors.shape)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class Table:
    """An embedder that looks vectors up, and counts."""

    identity = "benchmark-table"
    dimension = DIMENSION

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.texts = 0

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += len(texts)
        return self.vectors[[int(text.rsplit(" ", 1)[1]) for text in texts]]


def question(i: int) -> str:
    return f"How many singers from the country with the most concerts are older than {i}"


def rollout(i: int, shots: Sequence[str] = (), wrong: Sequence[str] = ()) -> Rollout:
    """Return a prediction as large as those of a text-to-SQL stream."""
    sql = f"SELECT count(*) FROM singer WHERE country = 'France' AND age > {i}"
    inputs = {"db_schema": SCHEMA, "question": question(i)}
    rules = tuple(Rule(f"Rule {i}.{j}: return exactly the columns asked for") for j in range(5))
    shown = tuple({"question": text, "sql": sql} for text in shots)
    return Rollout(
        f"rollout-{i:08d}",
        i + 1,
        inputs,
        {"sql": sql},
        key=inputs["question"],
        trace=(Call("predict", inputs, {"sql": sql}),),
        guidance=Guidance(
            policies={"predict": Policy("predict", rules)},
            shots={"predict": shown} if shown else {},
            retrieved={"correct": tuple(shots[:SIDE]), "wrong": tuple(wrong)},
        ),
    )


@dataclass
class Peer:
    """StreamBench's memory."""

    embed: Callable[[Sequence[str]], np.ndarray]
    index: Any = field(default_factory=lambda: faiss.IndexFlatL2(DIMENSION))
    payloads: list[tuple[str, bool]] = field(default_factory=list)

    def retrieve(self, vector: np.ndarray, k: int, verdict: bool) -> list[str]:
        wanted = min(10 * k, len(self.payloads))
        _, found = self.index.search(vector, wanted)
        hits = [self.payloads[i] for i in found[0] if self.payloads[i][1] == verdict]
        return [text for text, _ in hits[:k]]

    def step(self, i: int, correct: bool) -> None:
        text = question(i)
        vector = self.embed([text])
        self.retrieve(vector, SHOTS, True)
        self.retrieve(vector, SIDE, True)
        self.retrieve(vector, SIDE, False)
        self.index.add(self.embed([text]))
        self.payloads.append((text, correct))


def ours(memory: SQLiteMemory, i: int, correct: bool, parts: dict[str, list[float]]) -> list[str]:
    """Make one step; return the ids found."""
    cpu, started = time.thread_time(), time.perf_counter()
    right = memory.search(question(i), SHOTS, "correct")
    wrong = memory.search(question(i), SIDE, "wrong")
    shown = [str(hit.experience.rollout.inputs["question"]) for hit in right]
    searched = time.perf_counter()
    cpu_built = time.thread_time()
    made = rollout(i, shown, [hit.experience.id for hit in wrong])
    cpu_built -= time.thread_time()
    built = time.perf_counter()
    memory.record(made)
    recorded = time.perf_counter()
    memory.commit(made.id, Feedback(float(correct)))
    done = time.perf_counter()
    parts["search"].append(searched - started)
    parts["record"].append(recorded - built)
    parts["commit"].append(done - recorded)
    parts["total"].append(done - started - (built - searched))
    parts["cpu"].append(time.thread_time() - cpu + cpu_built)
    return [hit.experience.id for hit in (*right, *wrong)]


def fill(memory: SQLiteMemory, n: int, vectors: np.ndarray, labels: np.ndarray) -> None:
    """Record ``n`` judged predictions, many to a transaction."""
    from drpg_dspy.memory import rows, writing

    for start in range(0, n, 2000):
        with memory._store.writing() as db:
            for i in range(start, min(n, start + 2000)):
                made = rollout(i, [question(j) for j in range(max(0, i - SHOTS), i)])
                text = memory._embeddings.put(db, made.key, vectors[i])
                body = (*rows.encode_body(made), rows.encode_guidance(made.guidance))
                writing.add_rollout(db, made, text, body, memory.path)
                verdict = Feedback(float(labels[i]))
                head = writing.find(db, made.id, memory.path)
                writing.add_feedback(db, head, made.id, verdict, rows.encode_feedback(verdict))


def measure(n: int, steps: int, embed_ms: float, seed: int = 0) -> dict[str, Any]:
    """Fill both memories with ``n`` experiences and make ``steps`` steps on each in turn."""
    rng = np.random.default_rng(seed)
    vectors = clustered(n + 2 * steps, rng)
    labels = rng.random(n + 2 * steps) < 0.6
    ours_table, peer_table = Table(vectors), Table(vectors)
    alone, parts = ({name: [] for name in PARTS} for _ in range(2))
    peer_alone: list[float] = []
    peer_times: list[float] = []
    peer_cpu: list[float] = []
    found: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        memory = SQLiteMemory(Path(folder) / "memory.sqlite", ours_table)
        fill(memory, n, vectors, labels)
        peer = Peer(peer_table)
        peer.index.add(vectors[:n])
        peer.payloads.extend((question(i), bool(labels[i])) for i in range(n))
        started = time.perf_counter()
        memory.search(question(0), 1)
        build = time.perf_counter() - started
        for i in rng.integers(n, size=1000):  # a stream under way, not its first step
            memory.search(question(i), SHOTS, "correct")
            memory.search(question(i), SIDE, "wrong")
        faiss.omp_set_num_threads(1)  # one query: the faster setting for the peer, too
        gc.collect()
        ours_table.texts = peer_table.texts = 0
        for i in range(n, n + steps):
            found.append(ours(memory, i, bool(labels[i]), alone))
        for i in range(n, n + steps):
            started = time.perf_counter()
            peer.step(i, bool(labels[i]))
            peer_alone.append(time.perf_counter() - started)
        for i in range(n + steps, n + 2 * steps):
            found.append(ours(memory, i, bool(labels[i]), parts))
            cpu, started = time.thread_time(), time.perf_counter()
            peer.step(i, bool(labels[i]))
            peer_times.append(time.perf_counter() - started)
            peer_cpu.append(time.thread_time() - cpu)
        memory.close()
    ms = {f"{name}_ms": float(np.median(times)) * 1e3 for name, times in parts.items()}
    total, peer_ms = ms["total_ms"], float(np.median(peer_times)) * 1e3
    embeds = ours_table.texts / (2 * steps), peer_table.texts / (2 * steps)
    return {
        "n": n,
        "steps": steps,
        "alone_p50_ms": float(np.median(alone["total"])) * 1e3,
        "alone_search_ms": float(np.median(alone["search"])) * 1e3,
        "alone_record_ms": float(np.median(alone["record"])) * 1e3,
        "alone_commit_ms": float(np.median(alone["commit"])) * 1e3,
        "peer_alone_p50_ms": float(np.median(peer_alone)) * 1e3,
        "p50_ms": total,
        "p95_ms": float(np.quantile(parts["total"], 0.95)) * 1e3,
        **ms,
        "peer_p50_ms": peer_ms,
        "peer_cpu_ms": float(np.median(peer_cpu)) * 1e3,
        "ratio": total / peer_ms,
        "embeddings_a_step": embeds[0],
        "peer_embeddings_a_step": embeds[1],
        "ratio_with_embedding": (total + embeds[0] * embed_ms) / (peer_ms + embeds[1] * embed_ms),
        "recall": recall(found, n, vectors, labels),
        "build_s": build,
    }


def recall(found: list[list[str]], n: int, vectors: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of the true neighbours, by brute force, that were found."""
    shares = []
    for place, ids in enumerate(found):
        i = n + place
        similarity = vectors[:i].astype(np.float64) @ vectors[i].astype(np.float64)
        truth: list[str] = []
        for verdict, k in ((True, SHOTS), (False, SIDE)):
            members = np.flatnonzero(labels[:i] == verdict)
            order = np.lexsort((members, -similarity[members]))[:k]
            truth += [f"rollout-{j:08d}" for j in members[order]]
        shares.append(len(set(truth) & set(ids)) / len(truth))
    return float(np.mean(shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--embed-ms", type=float, default=10.0, help="taken for one embedding")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [measure(n, options.steps, options.embed_ms) for n in options.sizes]
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(
        "p50 in ms, each alone: ours (search record commit) peer | in turn: ours, its processor "
        "time, peer, its processor time, ratio | ratio with embedding | recall, embeddings a step"
    )
    for r in results:
        print(
            f"{r['n']:9d} | {r['alone_p50_ms']:.2f} ({r['alone_search_ms']:.2f} "
            f"{r['alone_record_ms']:.2f} {r['alone_commit_ms']:.2f}) {r['peer_alone_p50_ms']:.2f} "
            f"| {r['p50_ms']:.2f} {r['cpu_ms']:.2f} {r['peer_p50_ms']:.2f} {r['peer_cpu_ms']:.2f} "
            f"{r['ratio']:.2f} | {r['ratio_with_embedding']:.2f} | {r['recall']:.4f}  "
            f"{r['embeddings_a_step']:.0f} (peer {r['peer_embeddings_a_step']:.0f})"
        )


if __name__ == "__main__":
    main()
