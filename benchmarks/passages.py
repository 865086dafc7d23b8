"""What searching a corpus of paragraphs takes: building the index, opening it, and a query.

    python benchmarks/passages.py --json
    python benchmarks/passages.py --dense hashing:384

The corpus is the one that ``hotpotqa_two_hop`` searches, the queries are its questions. Wall time
and processor time stand side by side: on a busy machine the first is the neighbours' as well.
Recall is the mean share of a question's documents among the first five passages, found by the
question itself. ``--dense`` searches the same with vectors of an embedder; 'minilm' embeds for
many minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import dspy

from drpg_dspy.retrieval import BM25Retriever, DenseRetriever, Retriever, resolve_embedder
from evaluators.multi_hop import titles_found
from programs import hotpotqa_two_hop
from programs._passages import read_corpus_here


def timed(do: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return a result with the seconds that it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = do()
    return result, {
        "seconds": round(time.perf_counter() - wall, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
    }


def asked(search: Retriever, questions: Sequence[dspy.Example]) -> dict[str, float]:
    """Return what a query takes, and how much of what is needed it finds."""
    times, cpu, recalls = [], time.process_time(), []
    for example in questions:
        began = time.perf_counter()
        result = search(example.question)
        times.append((time.perf_counter() - began) * 1000)
        found, missing = titles_found(result.passages, example.supporting_facts)
        recalls.append(len(found) / (len(found) + len(missing)))
    ordered = sorted(times)
    return {
        "queries": len(questions),
        "mean_ms": round(statistics.fmean(times), 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
        "cpu_ms": round((time.process_time() - cpu) * 1000 / len(questions), 3),
        "recall_at_5": round(statistics.fmean(recalls), 4),
    }


def measure(dense: str | None) -> dict[str, Any]:
    """Build, open and ask."""
    passages = read_corpus_here()
    questions = hotpotqa_two_hop.load()
    with tempfile.TemporaryDirectory() as cache:

        def made() -> Any:
            if dense:
                return DenseRetriever(passages, resolve_embedder(dense), cache=cache)
            return BM25Retriever(passages, cache=cache)

        _, built = timed(made)
        search, opened = timed(made)
        return {
            "passages": len(passages),
            "index": built,
            "open_again": opened,
            "query": asked(search, questions),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dense", metavar="EMBEDDER", help="hashing:DIMENSION, minilm, a model")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.dense)
    print(json.dumps(figures) if options.json else json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
