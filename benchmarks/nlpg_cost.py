"""What NLPG costs beside the program: tracing and choosing on each call, clustering now and then.

    python benchmarks/nlpg_cost.py --json

**Overhead**: a program of eight modules with a scripted language model, every module under a
policy of four instructions. One call as a learner makes it, with the trace recorded and the
instructions chosen anew (one of each module's drawn, as during a trial), against the same call
under the same policies without trace or choice. Both in turn, so that a noisy machine slows
both; processor time of the thread, which other programs do not lengthen. The model answers at
once: any real one makes the share smaller.

**Window**: 2,000 corrections of 8 routes and 4 categories, in some 300 wordings, clustered,
merged and put up; and the same with all of them different, the worst case. Wall time, which other
programs lengthen, and processor time, which they do not.

**Gate**: what simulated trials come to, at the default settings.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import dspy

from drpg_dspy.injection import attach, record_trace, use_guidance
from drpg_dspy.optimizers import NLPG, Gate
from drpg_dspy.optimizers.corrections.clusters import Gradient, merge
from drpg_dspy.optimizers.corrections.instructions import Instruction, PolicyMemory
from drpg_dspy.optimizers.corrections.trials import letter
from drpg_dspy.optimizers.corrections.updates import PolicyUpdates
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import Guidance, ProgramCard

MODULES = 8
WORDS = (
    "amount year town river join count date key digits column table name order unit author "
    "passage summary query title answer number sentence list price total share first last"
).split()
VERBS = "Name Give Keep Check Write Count Compare Copy".split()


class Chain(dspy.Module):
    """Eight modules, each fed by the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = [dspy.Predict("text -> text_out") for _ in range(MODULES)]

    def forward(self, text: str) -> dspy.Prediction:
        for step in self.steps:
            text = step(text=text).text_out
        return dspy.Prediction(answer=text)


class Figures:
    """The part of a memory that choosing needs."""

    def count(self, verdict: Any = None) -> int:
        return 1_000


def optimizer(program: dspy.Module) -> NLPG:
    """Return one with four instructions for each module, one of them on trial."""
    made = NLPG()
    card = ProgramCard("chain", "Pass it on.", attach(program), lambda inputs: inputs["text"])
    made.bind(card)
    rng = random.Random(0)
    rows = []
    for route in card.route_names:
        for i in range(4):
            status = "trial" if i == 3 else "accepted"
            text = f"{VERBS[i]} the {' '.join(rng.sample(WORDS, 6))} of each text."
            one = Instruction.write(route, "", text, status=status, cases=3, sources=("a", "b"))
            rows.append(one.as_plain())
    made.load_state_dict({**made.state_dict(), "instructions": rows})
    return made


def overhead(calls: int) -> dict[str, float]:
    """Measure a program's call with and without tracing and choosing."""
    program = Chain()
    nlpg = optimizer(program)
    inputs = {"text": "A sentence of some length, as questions have. " * 4}
    reply = fields(text_out="Another sentence of some length, as answers have.")
    guidance = nlpg.propose(inputs, Figures())  # type: ignore[arg-type]

    def bare() -> None:
        with use_guidance(guidance, program=program):
            program(**inputs)

    def learning() -> None:
        chosen: Guidance = nlpg.propose(inputs, Figures())  # type: ignore[arg-type]
        with record_trace(), use_guidance(chosen, program=program):
            program(**inputs)

    lm = ScriptedLM(lambda messages: reply)
    # What piles up (prompts, DSPy's history) would be collected at the cost of whoever is next.
    with dspy.context(lm=lm, disable_history=True):
        ours, plain = in_turn(learning, bare, calls, lm.prompts.clear)
    return {"plain_ms": plain * 1e3, "ms": ours * 1e3, "overhead": ours / plain - 1}


def in_turn(
    one: Callable[[], None], other: Callable[[], None], calls: int, tidy: Callable[[], None]
) -> tuple[float, float]:
    """Return the median processor seconds of both, measured in turn, pair by pair."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(20):
        one()
        other()
    for i in range(calls):
        for which in (0, 1) if i % 2 else (1, 0):
            started = time.thread_time()
            (one, other)[which]()
            times[which].append(time.thread_time() - started)
            tidy()
    # A slow moment of the machine is in both of a pair, so it is not in their difference.
    extra = statistics.median(a - b for a, b in zip(*times, strict=True))
    plain = statistics.median(times[1])
    return plain + extra, plain


def window(n: int, wordings: int) -> dict[str, float]:
    """Measure the clustering of a window's corrections, and putting them up."""
    rng = random.Random(1)
    texts = [
        f"{rng.choice(VERBS)} the {' '.join(rng.sample(WORDS, 5))} {i % 7} times."
        for i in range(wordings)
    ]
    gradients = [
        Gradient(f"case {i}", f"steps[{rng.randrange(8)}]", f"kind {rng.randrange(4)}",
                 rng.choice(texts) if wordings < n else texts[i])
        for i in range(n)
    ]  # fmt: skip
    started, worked = time.perf_counter(), time.process_time()
    corrections, _ = merge(gradients)
    PolicyUpdates(PolicyMemory(4, 1_000), Gate(), 3).admit(corrections, {})
    return {
        "gradients": n,
        "corrections": len(corrections),
        "processor_s": time.process_time() - worked,
        "seconds": time.perf_counter() - started,
    }


def trials(with_it: float, without: float, n: int) -> dict[str, float]:
    """Simulate trials of an instruction with these rates of right answers."""
    gate, ends = Gate(), []
    for seed in range(n):
        rng, letters = random.Random(seed), ""
        while not (found := gate.finding(letters)):
            given = rng.random() < 0.5
            letters += letter(given, rng.random() < (with_it if given else without))
        ends.append((found, len(letters)))
    share = {f: sum(found == f for found, _ in ends) / n for f in ("helps", "harms", "unclear")}
    return {"with": with_it, "without": without, **share,
            "calls": statistics.mean(length for _, length in ends)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {
        "overhead": overhead(options.calls),
        "window": [window(2_000, 300), window(2_000, 2_000)],
        "gate": [
            trials(*rates, options.trials)
            for rates in ((0.5, 0.5), (0.6, 0.5), (0.7, 0.5), (0.9, 0.5), (0.3, 0.5))
        ],
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    cost = result["overhead"]
    print(f"a call of 8 modules: {cost['plain_ms']:.2f} ms, with tracing and choosing "
          f"{cost['ms']:.2f} ms ({cost['overhead']:+.1%})")  # fmt: skip
    for w in result["window"]:
        print(f"{w['gradients']:,} corrections into {w['corrections']:,}: {w['seconds']:.2f} s "
              f"({w['processor_s']:.2f} s of the processor)")  # fmt: skip
    for t in result["gate"]:
        print(f"{t['without']:.0%} right without, {t['with']:.0%} with: accepted {t['helps']:.0%}, "
              f"given up {t['harms'] + t['unclear']:.0%}, {t['calls']:.0f} calls")  # fmt: skip


if __name__ == "__main__":
    main()
