"""Execution accuracy: a query is right when it returns what the gold query returns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.judgement import Judgement, ProcessJudge
from evaluators.sql.compare import SCORINGS
from evaluators.sql.database import Databases, check, has_rows, locate
from evaluators.sql.difference import difference
from evaluators.sql.gold import Gold, GoldCache
from evaluators.sql.runner import Limits, Outcome, SqlRunner
from evaluators.sql.text import NotOneStatement

__all__ = ["ExecutionAccuracy"]

_PROBE_SECONDS = 5.0


class ExecutionAccuracy(ProcessJudge):
    """Judge SQL by running it beside the gold query, read-only.

    A metric for ``dspy.Evaluate``, MIPROv2, GEPA and the rest: call it with an example that has
    ``db_id`` and ``query`` and a prediction that has ``sql`` (a bare statement, or a reply that
    holds one).

    Three scorings (:mod:`evaluators.sql.compare`): ``"repaired"``, the default: sets of rows,
    columns in order; ``"faithful"``: StreamBench's released code; ``"test_suite"``: the official
    script of Spider. Values compare as Python values: ``1 == 1.0``, ``1 != '1'``, floats exactly.

    A verdict is a :class:`~evaluators.judgement.Judgement` with

    * ``score``: 1.0, 0.0, or NaN when the gold query or the database is at fault;
    * ``feedback``: the first difference, or the error, in plain words;
    * ``informative``: False when the verdict counts but teaches nothing: both results are empty
      or a single NULL, or the data does not determine the gold answer
      (:mod:`evaluators.sql.gold`);
    * ``kind``: ``"match"``, ``"difference"``, ``"no statement"``, ``"multiple statements"``,
      ``"not judged"``, or what kept the query from a result: ``"sql"``, ``"forbidden"``,
      ``"no result"``, ``"timeout"``, ``"rows"``, ``"memory"``, ``"crash"``;
    * ``compare``, ``compare_version``: the scoring.

    Queries run in worker processes (:mod:`evaluators.sql.worker`), so nothing they do reaches
    this one. Any number of threads may share a judge; ``workers`` queries run at once. Gold
    results are kept for as long as the database file does not change.

    Args:
        databases: A folder that holds ``ID/ID.sqlite`` or ``ID.sqlite``, several such folders,
            or a mapping of database names to files.
        compare: Name of the scoring.
        timeout: CPU seconds for each query. One that gets too little CPU to use them up within
            four times that (and five seconds) is run once more, then *not judged*.
        max_rows: Rows of a result; a query that returns more is wrong.
        memory_mb: Megabytes that SQLite may allocate for a query.
        workers: Worker processes.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN. For ``dspy.Evaluate`` and
            optimizers that average scores, where one NaN spoils the mean: they count the
            exception as a failure.

    Raises:
        ValueError: An argument is out of range; when called, the example or the prediction
            lacks a field.
        EvaluationFailed: When called, with ``raises``: no verdict could be reached.
    """

    scorings = SCORINGS
    _runner: SqlRunner

    def __init__(
        self,
        databases: Databases,
        *,
        compare: str = "repaired",
        timeout: float = 30.0,
        max_rows: int = 100_000,
        memory_mb: int = 512,
        workers: int = 2,
        raises: bool = False,
    ) -> None:
        super().__init__(compare, raises=raises)
        for name, value in (
            ("timeout", timeout), ("max_rows", max_rows), ("memory_mb", memory_mb),
            ("workers", workers),
        ):  # fmt: skip
            if not value > 0:
                raise ValueError(f"{name} must be more than 0, got {value!r}.")
        self.databases = databases
        self.timeout = timeout
        self.max_rows = max_rows
        self.memory_mb = memory_mb
        self.workers = workers
        self._scoring = SCORINGS[compare]
        self._runner = SqlRunner(Limits(timeout, max_rows, memory_mb << 20), workers)
        self._golds = GoldCache()

    @property
    def compare_version(self) -> str:
        """Version of the scoring; verdicts of different versions are not comparable."""
        return self._scoring.version

    def missing(self, examples: Iterable[Any]) -> list[str]:
        """Return the databases of examples on which nothing can be judged, each with the reason.

        They are absent, cannot be read, or hold no row, so that every query agrees with the gold
        one. ``drpg sweep --dry-run`` asks for it.
        """
        lost = []
        for db_id in dict.fromkeys(str(_field(example, "db_id")) for example in examples):
            try:
                if not has_rows(locate(self.databases, db_id)):
                    lost.append(f"{db_id} (no rows)")
            except EvaluationFailed as error:
                lost.append(f"{db_id} ({error})")
        return lost

    def __repr__(self) -> str:
        return f"ExecutionAccuracy({self.databases!r}, compare={self.compare!r})"

    def _gold(self, db_id: str, query: str) -> Gold:
        path = locate(self.databases, db_id)
        fingerprint = check(path)
        gold = self._golds.get(fingerprint, query)
        if gold is not None:
            return gold
        sql = self._scoring.gold(query)
        outcome = self._runner.run(path, sql)
        if outcome.failure:
            raise EvaluationFailed(f"the gold query fails on {db_id}: {_failure(outcome)}")
        gold = Gold(path, sql, self._scoring.ordered(query), outcome)
        self._golds.put(fingerprint, query, gold)
        return gold

    def _judged(self, example: Any, prediction: Any) -> Judgement:
        db_id, query = _field(example, "db_id"), _field(example, "query")
        answer = prediction if isinstance(prediction, str) else _field(prediction, "sql")
        gold = self._gold(str(db_id), str(query))
        return self._judge(gold, "" if answer is None else str(answer))

    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        return self._verdict(math.nan, "not judged", feedback, informative=False)

    def _judge(self, gold: Gold, answer: str) -> Judgement:
        try:
            sql = self._scoring.statement(answer)
        except NotOneStatement as error:
            return self._verdict(0.0, error.reason, str(error))
        got = self._runner.run(gold.database, sql)
        if got.failure in ("database", "stalled"):
            raise EvaluationFailed(_failure(got))
        if got.failure:
            return self._verdict(0.0, got.failure, _failure(got))
        if self._scoring.agree(gold.outcome.rows, got.rows, ordered=gold.ordered):
            return self._match(gold, got)
        return self._difference(gold, got)

    def _match(self, gold: Gold, got: Outcome) -> Judgement:
        count = "row" if len(got.rows) == 1 else "rows"
        text = f"Correct: the {len(got.rows)} {count} expected."
        caveat = gold.vacuous(self._probe(gold.database))
        if caveat:
            text = f"Agrees with the expected result, but that proves nothing: {caveat}."
        return self._compared(gold, 1.0, "match", text, vacuous=bool(caveat))

    def _difference(self, gold: Gold, got: Outcome) -> Judgement:
        scoring = self._scoring
        text = difference(gold.outcome, got, scoring, ordered=gold.ordered)
        if scoring.empty_is_wrong and not gold.outcome.rows:
            text += " No query could have been right."
            return self._verdict(0.0, "difference", text, informative=False)
        if gold.ordered and scoring.agree(gold.outcome.rows, got.rows, ordered=False):
            reason = gold.undetermined_order(self._probe(gold.database))
            if reason:
                text += f" The expected order is not determined by the data: {reason}."
                return self._verdict(0.0, "difference", text, informative=False)
        return self._compared(gold, 0.0, "difference", text)

    def _compared(
        self, gold: Gold, score: float, kind: str, text: str, *, vacuous: bool = False
    ) -> Judgement:
        reason = gold.undetermined(self._probe(gold.database))
        if reason:
            text += f" The expected answer is not determined by the data: {reason}."
        return self._verdict(score, kind, text, informative=not reason and not vacuous)

    def _probe(self, database: Path) -> Any:
        return lambda sql: self._runner.run(database, sql, seconds=_PROBE_SECONDS)


def _field(record: Any, name: str) -> Any:
    value = getattr(record, name, _MISSING)
    if value is _MISSING:
        fields = ", ".join(record.keys()) if hasattr(record, "keys") else type(record).__name__
        raise ValueError(
            f"Execution accuracy needs an example with db_id and query and a prediction with "
            f"sql; {name!r} is missing from ({fields})."
        )
    return value


_MISSING = object()

_WORDS = {
    "sql": "SQL error: {}.",
    "forbidden": "Not read-only: {} is not allowed; only queries are.",
    "no result": "Not a query: {}.",
    "timeout": "Timeout: {}.",
    "rows": "Too large a result: {}.",
    "memory": "Too large: the query {}.",
    "crash": "The query crashed SQLite: {}.",
    "database": "the database is damaged or unreadable: {}.",
    "stalled": "the machine is too busy to run the query: {}.",
}


def _failure(outcome: Outcome) -> str:
    return _WORDS[outcome.failure].format(outcome.message.rstrip("."))
