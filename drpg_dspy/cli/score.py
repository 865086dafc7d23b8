"""``drpg score``: judge a file of predictions, without any LM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.layout import emit_json, share
from drpg_dspy.cli.names import BENCHMARK, OUTPUT_FILE

if TYPE_CHECKING:
    from drpg_dspy.scoring import ScoreReport
    from drpg_dspy.types import Benchmark

__all__ = ["score"]


@click.command(cls=Command)
@click.argument("benchmark", type=BENCHMARK)
@click.option("--data", type=click.Path(path_type=Path), help="The benchmark's data folder.")
@click.option(
    "--predictions",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="One prediction a row, in the order of the examples.",
)
@click.option("--compare", help="The scoring, e.g. repaired, faithful or test_suite.")
@click.option("--exclude-db", multiple=True, metavar="DB", help="Leave out a database; repeatable.")
@click.option(
    "--load",
    "load",
    multiple=True,
    metavar="KEY=VALUE",
    help="An argument of the benchmark's loader; repeatable.",
)
@click.option("--split", help="The part of the data that was predicted, e.g. dev or test.")
@click.option(
    "--rows",
    type=OUTPUT_FILE,
    help="Also write one verdict a row to this JSONL file.",
)
@click.option("--workers", type=click.IntRange(1), help="Processes that judge side by side.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def score(
    benchmark: str,
    data: Path | None,
    predictions: Path,
    compare: str | None,
    exclude_db: tuple[str, ...],
    split: str | None,
    load: tuple[str, ...],
    rows: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Score a file of predictions on BENCHMARK.

    The score is a share of all rows, from 0 to 1. Rows that could not be judged (a missing
    database, a query without end) add nothing to it and are counted apart as not judged; rows
    without a prediction are judged as no answer, and counted too. IFEval and IFBench score what
    the file answers, and no more; the others are counted as missing.

    \b
    Example:
      drpg score spider --data ../data --predictions dail_sql_gpt4.txt
      drpg score spider --data ../data --predictions dail_sql_gpt4.txt \\
          --exclude-db wta_1 --compare test_suite --rows verdicts.jsonl --json

    Next: read the verdict of each row in the file of --rows, or compare with drpg run.
    """
    from drpg_dspy.cli import names
    from drpg_dspy.cli.loading import checked
    from drpg_dspy.cli.methods import read_pairs
    from drpg_dspy.scoring import score_predictions

    found = checked(names.benchmark(benchmark))
    report = score_predictions(
        found,
        data,
        predictions,
        compare=names.compare_of(found, compare),
        exclude_db=exclude_db,
        split=split,
        load=read_pairs("--load", load),
        rows_path=rows,
        **({} if workers is None else {"workers": workers}),
    )
    if as_json:
        emit_json(_as_plain(report), line=True)
        return
    for line in _lines(report, found):
        click.echo(line)
    if rows is not None:
        click.echo(f"Verdicts: {rows}")


def _as_plain(report: ScoreReport) -> dict[str, Any]:
    return {
        "benchmark": report.benchmark,
        "score": report.score,
        "n": report.n,
        "correct": report.correct,
        "not_judged": report.not_judged,
        "missing": report.missing,
        "uninformative": report.uninformative,
        "compare": report.compare,
        "compare_version": report.compare_version,
        **(
            {"subscores": dict(report.subscores), "subscores_n": dict(report.subscores_n)}
            if report.subscores
            else {}
        ),
    }


def _lines(report: ScoreReport, benchmark: Benchmark) -> Iterator[str]:
    yield f"{benchmark.title}: {benchmark.metric} {share(report.score)}"
    counts = "counts" if report.not_judged == 1 else "count"
    lost = f" ({counts} as wrong)" if report.not_judged else ""
    yield f"{report.correct} right of {report.n}, {report.not_judged} not judged{lost}"
    if report.missing:
        out = f"; {report.left_out} of them are not in the score" if report.left_out else ""
        yield f"{report.missing} without a prediction{out}"
    if report.uninformative:
        count = (
            "verdict counts but proves" if report.uninformative == 1 else "verdicts count but prove"
        )
        yield f"{report.uninformative} {count} nothing; --rows says which and why"
    for name, value in report.subscores.items():
        yield f"{name}: {share(value)} on average over {report.subscores_n[name]}"
    if report.compare:
        version = f", version {report.compare_version}" if report.compare_version else ""
        yield f"scoring: {report.compare}{version}"
