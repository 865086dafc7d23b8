"""CoSQL: conversations about a database, each turn answered with one SQLite query.

Paper:      Yu et al., "CoSQL: A Conversational Text-to-SQL Challenge Towards Cross-Domain
            Natural Language Interfaces to Databases", EMNLP 2019. As a stream: Wu et al.,
            "StreamBench", 2024 (the 1,007 turns of dev), and DRPG.
Licence:    CC BY-SA 4.0, as the data's page states; the repository (taoyds/cosql) names none.
Source:     https://yale-lily.github.io/cosql (``cosql_dataset.zip``):
            ``sql_state_tracking/cosql_dev.json``, ``tables.json``, ``database/``. The databases
            are Spider's, whose folder will do as well.
Sizes:      dev 1,007 turns of 293 conversations on 20 databases, train 7,343 of 2,164.
Example:    db_id     concert_singer
            db_schema stadium(Stadium_ID INT PRIMARY KEY, Location TEXT, …) …
            history   User: please list the singers | did you mean list their names? | yes
                      SQL: SELECT name FROM singer
            question  can you also give number of concerts for each singer
            query     SELECT T2.name , count ( * ) FROM singer_in_concert AS T1 JOIN …
Metric:     execution accuracy of single turns (:mod:`evaluators.sql`), ``compare="repaired"``
            version 1 unless asked otherwise; ``"faithful"`` is StreamBench's released code,
            ``"test_suite"`` the official script on one database.
History:    the earlier turns of the same conversation with their *gold* queries, never the
            turn's own, so that each turn can be answered alone, whatever the learner answered
            before. ``gold_history=False`` shows the earlier questions only, the setting of the
            official task. The bars in a turn part the user's words from the expert's question
            back and the user's reply to it.
Order:      examples come in the order of the data, turn after turn. Runs shuffle *turns*
            (seed 42), as StreamBench and DRPG do: the turns of a conversation lie far apart,
            and a later one may come first. Nothing is lost by that, since the history
            travels with the turn; but such a history holds the gold query of a turn that is
            still to come. Therefore it is not part of :func:`key`, and with it of neither the
            examples nor the cases that a policy writer reads: they are the turn's question and
            the query given for it, as in DRPG. A question like "what are their ages?" is a poor
            example without its history; that is the price.
Deviations: the released code shows one ``question`` string, whose making is not released; that
            history and question are two fields is ours. The files are tokenised: operators
            that came apart (``! =``, ``> =``, ``< =``; in 24 gold queries of dev) are joined again
            outside of literals, as the official script does too, and runs of blanks and line
            breaks are one blank, in questions as well. The schema is one line a table, as for
            Spider.
Note:       one gold query of dev (car_1, ``… countryid = 3 )``) is no SQL and stays *not
            judged*. In the rebuilt databases of ``../shared/data`` the tables of ``wta_1`` have
            no rows: leave its turns out with ``exclude_db=["wta_1"]``. They stay in unless
            asked, so that ``n`` is the published size.

The data is looked for in the folder given, or in ``$DRPG_DATA``, ``../shared/data`` and
``data``; each may be CoSQL's own folder or hold it as ``cosql``. Databases are taken from
``database/`` there, from a folder ``spider`` beside it, or from where Spider would be found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.sql import SCORINGS, ExecutionAccuracy, detokenised
from programs import _sql
from programs._files import Data, find_file, folders

__all__ = ["BENCHMARK", "evaluator", "key", "load", "program", "read_predictions"]

_SPLITS = ("dev", "train")
_TRACKING = "sql_state_tracking"
_GET_IT = (
    "Download cosql_dataset.zip from https://yale-lily.github.io/cosql, unpack it, and pass the "
    "folder cosql_dataset as --data, or set DRPG_DATA to it."
)


class WriteSQL(dspy.Signature):
    """You write SQLite queries for the questions of a conversation about a database."""

    db_schema: str = dspy.InputField(desc="The tables: columns, types, keys.")
    examples: str = ShotsField()
    policy: str = PolicyField()
    history: str = dspy.InputField(
        desc="The conversation so far, which the question may refer to; empty at its beginning."
    )
    question: str = dspy.InputField()
    sql: str = dspy.OutputField(
        desc="One SQLite query that answers the question, returning exactly what it asks for. "
        "The query alone, without explanation."
    )


class CoSQLProgram(dspy.Module):
    """One call: schema, conversation and question in, query out."""

    def __init__(self) -> None:
        super().__init__()
        self.write_sql = dspy.Predict(WriteSQL)

    def forward(self, db_schema: str, question: str, history: str = "") -> dspy.Prediction:
        """Answer one turn."""
        return self.write_sql(db_schema=db_schema, history=history, question=question)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "dev",
    exclude_db: Iterable[str] = (),
    limit: int | None = None,
    gold_history: bool = True,
) -> list[dspy.Example]:
    """Read the turns of a split in its own order.

    Args:
        data: CoSQL's folder, or one that holds it as ``cosql``; ``None`` = look in the places
            named above.
        split: ``"dev"`` or ``"train"``.
        exclude_db: Databases whose turns are left out.
        limit: Keep the first so many of what remains.
        gold_history: Show the gold queries of the earlier turns, not only their questions.

    Returns:
        Examples with the inputs ``db_schema``, ``history`` and ``question``, the labels
        ``db_id`` and ``query``, a unique ``id`` such as ``"dev-0017"`` (turns counted from 1),
        the numbers of their ``dialogue`` in the split and of the ``turn`` in it (from 1), and
        their ``line`` among the ``lines`` of the whole split.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: An unknown split or database, a limit below 0, or a row without a field.
    """
    _sql.check_split("CoSQL", split, _SPLITS)
    _sql.check_limit(limit)
    _sql.flag("gold_history", gold_history)
    path = _file(data, split)
    turns = list(_turns(path, gold_history))
    databases = _databases(path, data)
    tables = [folder / "tables.json" for folder in (_root(path), *(d.parent for d in databases))]
    schemas = _sql.Schemas(databases, tables, _GET_IT)
    return [
        dspy.Example(
            **turns[i],
            id=_sql.numbered_id(split, i + 1),
            db_schema=schemas[turns[i]["db_id"]],
            line=i + 1,
            lines=len(turns),
        ).with_inputs("db_schema", "history", "question")
        for i in _sql.chosen([turn["db_id"] for turn in turns], split, exclude_db, limit)
    ]


def program() -> dspy.Module:
    """Return the program: one predictor; the conversation stands next to the question."""
    return CoSQLProgram()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> ExecutionAccuracy:
    """Return the judge for the databases of CoSQL, which are Spider's.

    Args:
        data: As for :func:`load`.
        compare: ``"repaired"``, ``"faithful"`` or ``"test_suite"``.
        options: Passed on to :class:`evaluators.sql.ExecutionAccuracy`.

    Raises:
        BenchmarkDataMissing: There are no databases.
    """
    path = _file(data, None)
    databases = _databases(path, data)
    looked = ", ".join(map(str, databases))
    missing = f"CoSQL has no databases here: there is no folder {looked}. {_GET_IT}"
    return _sql.judge(databases, compare, options, missing)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the turn's question alone."""
    return str(inputs["question"])


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted queries in either of two forms.

    * one a line, in the order of the whole split, conversations set apart by empty lines or
      not; a tab and the database's name after a query are left off;
    * JSON lines ``{"id": …, "prediction": …}`` in any order. A missing one is wrong.

    The lines of examples that were left out when loading are left out as well. Operators that
    came apart are joined as in the gold queries (``> =``; never inside a literal), because the
    official evaluation does so.

    Raises:
        ValueError: The file has another number of lines than the split or an unknown id, or
            cannot be read.
    """
    return _sql.read_queries(path, examples, blocks=True, tokenised=True)


BENCHMARK = Benchmark(
    name="cosql",
    title="CoSQL: text-to-SQL in conversations",
    paper="Yu et al., EMNLP 2019",
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
"""All of it, for ``drpg run cosql``."""


def _file(data: Data, split: str | None) -> Path:
    names = [f"cosql_{s}.json" for s in ([split] if split else _SPLITS)]
    homes = ("", f"{_TRACKING}/", f"cosql_dataset/{_TRACKING}/")
    wanted = [home + name for name in names for home in homes]
    what = f" ({split} split)" if split else ""
    return find_file(data, "cosql", wanted, title="CoSQL", get_it=_GET_IT, what=what)


def _root(path: Path) -> Path:
    return path.parent.parent if path.parent.name == _TRACKING else path.parent


def _databases(path: Path, data: Data) -> list[Path]:
    """Return where the databases may be, CoSQL's own first."""
    root = _root(path)
    homes = [root, root.parent / "spider", *folders(data, "spider"), *folders(None, "spider")]
    return list(dict.fromkeys(home / "database" for home in homes))


def _turns(path: Path, gold_history: bool) -> Iterator[dict[str, Any]]:
    for number, dialogue in enumerate(_sql.rows_of(path), 1):
        where = f"{path}, row {number}"
        db_id = _sql.text_field(dialogue, "database_id", where)
        interaction = dialogue.get("interaction")
        if not isinstance(interaction, list) or not interaction:
            raise ValueError(
                f"{where}: 'interaction' must be a list of turns, got {interaction!r:.80}."
            )
        history: list[str] = []
        for turn_number, turn in enumerate(interaction, 1):
            place = f"{where}, turn {turn_number}"
            if not isinstance(turn, dict):
                raise ValueError(f"{place}: expected an object, got {turn!r:.80}.")
            question = " ".join(_sql.text_field(turn, "utterance", place).split())
            query = detokenised(_sql.text_field(turn, "query", place))
            yield {
                "db_id": db_id,
                "dialogue": number,
                "turn": turn_number,
                "history": "\n".join(history),
                "question": question,
                "query": query,
            }
            history.append(f"User: {question}")
            if gold_history:
                history.append(f"SQL: {query}")
