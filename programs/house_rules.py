"""House rules: text-to-SQL in a company whose conventions only feedback reveals.

Brinewood Coffee, an invented roaster with a web shop and eight cafés, asks about its data. The
schemas are honest but silent: that ``amount`` holds cents, that an order with the status ``X``
was cancelled, or that the fiscal year starts in April is known to the people who review the
answers and to nobody else. Seven such conventions recur and combine, so what one wrong answer
teaches helps with many later questions on all three databases. About one question in three
needs none of them, or asks for the opposite ("deleted ones too"): a policy that over-reaches
loses there.

Paper:      none; written for this project.
Licence:    Apache-2.0, databases and questions alike.
Source:     the package itself: :mod:`programs.house_rules_data`. Nothing is downloaded.
Sizes:      230 questions on 3 SQLite databases (webshop, roastery, cafes) of 320 to 540 rows.
Example:    db_id     cafes
            db_schema cafe(id INTEGER PRIMARY KEY, name TEXT, …, rent INTEGER) …
            question  What is the total rent of all cafés?
            query     SELECT SUM(rent) / 100.0 FROM cafe
            note      Report euros: rent holds cents, divide it by 100.0.
Metric:     execution accuracy (:mod:`evaluators.sql`), ``compare="repaired"`` unless asked
            otherwise. When an answer is wrong, the feedback opens with the ``note``: what a
            reviewer at the company would write. ``"test_suite"`` ignores the order of columns
            and with it one of the conventions.
Version:    1; a change of rows, questions or queries raises it.
Deviations: none.

The conventions, as the data names them: ``cents`` (money is stored in cents, reported in
euros), ``cancelled`` (status ``X`` does not count), ``deleted`` (rows with a ``deleted_at`` do
not count), ``dates`` (text ``YYYYMMDD``), ``fiscal_year`` (April to March, named after the year
in which it starts), ``full_name`` (a person is one column), ``column_order`` (columns stand in
the order in which the question names them).

The databases are built on first use in ``$DRPG_HOME/house_rules-v1``, or in the user's cache.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import dspy
import platformdirs

from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.judgement import Judgement
from evaluators.sql import SCORINGS, ExecutionAccuracy, schema_text
from programs._files import answers_by_id, lines_in_order, read_text
from programs.house_rules_data.databases import VERSION, build_all

__all__ = [
    "BENCHMARK",
    "ORACLE_POLICY",
    "Review",
    "databases",
    "evaluator",
    "key",
    "load",
    "program",
    "read_pairs",
    "read_predictions",
]

ORACLE_POLICY = """\
- For counts per group put the number first: SELECT COUNT(*), city.
- People's names are one column: first_name || ' ' || last_name.
- Days are text. October 2024 is day LIKE '202410%'. \
Fiscal 2023 is day BETWEEN '20230401' AND '20240331', \
fiscal 2024 is day BETWEEN '20240401' AND '20250331'.
- Money is in cents. Divide price, amount, cost, rent, wage and fee by 100.0 to show euros.
- In customer, product, supplier and staff never count deleted rows: deleted_at IS NULL.
- In orders, delivery and booking never count cancelled rows: status <> 'X'.
"""
"""What a perfect learner would find: a mark for how far one fixed policy can help, never shown to
a run. Its wording was tried on the first 24 questions of the stream order with seed 42, with a
1.5 B model that follows "never count …" far better than "add … if …"."""


class WriteSQL(dspy.Signature):
    """Write one SQLite query that answers the question and follows the policy, if any."""

    db_schema: str = dspy.InputField(desc="The tables of the database.")
    examples: str = ShotsField()
    policy: str = PolicyField()
    question: str = dspy.InputField()
    sql: str = dspy.OutputField(desc="One SQLite query, nothing else.")


class HouseRules(dspy.Module):
    """One call: schema and question in, query out."""

    def __init__(self) -> None:
        super().__init__()
        self.write_sql = dspy.Predict(WriteSQL)

    def forward(self, db_schema: str, question: str) -> dspy.Prediction:
        """Answer one question."""
        return self.write_sql(db_schema=db_schema, question=question)


class Review(ExecutionAccuracy):
    """Execution accuracy, and a colleague's word on every wrong answer.

    A wrong answer's ``feedback`` is the example's ``note``, a blank line, and the first
    difference that the judge found. Where no convention is at stake, and on right answers, the
    judge speaks alone. Everything else is as in
    :class:`evaluators.sql.ExecutionAccuracy`.
    """

    def __call__(
        self,
        example: Any,
        prediction: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Judgement:
        """Judge one prediction; the last three arguments are for DSPy's optimizers."""
        verdict = super().__call__(example, prediction, trace, pred_name, pred_trace)
        if verdict.score == 0.0 and example.conventions:
            verdict.feedback = f"{example.note}\n\n{verdict.feedback}"
        return verdict


def load(
    data: str | os.PathLike[str] | None = None, *, limit: int | None = None
) -> list[dspy.Example]:
    """Return the questions, and build the databases where they are not there yet.

    Their order mixes databases and conventions, so that every beginning of it, as of the
    stream order with seed 42, meets each convention about as often as the whole does.

    Args:
        data: Not looked at: the benchmark brings its own data.
        limit: Keep the first so many.

    Returns:
        Examples with the inputs ``db_schema`` and ``question``, the labels ``db_id``, ``query``
        and ``note``, the names of the ``conventions`` that the answer depends on, a unique
        ``id`` such as ``"webshop-017"``, and their ``line`` among the ``lines`` of the whole.

    Raises:
        ValueError: A negative limit.
        StorageError: The databases cannot be written; the message says what helps.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    schemas = {db_id: schema_text(path) for db_id, path in databases().items()}
    pairs = read_pairs()
    return [
        dspy.Example(
            id=pair["id"],
            db_id=pair["db_id"],
            db_schema=schemas[pair["db_id"]],
            question=pair["question"],
            query=pair["query"],
            note=pair["note"],
            conventions=list(pair["conventions"]),
            line=line,
            lines=len(pairs),
        ).with_inputs("db_schema", "question")
        for line, pair in enumerate(pairs[:limit], 1)
    ]


def program() -> dspy.Module:
    """Return the program: one predictor, the schema first so that a prefix cache can hold it."""
    return HouseRules()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> Review:
    """Return the judge with the reviewer's notes.

    Args:
        data: Not looked at, as in :func:`load`.
        compare: ``"repaired"``, ``"faithful"`` or ``"test_suite"``.
        options: Passed on to :class:`evaluators.sql.ExecutionAccuracy`.
    """
    return Review(databases(), compare=compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the question alone."""
    return str(inputs["question"])


def databases() -> dict[str, Path]:
    """Return the database files by name; they are built, or mended, where that is needed.

    Raises:
        StorageError: They cannot be written; the message says what helps.
    """
    return build_all(_home() / f"house_rules-v{VERSION}")


@functools.cache
def read_pairs() -> tuple[Mapping[str, Any], ...]:
    """Return the pairs as written: ``id``, ``db_id``, ``question``, ``query``, ``naive``, ….

    ``naive`` is what a competent reader of the schema alone would write. It gives the result of
    ``query`` exactly where ``conventions`` is empty.
    """
    text = resources.files("programs.house_rules_data").joinpath("pairs.jsonl").read_text("utf-8")
    return tuple(json.loads(line) for line in text.splitlines())


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted queries in either of two forms.

    * JSON lines ``{"id": …, "prediction": …}`` in any order;
    * one query a line, in the order of the whole benchmark (:func:`load` without a limit).

    An example without a prediction in the first form gets an empty one, which is wrong.

    Raises:
        ValueError: The file cannot be read, a line is neither form, an id is unknown or comes
            twice, or a file of bare queries has another number of lines than the benchmark.
    """
    pairs = read_pairs()
    if read_text(path).lstrip().startswith("{"):
        given = answers_by_id(path, [pair["id"] for pair in pairs])
        return [dspy.Prediction(sql=str(given[example.id])) for example in examples]
    lines = lines_in_order(path, len(pairs))
    return [dspy.Prediction(sql=lines[example.line - 1]) for example in examples]


BENCHMARK = Benchmark(
    name="house_rules",
    title="House rules: text-to-SQL in a company whose conventions only feedback reveals",
    paper="none; written for this project",
    licence="Apache-2.0",
    metric="execution accuracy",
    k=4,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run house_rules``."""


def _home() -> Path:
    if home := os.environ.get("DRPG_HOME"):
        return Path(home).expanduser()
    return Path(platformdirs.user_cache_dir("drpg-dspy", False))
