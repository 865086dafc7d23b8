"""The example service under eight clients: is any feedback lost, and what does learning cost?

    python benchmarks/serving.py [--requests 10000] [--clients 8] [--think 0.05] [--pause 0]
                                 [--shots 0]

Two services, each a uvicorn process of its own: examples/serving around a learner, and the same
program served plain. Clients in this process ask the one and the other in turn, a block at a
time, so that a noisy machine slows both and they do not compete. Every answer of the learner
gets a verdict, a fifth of them a second one, and a tenth of the verdicts is sent twice.
``think`` is the time in which the model answers: it sleeps, and the service takes other requests
meanwhile. The learner's rules are quoted from the verdicts (no LM call), and its embedder is the
hashing one (no model): what is measured is the library.

Prints JSON. ``lost``: verdicts that were acknowledged and do not stand in the memory afterwards.
``added_p95_ms``: the difference between the two 95th percentiles of an answer's latency, as a
client sees it. ``cpu_ms_per_request``: processor time of a service's process, which another
program's turns do not lengthen (its use of the caches does). Each example in a
prompt (``--shots``) costs DSPy about half a millisecond of formatting on the service's event
loop, which is the method's cost and not the wrapping's. Clients that ask again at once keep a
service busy and fall into step with one another; with ``--pause`` each waits before a request,
for a time drawn from an exponential distribution of that mean: people who know nothing of others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import dspy
import httpx
from fastapi import FastAPI

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from drpg_dspy import DRPG, OnlinePolicyOptimizer  # noqa: E402
from drpg_dspy.memory import SQLiteMemory  # noqa: E402
from drpg_dspy.optimizers import QuoteWriter  # noqa: E402
from drpg_dspy.retrieval import HashingEmbedder  # noqa: E402
from drpg_dspy.testing import ScriptedLM, fields  # noqa: E402
from examples.serving.app import Answer, Assistant, Question, create_app  # noqa: E402

THINK, SHOTS = "DRPG_BENCHMARK_THINK", "DRPG_BENCHMARK_SHOTS"


def program() -> dspy.Module:
    """Return the program, under a model that answers after a while."""
    think = float(os.environ[THINK])
    model = ScriptedLM(lambda messages: fields(reasoning="because", answer="No."))
    engine = model.script_engine
    complete = engine.complete

    class Slow:
        """Lets the event loop go on while the model thinks."""

        async def complete(self, request: Any) -> Any:
            await asyncio.sleep(think)
            engine.prompts.clear()
            return complete(request)

        async def aclose(self) -> None:
            """Nothing is held open."""

    dspy.configure(lm=dspy.LM(
        "scripted/lm", engine=engine, async_engine=Slow(), cache=False, num_retries=0
    ))  # fmt: skip
    return Assistant()


def wrapped() -> FastAPI:
    """Return the service around a learner."""
    memory = SQLiteMemory("memory.sqlite", HashingEmbedder())
    shots = int(os.environ[SHOTS])
    optimizer = DRPG(k=8, shots=shots, feedback_text=True, writer=QuoteWriter())
    return create_app(OnlinePolicyOptimizer(program(), optimizer, memory=memory, name="shop"))


def plain() -> FastAPI:
    """Return the same service without a learner."""
    served, app = program(), FastAPI()

    @app.post("/answers")
    async def answer(asked: Question) -> Answer:
        prediction = await served.acall(question=asked.question)
        return Answer(id=None, answer=prediction.answer)

    @app.get("/health")
    def health() -> dict[str, int]:
        return {"unrecorded": 0}

    return app


@contextmanager
def service(name: str, folder: Path, think: float) -> Iterator[tuple[str, int]]:
    """Run a service; yields its address and its process."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}", THINK: str(think)}
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--factory", f"serving:{name}", "--port", str(port),
         "--log-level", "warning"],
        cwd=folder, env=environment,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(f"{address}/health", timeout=10)
                break
            except httpx.TransportError:
                if process.poll() is not None:
                    raise SystemExit(f"The service {name} does not come up.") from None
                time.sleep(0.2)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(30)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Clients:
    """Several clients that use one service at a time."""

    def __init__(self, count: int, pause: float) -> None:
        self.pause = pause
        self.pool = ThreadPoolExecutor(count)
        self.count = count
        self.connections = [httpx.Client(timeout=120) for _ in range(count)]
        self.lock = threading.Lock()
        self.acknowledged: dict[str, float] = {}
        self.latencies: dict[str, list[float]] = {"plain": [], "wrapped": [], "feedback": []}
        self.asked = 0

    def block(self, arm: str, address: str, requests: int) -> None:
        """Have all clients ask one service until so many requests were answered."""
        begin, self.asked = self.asked, self.asked + requests
        jobs = [
            self.pool.submit(self._use, i, arm, address, range(begin + i, self.asked, self.count))
            for i in range(self.count)
        ]
        for job in jobs:
            job.result()

    def _use(self, number: int, arm: str, address: str, turns: range) -> None:
        client = self.connections[number]
        chance = random.Random(turns.start)
        for turn in turns:
            if self.pause:
                time.sleep(chance.expovariate(1 / self.pause))
            began = time.perf_counter()
            asked = {"question": f"May customer {turn % 977} return item {turn}?"}
            answer = client.post(f"{address}/answers", json=asked).raise_for_status().json()
            took = (time.perf_counter() - began) * 1000
            with self.lock:
                self.latencies[arm].append(took)
            if arm == "wrapped":
                self._judge(client, address, answer["id"], turn)

    def _judge(self, client: httpx.Client, address: str, id: str, turn: int) -> None:
        scores = [float(turn % 3 != 0)]
        if turn % 5 == 0:
            scores.append(1.0 - scores[0])
        if turn % 10 == 0:
            scores.append(scores[-1])
        for score in scores:
            said = {"score": score, "text": f"Rule {turn % 50}: name paragraph {turn % 50}."}
            began = time.perf_counter()
            client.put(f"{address}/answers/{id}/feedback", json=said).raise_for_status()
            took = (time.perf_counter() - began) * 1000
            with self.lock:
                self.latencies["feedback"].append(took)
                self.acknowledged[id] = score


def percentiles(costs: list[float]) -> dict[str, float]:
    """Return p50, p95 and p99 in milliseconds."""
    ordered = sorted(costs)
    return {
        f"p{share}_ms": round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 2)
        for share in (50, 95, 99)
    }


def measure(folder: Path, requests: int, clients: int, think: float, pause: float) -> Any:
    """Run both services and return the figures."""
    users = Clients(clients, pause)
    with service("wrapped", folder, think) as ours, service("plain", folder, think) as bare:
        (address, process), (plain_address, plain_process) = ours, bare
        users.block("wrapped", address, 5 * clients)  # warms up
        users.block("plain", plain_address, 5 * clients)
        for costs in users.latencies.values():
            costs.clear()
        used = [cpu_seconds(process), cpu_seconds(plain_process)]
        began = time.perf_counter()
        while len(users.latencies["wrapped"]) < requests:
            users.block("wrapped", address, 100)
            users.block("plain", plain_address, 25)
        seconds = time.perf_counter() - began
        used = [cpu_seconds(process) - used[0], cpu_seconds(plain_process) - used[1]]
        health = httpx.get(f"{address}/health", timeout=60).json()
    plain, wrapped, feedback = (users.latencies[x] for x in ("plain", "wrapped", "feedback"))
    before, after = percentiles(plain), percentiles(wrapped)
    return {
        "answers": len(wrapped),
        "verdicts": len(feedback),
        "lost": lost(folder / "memory.sqlite", users.acknowledged),
        "unrecorded": health["unrecorded"],
        "clients": clients,
        "think_s": think,
        "pause_s": pause,
        "shots": int(os.environ[SHOTS]),
        "plain": before,
        "wrapped": after,
        "feedback": percentiles(feedback),
        "added_p50_ms": round(after["p50_ms"] - before["p50_ms"], 2),
        "added_p95_ms": round(after["p95_ms"] - before["p95_ms"], 2),
        "cpu_ms_per_request": {
            "plain": round(used[1] * 1000 / len(plain), 2),
            "wrapped": round(used[0] * 1000 / (len(wrapped) + len(feedback)), 2),
        },
        "requests_per_second": round((len(wrapped) + len(feedback) + len(plain)) / seconds, 1),
        "load_average": round(os.getloadavg()[0], 1),
    }


def lost(file: Path, acknowledged: dict[str, float]) -> int:
    """Return how many acknowledged verdicts do not stand in the memory."""
    with closing(SQLiteMemory(file, read_only=True)) as memory:
        standing = {id: memory.feedback(id) for id in acknowledged}
    return sum(
        standing[id] is None or standing[id].score != score for id, score in acknowledged.items()
    )


def main() -> None:
    """Parse the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000, help="answers of the learner")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--think", type=float, default=0.05, help="seconds the model takes")
    parser.add_argument("--shots", type=int, default=0, help="examples in each prompt")
    parser.add_argument("--pause", type=float, default=0.0, help="mean seconds between requests")
    options = parser.parse_args()
    os.environ[SHOTS] = str(options.shots)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(
            Path(folder), options.requests, options.clients, options.think, options.pause
        )
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
