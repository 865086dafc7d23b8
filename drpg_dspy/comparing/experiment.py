"""A comparison in MLflow: one experiment, a run for each column, and one for the whole."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drpg_dspy.comparing.results import ColumnResult
from drpg_dspy.tracking import MLflowTracker, Tracker

if TYPE_CHECKING:
    from drpg_dspy.comparing.comparison import Comparison

__all__ = ["log_column", "log_comparison", "tracker_for"]

_log = logging.getLogger(__name__)

_COLUMN_TAG = "drpg.comparison.column"
_LONGEST = 5_000


def tracker_for(experiment: str, uri: str | None, run_name: str) -> Tracker | None:
    """Return the tracker of an online column's stream; ``None`` without an experiment."""
    if not experiment:
        return None
    return MLflowTracker(experiment, tracking_uri=uri, run_name=run_name)


def log_column(
    result: ColumnResult, experiment: str, uri: str | None, params: Mapping[str, Any], folder: Path
) -> str:
    """Write a finished column's figures into its run; return the run's id, ``""`` if not written.

    An online column has a run from its stream already. A store that is away is said in the log;
    the column is finished all the same.
    """
    if not experiment:
        return ""
    run_id = result.run_id
    with _told(f"column {result.name}"):
        client = _client(uri)
        run_id = run_id or _new_run(client, experiment, f"{result.name}-{result.seed}")
        client.set_tag(run_id, _COLUMN_TAG, result.name)
        for name, value in {"column": result.name, "seed": result.seed, **params}.items():
            client.log_param(run_id, f"comparison.{name}", str(value)[:_LONGEST])
        for name, number in _figures(result).items():
            if math.isfinite(number):
                client.log_metric(run_id, name, number)
        client.set_tag(run_id, "drpg.stopped", result.stopped[:_LONGEST] or "no")
        for file in ("program.json", "heldout.jsonl"):
            if (folder / file).exists():
                client.log_artifact(run_id, str(folder / file))
        client.set_terminated(run_id, "FINISHED")
    return run_id


def log_comparison(
    comparison: Comparison, experiment: str, uri: str | None, files: list[Path]
) -> str:
    """Write the table and the page into a run of their own; return its id."""
    run_id = ""
    with _told("comparison"):
        client = _client(uri)
        run_id = _new_run(client, experiment, "comparison")
        client.set_tag(run_id, "mlflow.note.content", comparison.markdown()[:_LONGEST])
        for summary in comparison.columns:
            name = summary.name.replace("+", "-then-")
            client.log_metric(run_id, f"heldout_score.{name}", summary.score)
        for file in files:
            client.log_artifact(run_id, str(file))
        client.set_terminated(run_id, "FINISHED")
    return run_id


def _figures(result: ColumnResult) -> dict[str, float]:
    return {
        "heldout_score": result.score,
        "heldout_not_judged": sum(math.isnan(answer.score) for answer in result.answers),
        "heldout_failed": sum(answer.failed for answer in result.answers),
        "comparison_prequential": result.prequential,
        "learning_lm_calls": result.learning.calls,
        "learning_tokens": result.learning.tokens,
        "learning_dollars": result.learning.cost,
        "learning_seconds": result.learning_seconds,
        "testing_lm_calls": result.testing.calls,
        "testing_tokens": result.testing.tokens,
        "testing_dollars": result.testing.cost,
        "testing_seconds": result.testing_seconds,
    }


def _client(uri: str | None) -> Any:
    import mlflow

    return mlflow.MlflowClient(tracking_uri=str(uri or mlflow.get_tracking_uri()))


def _new_run(client: Any, experiment: str, name: str) -> str:
    found = client.get_experiment_by_name(experiment)
    id = found.experiment_id if found is not None else client.create_experiment(experiment)
    return str(client.create_run(id, run_name=name).info.run_id)


@contextmanager
def _told(what: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError) as error:
        _log.warning("MLflow was not told of the %s: %s: %s", what, type(error).__name__, error)
