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

import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing, EvaluationFailed
from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.sql import SCORINGS, ExecutionAccuracy, schema_text, table_line
from evaluators.sql.database import locate, quoted
from programs._files import Data, find_folder, lines_in_order

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
        ValueError: An unknown split or database, or a negative limit.
    """
    if split not in _SPLITS:
        raise ValueError(f"Spider has the splits {', '.join(_SPLITS)}; got {split!r}.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    excluded = {exclude_db} if isinstance(exclude_db, str) else set(exclude_db)
    folder = _folder(data, split)
    rows = _rows(folder, split)
    known = {row["db_id"] for row in rows}
    if unknown := excluded - known:
        raise ValueError(
            f"exclude_db names {', '.join(sorted(unknown))}, of which the {split} split has no "
            f"questions; its databases are {', '.join(sorted(known))}."
        )
    kept = [(i, row) for i, row in enumerate(rows, 1) if row["db_id"] not in excluded]
    schemas = _Schemas(folder, split)
    return [
        dspy.Example(
            id=f"{split}-{line:04d}",
            db_id=row["db_id"],
            db_schema=schemas[row["db_id"]],
            question=row["question"],
            query=row["query"],
            line=line,
            lines=len(rows),
        ).with_inputs("db_schema", "question")
        for line, row in kept[:limit]
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
    databases = [
        folder / name for name in ("database", "test_database") if (folder / name).is_dir()
    ]
    if not databases:
        raise BenchmarkDataMissing(f"{folder} holds no database/ or test_database/. {_GET_IT}")
    return ExecutionAccuracy(databases, compare=compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the question alone."""
    return str(inputs["question"])


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted queries, one a line, in the order of the whole split.

    A tab and the database's name after a query, as in Spider's gold files, are left off. The
    lines of examples that were left out when loading are left out as well.

    Raises:
        ValueError: The file has another number of lines than the split, or cannot be read.
    """
    if not examples:
        return []
    lines = lines_in_order(path, examples[0].lines)
    return [dspy.Prediction(sql=_query(lines[ex.line - 1], ex.db_id)) for ex in examples]


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


class _Schemas(dict[str, str]):
    """Schema text by database, from the database itself or, without it, from the tables file."""

    def __init__(self, folder: Path, split: str) -> None:
        super().__init__()
        _, tables, databases = _SPLITS[split]
        self.databases = [folder / name for name in databases]
        self.tables = [folder / name for name in tables]

    def __missing__(self, db_id: str) -> str:
        try:
            self[db_id] = schema_text(locate(self.databases, db_id))
        except EvaluationFailed as error:
            entry = next((t[db_id] for t in map(_tables, self.tables) if db_id in t), None)
            if entry is None:
                raise BenchmarkDataMissing(
                    f"No schema for {db_id}: {error} None of "
                    f"{', '.join(p.name for p in self.tables)} describes it either. {_GET_IT}"
                ) from error
            self[db_id] = _described(entry)
        return self[db_id]


def _folder(data: Data, split: str | None) -> Path:
    wanted = [name for s in ([split] if split else _SPLITS) for name in _SPLITS[s][0]]
    what = f" ({split} split)" if split else ""
    return find_folder(data, "spider", wanted, title="Spider", get_it=_GET_IT, what=what)


def _rows(folder: Path, split: str) -> list[dict[str, Any]]:
    path = next(folder / name for name in _SPLITS[split][0] if (folder / name).is_file())
    paths = [path]
    if split == "train" and (folder / "train_others.json").is_file():
        paths.append(folder / "train_others.json")
    return [row for p in paths for row in json.loads(p.read_text(encoding="utf-8"))]


@functools.lru_cache(maxsize=4)
def _tables(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    return {entry["db_id"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}


def _described(entry: Mapping[str, Any]) -> str:
    """Write an entry of the tables file the way of ``schema_text``."""
    names: Sequence[str] = entry["table_names_original"]
    columns: Sequence[tuple[int, str]] = entry["column_names_original"]
    # A composite key is a list in newer releases, and several numbers in older ones.
    primary = {n for k in entry["primary_keys"] for n in (k if isinstance(k, list) else [k])}
    foreign: dict[int, str] = {}
    for source, target in entry["foreign_keys"]:
        table, column = columns[target]
        foreign.setdefault(source, f"{quoted(names[table])}({quoted(column)})")
    lines = []
    for index, table_name in enumerate(names):
        own = [(n, c) for n, (table, c) in enumerate(columns) if table == index]
        lines.append(
            table_line(
                table_name,
                [(column, str(entry["column_types"][n]).upper()) for n, column in own],
                [column for n, column in own if n in primary],
                {column: foreign[n] for n, column in own if n in foreign},
            )
        )
    return "\n".join(lines)


def _query(line: str, db_id: str) -> str:
    query, tab, name = line.rpartition("\t")
    return query if tab and name.strip() == db_id else line
