"""BIRD: questions over large, untidy databases, with a hint on what their words mean.

Paper:      Li et al., "Can LLM Already Serve as a Database Interface? A BIg Bench for
            Large-Scale Database Grounded Text-to-SQLs", NeurIPS 2023. As a stream: Wu et al.,
            "StreamBench", 2024 (the 1,534 questions of dev), and DRPG.
Licence:    CC BY-SA 4.0.
Source:     https://bird-bench.github.io/ (``dev.zip``: ``dev_20240627/dev.json`` and, zipped
            once more, ``dev_databases/``); mini-dev: https://github.com/bird-bench/mini_dev
            (``minidev.zip``: ``MINIDEV/mini_dev_sqlite.json``, ``MINIDEV/dev_databases/``).
Sizes:      dev 1,534 questions on 11 databases (925 simple, 464 moderate, 145 challenging),
            mini_dev 500 on the same 11.
Example:    db_id      superhero
            db_schema  superhero(id INTEGER PRIMARY KEY, superhero_name TEXT, …) …
            evidence   blue eyes refers to colour = 'Blue' and eye_colour_id = colour.id;
            question   How many superheroes have blue eyes?
            query      SELECT COUNT(T1.id) FROM superhero AS T1 INNER JOIN colour AS T2 ON …
            difficulty simple
Metric:     execution accuracy (:mod:`evaluators.sql`), ``compare="repaired"`` version 1 unless
            asked otherwise: sets of rows, as in BIRD's own script; ``"faithful"`` is
            StreamBench's released code, ``"test_suite"`` Spider's official script.
Databases:  only questions whose database is present are loaded, and a warning says how many of
            how many, and which databases are missing. Their lines and ids stay those of the
            whole split.
Evidence:   shown unless ``evidence=False``: then examples have no such input, and the program,
            called without it, leaves the field out of the prompt. With it, the field is empty for
            the 148 questions of dev that have none. The prompts of StreamBench's code, which
            DRPG uses, do not show it.
            ``descriptions=True`` appends what BIRD's CSV files say of the columns to the schema:
            at most 300 characters a column and 12,000 a database, whole columns at a time; a
            last line counts what did not fit (nothing, in the published files).
Deviations: the schema is one line a table with types and keys, not the CREATE TABLE statements;
            examples are question and query, as in DRPG's code: neither schema nor evidence.
            The questions' ids are their numbers in the file, because mini_dev holds two of
            BIRD's own (137, 138) twice; those are kept as ``question_id``.

The data is looked for in the folder given, or in ``$DRPG_DATA``, ``../shared/data`` and
``data``; each may be BIRD's own folder, the one that a BIRD archive unpacks to, or hold it as
``bird``.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing, EvaluationFailed
from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.sql import SCORINGS, ExecutionAccuracy, schema_text
from evaluators.sql.database import locate
from programs import _sql
from programs._bird_columns import described_columns
from programs._files import Data, find_file, read_text

__all__ = ["BENCHMARK", "evaluator", "key", "load", "program", "read_predictions"]

_SPLITS: dict[str, tuple[str, ...]] = {
    "dev": ("dev.json", "dev_20240627/dev.json", "dev/dev.json"),
    "mini_dev": tuple(
        f"{folder}mini_dev_sqlite.json"
        for folder in ("", "MINIDEV/", "minidev/MINIDEV/", "mini_dev_data/", "minidev/")
    ),
}
_ARCHIVES = {"dev": "dev.zip", "mini_dev": "minidev.zip"}
_URL = "https://bird-bench.oss-cn-beijing.aliyuncs.com/"

_DESCRIPTION_CHARS = 12_000
_SEPARATOR = "\t----- bird -----"


class WriteSQL(dspy.Signature):
    """You write SQLite queries for questions about a database."""

    db_schema: str = dspy.InputField(desc="The tables: columns, types, keys.")
    examples: str = ShotsField()
    policy: str = PolicyField()
    evidence: str = dspy.InputField(desc="What words of the question mean; may be empty.")
    question: str = dspy.InputField()
    sql: str = dspy.OutputField(
        desc="One SQLite query that answers the question, returning exactly what it asks for. "
        "The query alone, without explanation."
    )


class BIRDProgram(dspy.Module):
    """One call: schema, evidence and question in, query out.

    Called without ``evidence`` it shows no field for it: one predictor, with one signature less
    that field.
    """

    def __init__(self) -> None:
        super().__init__()
        self.write_sql = dspy.Predict(WriteSQL)

    def forward(
        self, db_schema: str, question: str, evidence: str | None = None
    ) -> dspy.Prediction:
        """Answer one question."""
        if evidence is None:
            # As the predictor shows it now: optimizers and learners may have changed it.
            without = self.write_sql.signature.delete("evidence")
            return self.write_sql(db_schema=db_schema, question=question, signature=without)
        return self.write_sql(db_schema=db_schema, evidence=evidence, question=question)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "dev",
    exclude_db: Iterable[str] = (),
    limit: int | None = None,
    evidence: bool = True,
    descriptions: bool = False,
) -> list[dspy.Example]:
    """Read the questions of a split whose database is present, in its own order.

    Args:
        data: BIRD's folder, or one that holds it as ``bird``; ``None`` = look in the places
            named above.
        split: ``"dev"`` or ``"mini_dev"``.
        exclude_db: Databases whose questions are left out; none of them is called missing.
        limit: Keep the first so many of what remains.
        evidence: Show BIRD's hints; without them the prompt has no field for any.
        descriptions: Append the descriptions of the columns to the schema.

    Returns:
        Examples with the inputs ``db_schema``, ``evidence`` (unless it is not shown) and
        ``question``, the labels ``db_id``, ``query`` and ``difficulty``, BIRD's ``question_id``,
        a unique ``id`` such as ``"dev-0717"`` (counted from 1), and their ``line`` among the
        ``lines`` of the whole split.

    Raises:
        BenchmarkDataMissing: The data, all databases or a wanted description is not there; the
            message says what gets it.
        ValueError: An unknown split or database, a limit below 0, or a row without a field.
    """
    _sql.check_split("BIRD", split, _SPLITS)
    _sql.check_limit(limit)
    _sql.flag("evidence", evidence)
    _sql.flag("descriptions", descriptions)
    path = _file(data, split)
    rows = _checked_rows(path)
    asked = _sql.chosen([row["db_id"] for row in rows], split, exclude_db)
    schemas = _schemas(path, rows, asked, split)
    if descriptions:
        schemas = {db: f"{text}\n{_descriptions(path, db, split)}" for db, text in schemas.items()}
    return [
        dspy.Example(
            id=_sql.numbered_id(split, i + 1),
            question_id=rows[i].get("question_id"),
            db_id=rows[i]["db_id"],
            db_schema=schemas[rows[i]["db_id"]],
            **({"evidence": (rows[i].get("evidence") or "").strip()} if evidence else {}),
            question=rows[i]["question"],
            query=rows[i]["SQL"],
            difficulty=rows[i].get("difficulty"),
            line=i + 1,
            lines=len(rows),
        ).with_inputs("db_schema", *(["evidence"] if evidence else []), "question")
        for i in [i for i in asked if rows[i]["db_id"] in schemas][:limit]
    ]


def program() -> dspy.Module:
    """Return the program: one predictor; the evidence stands next to the question."""
    return BIRDProgram()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> ExecutionAccuracy:
    """Return the judge for the databases of a BIRD folder.

    Args:
        data: As for :func:`load`.
        compare: ``"repaired"``, ``"faithful"`` or ``"test_suite"``.
        options: Passed on to :class:`evaluators.sql.ExecutionAccuracy`.

    Raises:
        BenchmarkDataMissing: The folder has no databases.
    """
    path = _file(data, None)
    missing = f"{path.parent} holds no dev_databases/. {_get_it('dev')}"
    return _sql.judge(_databases(path), compare, options, missing)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the question alone."""
    return str(inputs["question"])


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    r"""Read predicted queries in any of three forms.

    * BIRD's own: one object ``{"0": "SQL\t----- bird -----\tDB", …}``, by the position of the
      question in the whole split, from 0;
    * one query a line, in the order of the whole split; a tab and the database's name after a
      query, as in ``dev_gold.sql``, are left off;
    * JSON lines ``{"id": …, "prediction": …}`` in any order.

    A query that is missing in the first or third form is wrong. What was predicted for
    questions that are not loaded is left out.

    Raises:
        ValueError: The file has another number of lines than the split, an unknown id or
            position, a query for another database than the question's, or cannot be read.
    """
    given = _submission(path)
    if given is not None:
        return [dspy.Prediction(sql=sql) for sql in _by_position(path, given, examples)]
    predictions = _sql.read_queries(path, examples)
    return [dspy.Prediction(sql=p.sql.removesuffix(_SEPARATOR)) for p in predictions]


BENCHMARK = Benchmark(
    name="bird",
    title="BIRD: text-to-SQL over large databases, with evidence",
    paper="Li et al., NeurIPS 2023",
    licence="CC BY-SA 4.0",
    metric="execution accuracy",
    k=16,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run bird``."""


# -- data -----------------------------------------------------------------------------------


def _get_it(split: str) -> str:
    archive = _ARCHIVES[split]
    return (
        f"Download {_URL}{archive}, unpack it and the dev_databases.zip in it, if there is one, "
        "where they lie, and pass its folder as --data, or set DRPG_DATA to it."
    )


def _file(data: Data, split: str | None) -> Path:
    wanted = [name for s in ([split] if split else _SPLITS) for name in _SPLITS[s]]
    what = f" ({split} split)" if split else ""
    get_it = _get_it(split or "dev")
    return find_file(data, "bird", wanted, title="BIRD", get_it=get_it, what=what)


def _databases(path: Path) -> list[Path]:
    """Return where the databases may be: beside the questions, or one folder up."""
    return [path.parent / "dev_databases", path.parent.parent / "dev_databases"]


def _checked_rows(path: Path) -> list[_sql.Row]:
    rows = _sql.rows_of(path)
    for number, row in enumerate(rows, 1):
        where = f"{path}, row {number}"
        for name in ("db_id", "question", "SQL"):
            _sql.text_field(row, name, where)
        _sql.text_field(row, "evidence", where, empty=True)
    return rows


def _schemas(
    path: Path, rows: Sequence[_sql.Row], asked: Sequence[int], split: str
) -> dict[str, str]:
    """Return the schemas of the databases that are there; say which are not."""
    databases = _databases(path)
    schemas: dict[str, str] = {}
    missing: dict[str, str] = {}
    for db_id in dict.fromkeys(rows[i]["db_id"] for i in asked):
        try:
            schemas[db_id] = schema_text(locate(databases, db_id))
        except EvaluationFailed as error:
            missing[db_id] = str(error)
    if not missing:
        return schemas
    if not schemas:
        raise BenchmarkDataMissing(
            f"BIRD's databases are not on this machine: {next(iter(missing.values()))} "
            f"{_get_it(split)}"
        )
    kept = sum(rows[i]["db_id"] in schemas for i in asked)
    names = ", ".join(sorted(missing))
    warnings.warn(
        f"BIRD {split}: {kept} of {len(asked)} questions are loaded. "
        f"{len(missing)} of {len(missing) + len(schemas)} databases are missing or unreadable in "
        f"{databases[0]}: {names}. {_get_it(split)}",
        stacklevel=3,
    )
    return schemas


# -- descriptions of columns ----------------------------------------------------------------


def _descriptions(path: Path, db_id: str, split: str) -> str:
    """Return what the CSV files say of a database's columns, one line each, within bounds."""
    lines: list[str] = []
    size = 0
    entries = described_columns(_description_folder(path, db_id, split))
    for count, line in enumerate(entries):
        size += len(line) + 1
        if size > _DESCRIPTION_CHARS:
            lines.append(f"({len(entries) - count} more columns are described, but not shown.)")
            break
        lines.append(line)
    return "\n".join(["Columns:", *lines])


def _description_folder(path: Path, db_id: str, split: str) -> Path:
    places = [folder / db_id / "database_description" for folder in _databases(path)]
    places += [home / "database_description" / db_id for home in (path.parent, path.parent.parent)]
    found = next((place for place in places if any(place.glob("*.csv"))), None)
    if found is None:
        raise BenchmarkDataMissing(
            f"BIRD's descriptions of {db_id} are not on this machine: no CSV file in "
            f"{places[0]} or {places[2]}. Load without descriptions, or: {_get_it(split)}"
        )
    return found


# -- predictions ----------------------------------------------------------------------------


def _submission(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the object of a file in BIRD's form, or None for another form."""
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return None
    try:
        given = json.loads(text)
    except ValueError:
        return None  # several lines of JSON
    return None if {"id", "prediction"} & given.keys() else given


def _by_position(
    path: str | os.PathLike[str], given: Mapping[str, Any], examples: Sequence[dspy.Example]
) -> list[str]:
    if not examples:
        return []
    total = examples[0].lines
    known = {str(position) for position in range(total)}
    if unknown := next((name for name in given if name not in known), None):
        raise ValueError(
            f"{path}: there is no question {unknown!r}; the positions of the {total} questions "
            f"are 0 to {total - 1}, in the order of the data set, whatever their question_id."
        )
    queries = []
    for example in examples:
        position = str(example.line - 1)
        answer = given.get(position)
        sql, _, db_id = (answer if isinstance(answer, str) else "").partition(_SEPARATOR)
        if db_id.strip() and db_id.strip() != example.db_id:
            raise ValueError(
                f"{path}, position {position}: a query for {db_id.strip()}, but question "
                f"{example.id} is about {example.db_id}. Positions count all questions of the "
                "split from 0, in its order."
            )
        queries.append(sql)
    return queries
