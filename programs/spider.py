"""Spider: questions over databases of many domains, answered with one SQLite query.

Paper:      Yu et al., "Spider: A Large-Scale Human-Labeled Dataset for Complex and Cross-Domain
            Semantic Parsing and Text-to-SQL Task", EMNLP 2018. As a stream: Wu et al.,
            "StreamBench", 2024 (Spider's 2,147 test questions), and DRPG.
Licence:    the repository (taoyds/spider) is Apache-2.0; the data set is published as
            CC BY-SA 4.0.
Source:     https://yale-lily.github.io/spider (``spider_data.zip``): ``dev.json``,
            ``tables.json``, ``database/``; for the test split ``test.json``,
            ``test_tables.json``, ``test_database/``.
Sizes:      test 2,147 questions on 40 databases, dev 1,034 on 20, train 8,659 on 146.
Example:    db_id     concert_singer
            db_schema stadium(Stadium_ID INT PRIMARY KEY, Location TEXT, …) …
            question  How many singers do we have?
            query     SELECT count(*) FROM singer
Metric:     execution accuracy (:mod:`evaluators.sql`), ``compare="repaired"`` version 1 unless
            asked otherwise; ``"faithful"`` is StreamBench's released code, ``"test_suite"`` the
            official script on one database.
Deviations: the schema is one line a table with types and keys, not the CREATE TABLE statements
            (37 % fewer characters over dev); shots are question and query, as in DRPG's code. The
            default split is dev, whose data can be had without the test databases.
Note:       in the rebuilt databases of ``../shared/data`` the tables of ``wta_1`` have no rows:
            leave its 62 questions out with ``exclude_db=["wta_1"]``. They stay in unless asked,
            so that ``n`` is the published size; their agreements are mostly uninformative.

The data is looked for in the folder given, or in ``$DRPG_DATA``, ``../shared/data`` and
``data``; each may be Spider's own folder or hold it as ``spider``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.sql import SCORINGS, ExecutionAccuracy
from programs import _sql
from programs._files import Data, find_folder

__all__ = ["BENCHMARK", "evaluator", "key", "load", "program", "read_predictions"]

# Files of questions (only the first must exist), of schemas, and folders of databases.
_SPLITS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "dev": (("dev.json",), ("tables.json",), ("database", "test_database")),
    "test": (
        ("test.json", "test_data/dev.json"),
        ("test_tables.json", "test_data/tables.json", "tables.json"),
        ("test_database", "database"),
    ),
    "train": (("train_spider.json",), ("tables.json",), ("database",)),
}
_GET_IT = (
    "Download spider_data.zip from https://yale-lily.github.io/spider, unpack it, and pass its "
    "folder as --data, or set DRPG_DATA to it."
)


class WriteSQL(dspy.Signature):
    """You write SQLite queries for questions about a database."""

    db_schema: str = dspy.InputField(desc="The tables: columns, types, keys.")
    examples: str = ShotsField()
    policy: str = PolicyField()
    question: str = dspy.InputField()
    sql: str = dspy.OutputField(
        desc="One SQLite query that answers the question, returning exactly what it asks for. "
        "The query alone, without explanation."
    )


class SpiderProgram(dspy.Module):
    """One call: schema and question in, query out."""

    def __init__(self) -> None:
        super().__init__()
        self.write_sql = dspy.Predict(WriteSQL)

    def forward(self, db_schema: str, question: str) -> dspy.Prediction:
        """Answer one question."""
        return self.write_sql(db_schema=db_schema, question=question)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "dev",
    exclude_db: Iterable[str] = (),
    limit: int | None = None,
) -> list[dspy.Example]:
    """Read a split in its own order.

    Args:
        data: Spider's folder, or one that holds it as ``spider``; ``None`` = look in the places
            named above.
        split: ``"dev"``, ``"test"`` or ``"train"``.
        exclude_db: Databases whose questions are left out.
        limit: Keep the first so many of what remains.

    Returns:
        Examples with the inputs ``db_schema`` and ``question``, the labels ``db_id`` and
        ``query``, a unique ``id`` such as ``"dev-0017"`` (counted from 1), and their line among
        the ``lines`` of the whole split.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: An unknown split or database, a limit below 0, or a row without a field.
    """
    _sql.check_split("Spider", split, _SPLITS)
    _sql.check_limit(limit)
    folder = _folder(data, split)
    rows = _rows(folder, split)
    _, tables, databases = _SPLITS[split]
    schemas = _sql.Schemas(
        [folder / name for name in databases], [folder / name for name in tables], _GET_IT
    )
    return [
        dspy.Example(
            id=_sql.numbered_id(split, i + 1),
            db_id=rows[i]["db_id"],
            db_schema=schemas[rows[i]["db_id"]],
            question=rows[i]["question"],
            query=rows[i]["query"],
            line=i + 1,
            lines=len(rows),
        ).with_inputs("db_schema", "question")
        for i in _sql.chosen([row["db_id"] for row in rows], split, exclude_db, limit)
    ]


def program() -> dspy.Module:
    """Return the program: one predictor; the prompt's parts in the paper's order."""
    return SpiderProgram()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> ExecutionAccuracy:
    """Return the judge for the databases of a Spider folder.

    Args:
        data: As for :func:`load`.
        compare: ``"repaired"``, ``"faithful"`` or ``"test_suite"``.
        options: Passed on to :class:`evaluators.sql.ExecutionAccuracy`.

    Raises:
        BenchmarkDataMissing: The folder has no databases.
    """
    folder = _folder(data, None)
    databases = [folder / name for name in ("database", "test_database")]
    missing = f"{folder} holds no database/ or test_database/. {_GET_IT}"
    return _sql.judge(databases, compare, options, missing)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the question alone."""
    return str(inputs["question"])


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted queries in either of two forms.

    * one a line, in the order of the whole split; a tab and the database's name after a query,
      as in Spider's gold files, are left off;
    * JSON lines ``{"id": …, "prediction": …}`` in any order. A missing one is wrong.

    The lines of examples that were left out when loading are left out as well. Operators that
    came apart are joined (``> =``; never inside a literal), because the official evaluation
    does so.

    Raises:
        ValueError: The file has another number of lines than the split or an unknown id, or
            cannot be read.
    """
    return _sql.read_queries(path, examples, tokenised=True)


BENCHMARK = Benchmark(
    name="spider",
    title="Spider: text-to-SQL over databases of many domains",
    paper="Yu et al., EMNLP 2018",
    licence="CC BY-SA 4.0 (data), Apache-2.0 (repository)",
    metric="execution accuracy",
    k=16,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run spider``."""


def _folder(data: Data, split: str | None) -> Path:
    wanted = [name for s in ([split] if split else _SPLITS) for name in _SPLITS[s][0]]
    what = f" ({split} split)" if split else ""
    return find_folder(data, "spider", wanted, title="Spider", get_it=_GET_IT, what=what)


def _rows(folder: Path, split: str) -> list[_sql.Row]:
    paths = [next(folder / name for name in _SPLITS[split][0] if (folder / name).is_file())]
    if split == "train" and (folder / "train_others.json").is_file():
        paths.append(folder / "train_others.json")
    rows: list[_sql.Row] = []
    for path in paths:
        for number, row in enumerate(_sql.rows_of(path), 1):
            for name in ("db_id", "question", "query"):
                _sql.text_field(row, name, f"{path}, row {number}")
            rows.append(row)
    return rows
