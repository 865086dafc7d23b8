"""Scores predictions that were made elsewhere: what ``drpg score`` does."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpg_dspy.arguments import takes_no, whole
from drpg_dspy.judging import judge
from drpg_dspy.types import Benchmark, Feedback

__all__ = ["ScoreReport", "score_predictions"]

Data = str | os.PathLike[str] | None

_BLANK = b" \t\r\n\f\v\0\xef\xbb\xbf\xff\xfe"  # byte order marks are no content either


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """What a file of predictions scored.

    Attributes:
        benchmark: The benchmark's name.
        score: Sum of the scores divided by ``n``, in [0, 1]. A prediction that could not be
            judged counts in ``n`` and adds nothing.
        n: Number of predictions.
        correct: Those with the full score of 1.
        not_judged: Those without a verdict.
        missing: Examples without a prediction: the file does not name them, or gives null or
            nothing but blanks. They count in ``n`` as no answer, save those :attr:`left_out`.
        left_out: Of these, the ones that a benchmark which scores what a file answers, and no
            more, leaves out of ``n``.
        uninformative: Verdicts that count, but prove nothing (two empty results that agree, a
            gold answer that the data does not determine).
        compare: Name of the scoring; ``""`` where the benchmark has only one.
        compare_version: Its version; ``""`` where the judge names none.
        subscores: Means of the judge's further figures (F1, say) over the rows that have them.
        subscores_n: How many rows these are.
    """

    benchmark: str
    score: float
    n: int
    correct: int
    not_judged: int
    uninformative: int = 0
    compare: str = ""
    compare_version: str = ""
    subscores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    subscores_n: Mapping[str, int] = dataclasses.field(default_factory=dict)
    missing: int = 0
    left_out: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return dataclasses.asdict(self)


def score_predictions(
    benchmark: Benchmark,
    data: Data,
    predictions_path: str | os.PathLike[str],
    *,
    compare: str | None = None,
    exclude_db: Iterable[str] = (),
    split: str | None = None,
    load: Mapping[str, Any] | None = None,
    rows_path: str | os.PathLike[str] | None = None,
    workers: int = 2,
) -> ScoreReport:
    """Judge a file of predictions.

    Args:
        benchmark: What they answer.
        data: The benchmark's data folder; ``None`` = where the benchmark looks by itself.
        predictions_path: The file; its form is the benchmark's.
        compare: One of the benchmark's scorings; ``None`` = its default.
        exclude_db: Databases whose examples, and their predictions, are left out.
        split: One of the benchmark's splits; ``None`` = its default.
        load: Further arguments of the benchmark's loader.
        rows_path: Where to write one verdict a line as JSON: ``id``, ``score`` (null = not
            judged), ``feedback``, ``informative``, ``compare``, ``compare_version``,
            ``subscores`` where the judge has any, and before these whatever its verdict has as
            ``row``. They follow the order of the examples, or that of the file where the
            benchmark reads pairs.
        workers: How many are judged at once; a judge may have a bound of its own.

    Raises:
        ValueError: The benchmark cannot be scored this way, or the file does not fit the data,
            is empty or holds no prediction for any of the examples.
        BenchmarkDataMissing: The data is not there.
    """
    whole("workers", workers, 1)
    if benchmark.read_predictions is None:
        raise ValueError(f"{benchmark.name} is not scored from a file of predictions.")
    _check_not_empty(predictions_path)
    loaded = _load(benchmark, data, tuple(exclude_db), split, load or {})
    read = benchmark.read_predictions(predictions_path, loaded)
    examples, predictions = _paired(loaded, read, predictions_path)
    with ExitStack() as stack:
        metric, scoring = _metric(benchmark, data, compare)
        if callable(close := getattr(metric, "close", None)):
            stack.callback(close)
        verdicts, extras = _verdicts(metric, examples, predictions, workers)
    version = str(getattr(metric, "compare_version", ""))
    if rows_path is not None:
        rows = zip(examples, verdicts, extras, strict=True)
        _write_rows(Path(rows_path), rows, {"compare": scoring, "compare_version": version})
    left_out = len(loaded) - len({example.id for example in examples})
    return dataclasses.replace(
        _counted(benchmark.name, verdicts),
        compare=scoring,
        compare_version=version,
        missing=left_out + sum(map(_says_nothing, predictions)),
        left_out=left_out,
    )


def _counted(name: str, verdicts: Sequence[Feedback]) -> ScoreReport:
    judged = [verdict.score for verdict in verdicts if verdict.judged]
    subscores = _subscores(verdicts)
    return ScoreReport(
        benchmark=name,
        score=sum(judged) / len(verdicts),
        n=len(verdicts),
        correct=sum(score >= 1.0 for score in judged),
        not_judged=len(verdicts) - len(judged),
        uninformative=sum(v.judged and not v.informative for v in verdicts),
        subscores={name: sum(values) / len(values) for name, values in subscores.items()},
        subscores_n={name: len(values) for name, values in subscores.items()},
    )


def _load(
    benchmark: Benchmark,
    data: Data,
    exclude_db: tuple[str, ...],
    split: str | None,
    load: Mapping[str, Any],
) -> list[Any]:
    options: dict[str, Any] = dict(load)
    if exclude_db:
        options["exclude_db"] = exclude_db
    if split is not None:
        options["split"] = split
    _check_options(benchmark, options)
    examples = benchmark.load(data, **options)
    if not examples:
        raise ValueError(f"No examples of {benchmark.name} are left to score.")
    return examples


def _check_options(benchmark: Benchmark, options: dict[str, Any]) -> None:
    parameters = inspect.signature(benchmark.load).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name, value in options.items():
        if name not in parameters and not takes_any:
            known = [known for known in parameters if known != "data"]
            raise ValueError(f"{takes_no(benchmark.name, name, known)} Got {name}={value!r}.")


def _metric(
    benchmark: Benchmark, data: Data, compare: str | None
) -> tuple[Callable[..., Any], str]:
    if compare is not None and compare not in benchmark.compares:
        known = ", ".join(benchmark.compares) or "none"
        raise ValueError(f"{benchmark.name} has the scorings: {known}; got {compare!r}.")
    if not benchmark.compares:
        return benchmark.evaluator(data), ""
    scoring = compare or benchmark.compares[0]
    return benchmark.evaluator(data, compare=scoring), scoring


def _check_not_empty(path: str | os.PathLike[str]) -> None:
    try:
        with open(path, "rb") as file:
            empty = not any(line.strip(_BLANK) for line in file)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    if empty:
        raise ValueError(f"{path} is empty: it holds no prediction.")


def _says_nothing(prediction: Any) -> bool:
    """True for a prediction none of whose fields holds anything."""
    fields = prediction.values() if hasattr(prediction, "toDict") else [prediction]
    return all(
        value is None
        or (isinstance(value, str) and not value.strip())
        or (isinstance(value, (list, tuple, dict)) and not value)
        for value in fields
    )


def _paired(
    examples: list[Any], read: Sequence[Any], path: str | os.PathLike[str]
) -> tuple[list[Any], list[Any]]:
    """Return examples and predictions side by side, whichever way the benchmark read them."""
    if any(isinstance(item, tuple) for item in read):
        answered, predictions = map(list, zip(*read, strict=True))
    elif len(read) == len(examples):
        answered, predictions = examples, list(read)
    else:
        raise ValueError(f"{path} gave {len(read)} predictions for {len(examples)} examples.")
    if all(map(_says_nothing, predictions)):
        raise ValueError(f"{path} holds no prediction for any of the {len(examples)} examples.")
    return answered, predictions


def _verdicts(
    metric: Callable[..., Any], examples: Sequence[Any], predictions: Sequence[Any], workers: int
) -> tuple[list[Feedback], list[Mapping[str, Any]]]:
    """Return each verdict, and what the judge adds to its line in the file of rows."""
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(functools.partial(_verdict, metric), examples, predictions))
    return [verdict for verdict, _ in found], [extra for _, extra in found]


def _verdict(
    metric: Callable[..., Any], example: Any, prediction: Any
) -> tuple[Feedback, Mapping[str, Any]]:
    extra: dict[str, Any] = {}

    @functools.wraps(metric)  # how many arguments it takes is read from its signature
    def noting(*arguments: Any) -> Any:
        verdict = metric(*arguments)
        extra.update(getattr(verdict, "row", None) or {})
        return verdict

    return judge(noting, example, prediction), extra


def _subscores(verdicts: Sequence[Feedback]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for verdict in verdicts:
        for name, value in verdict.subscores.items():
            found.setdefault(name, []).append(value)
    return dict(sorted(found.items()))


def _write_rows(
    path: Path,
    rows: Iterable[tuple[Any, Feedback, Mapping[str, Any]]],
    scoring: Mapping[str, str],
) -> None:
    try:
        with path.open("w", encoding="ascii") as file:
            for example, verdict, extra in rows:
                row = {
                    "id": example.id,
                    "score": verdict.score if verdict.judged else None,
                    "feedback": verdict.text,
                    "informative": verdict.informative,
                    **({"subscores": dict(verdict.subscores)} if verdict.subscores else {}),
                    **scoring,
                }
                file.write(json.dumps({**extra, **row}) + "\n")
    except OSError as error:
        raise ValueError(f"The verdicts cannot be written to {path}: {error.strerror}.") from error
