"""A run in MLflow: its curves, and every policy as a version of a registered prompt."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drpg_dspy.arguments import number, whole
from drpg_dspy.exceptions import missing_extra
from drpg_dspy.tracking import inspector
from drpg_dspy.tracking.base import RunInfo, StepRecord, Tracker
from drpg_dspy.tracking.charts import keyed, points
from drpg_dspy.tracking.handmade import RegistryReader
from drpg_dspy.tracking.jsonl import write_records
from drpg_dspy.tracking.linking import TraceLinks
from drpg_dspy.tracking.metrics import ROLLING_WINDOW
from drpg_dspy.tracking.prompts import PolicyRegistry, storable
from drpg_dspy.tracking.reach import answers
from drpg_dspy.tracking.traces import tag_current_trace
from drpg_dspy.types import CANDIDATE, Rollout

__all__ = ["MLflowTracker"]

_log = logging.getLogger(__name__)

_METRICS_PER_BATCH = 500  # MLflow takes 1,000 and a megabyte
_PARAMS_PER_BATCH = 100
_MAX_PARAM = 6_000
_FEWEST_JUDGED = 10
_BEST_TAG = "drpg.best"
_NOTE = """\
Policies of `{name}`, rewritten online from feedback by drpg-dspy.

* **Curves** (Model metrics, section *scores*): `prequential_score` is the mean so far, \
`rolling_score` that of the last 50 verdicts; the x axis is the step of the stream.
* **Policies** (Prompts, on the left): one prompt for each route; a version's commit message names \
its step and run. Compare shows differences in its Text view. A trace links to its version.
* **Steps** (Artifacts): `inspector.html` shows for any step what was retrieved, the policy, the \
answer and the verdict; `history.jsonl` holds everything.
"""


class MLflowTracker(Tracker):
    """Reports to MLflow: one run, one registered prompt for each route.

    * The run holds the settings as params and the figures of
      :class:`~drpg_dspy.tracking.metrics.RunningMetrics` as metrics, with the stream's step as
      step. It is found again by its id when the stream is resumed.
    * Each distinct new policy text becomes a version of the prompt ``NAME.ROUTE.policy``, with
      commit message, step, author, parent version, the experiences it came from, the score
      before it, and its run. Alias ``current`` is the version last in force, ``best`` the one in
      force when the rolling score peaked (over 50 verdicts; a shorter stream is decided at its
      end, from 10 verdicts on). ``champion`` is left to people.
    * A trace (``mlflow.dspy.autolog()``) links to the versions it was made under, and a version's
      page to its traces.
    * A version's page links to its run (the first 20, the best, the last and every
      ``link_every``-th; all others name it), and the run's page to the milestones.
    * At the end the whole history (``history.jsonl``) and a step inspector
      (``inspector.html``) become artifacts.

    The active run of the process is neither used nor touched, with autolog on or off.

    Args:
        experiment: Name of the MLflow experiment; made if need be.
        tracking_uri: Where MLflow keeps its data; ``None`` = where it would by itself
            (``mlflow.set_tracking_uri``, ``MLFLOW_TRACKING_URI``, else ``sqlite:///mlflow.db``).
        run_name: Shown for the run; ``""`` = the learner's or stream's name.
        link_every: Link every so many versions and the run to each other; never more than
            about 100 in all, which MLflow's run page can still show.
        artifacts: Attach history and inspector at the end.
        tags: More tags for the run.
        follow_every: Seconds until what people change by hand in the prompt registry (the alias
            ``champion``, a version of their own) stands in a running program; ``None`` = never.

    Raises:
        ImportError: MLflow is not installed; names the extra.
    """

    def __init__(
        self,
        experiment: str,
        *,
        tracking_uri: str | None = None,
        run_name: str = "",
        link_every: int = 100,
        artifacts: bool = True,
        tags: Mapping[str, str] | None = None,
        follow_every: float | None = 10.0,
    ) -> None:
        if not isinstance(experiment, str) or not experiment.strip():
            raise ValueError(f"MLflowTracker needs the name of an experiment, got {experiment!r}.")
        whole("link_every", link_every, 1)
        if follow_every is not None:
            number("follow_every (None = never)", follow_every, 0)
        try:
            import mlflow
        except ImportError as error:
            raise missing_extra("MLflowTracker", "mlflow", "mlflow") from error
        self.experiment = experiment
        self.tracking_uri = tracking_uri
        self.run_name = run_name
        self.link_every = link_every
        self.artifacts = artifacts
        self.tags = tags
        self.follow_every = follow_every
        self.name = run_name or experiment
        self.run_id = ""
        self._uri = str(tracking_uri or mlflow.get_tracking_uri())
        self._client: Any = None
        self._begun = ""
        self._registry: PolicyRegistry | None = None
        self._run = RunInfo("")
        self._best: dict[str, Any] = {}
        self._best_shown: dict[str, Any] = {}
        self._current: dict[str, int] = {}
        self._figures: Mapping[str, float] = {}
        self._fallback: dict[str, Any] = {}
        self._links = TraceLinks()

    @property
    def destination(self) -> str:
        """Experiment and address, without the password that an address may hold."""
        return f"mlflow:{self.experiment}@{_without_password(self._uri)}"

    def registry(self, name: str, routes: Sequence[str]) -> RegistryReader:
        """Return what reads the prompts of a learner."""
        return RegistryReader(self._uri, name, routes, lambda: bool(self.run_id))

    def reachable(self) -> bool:
        """Ask a server for its health; a database or folder is taken to be there."""
        return not self._uri.startswith(("http://", "https://")) or answers(self._uri)

    def on_rollout(self, rollout: Rollout) -> None:
        """Write policy versions and run into the trace that is open on this thread, if any.

        Where traces go to the same MLflow, it is linked to the versions later.
        """
        if tag_current_trace(rollout, run_id=self.run_id) and _traces_go_to(self._uri):
            self._links.note(rollout)

    def start(self, run: RunInfo) -> str:
        """Reopen the run named by the resume token, or begin a new one; return its id."""
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=self._uri)
        self._run = run
        # A start that failed half-way is repeated with the run that it made.
        found = self._find_run(run.resume_token or self._begun)
        if found is None:
            found = self._create_run(run)
            self._begun = found.info.run_id
        else:
            self._client.update_run(found.info.run_id, status="RUNNING")
        if found.info.run_id != run.resume_token:
            self._log_params(found.info.run_id, run.params)
        self._begun = ""
        self.run_id = found.info.run_id
        self._best = json.loads(found.data.tags.get(_BEST_TAG, "{}"))
        self._best_shown = self._best
        self._fallback = {}
        self._current = {}
        self._registry = PolicyRegistry(
            self._client,
            run.name,
            run_id=self.run_id,
            run_name=found.info.run_name,
            experiment_id=found.info.experiment_id,
            routes=run.routes,
            link_every=self.link_every,
        )
        return str(self.run_id)

    def write(self, records: Sequence[StepRecord]) -> None:
        """Register new policies, log metrics, and move aliases and links."""
        registry = self._started()
        try:
            for record in records:
                for policy in record.policies:
                    registry.register(policy, record)
            self._log_metrics(records)
            self._figures = records[-1].metrics if records else self._figures
            self._move_aliases(registry, records)
            self._links.send(self._client, registry.find)
        except BaseException:
            registry.forget()
            raise

    def finish(self, status: str) -> None:
        """Attach the artifacts, sum up, and end the run."""
        registry = self._started()
        try:
            if not self._best and self._fallback:
                self._best = self._fallback
            self._show_best(registry)
            best = self._best.get("versions", {})
            for route, version in [*best.items(), *self._current.items()]:
                registry.link_to_run(route, version)
            registry.link_from_run(best)
            if self._figures:  # nothing new, nothing to say: the description stays
                self._client.set_tag(self.run_id, "mlflow.note.content", self._note(registry))
            if self.artifacts:
                self._attach_history()
        finally:
            outcome = status.partition(":")[0]
            ends = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
            self._client.set_tag(self.run_id, "drpg.status", storable(status, 5_000))
            with _nothing_on_stdout():
                self._client.set_terminated(self.run_id, ends.get(outcome, "FINISHED"))
        self._links.send(self._client, registry.find, last=True)

    def _started(self) -> PolicyRegistry:
        if self._registry is None:
            raise ValueError("MLflowTracker is not started; call start() first.")
        return self._registry

    def _find_run(self, run_id: str) -> Any:
        """Return the run, or ``None`` when it never was or was deleted. A dead server raises."""
        from mlflow.exceptions import MlflowException

        if not run_id:
            return None
        try:
            found = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            found = None
        if found is None or found.info.lifecycle_stage != "active":
            _log.warning("MLflow run %s is gone; the whole history goes to a new run.", run_id)
            return None
        return found

    def _create_run(self, run: RunInfo) -> Any:
        from mlflow.tracking.context.registry import resolve_tags

        tags = {
            **resolve_tags(),
            "drpg.name": run.name,
            "mlflow.note.content": _NOTE.format(name=run.name),
            **(self.tags or {}),
        }
        return self._client.create_run(
            self._experiment_id(),
            run_name=storable(self.run_name or run.name, 250),
            tags={key: storable(str(value), 5_000) for key, value in tags.items()},
        )

    def _log_params(self, run_id: str, values: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [Param(k, storable(str(v), _MAX_PARAM)) for k, v in keyed(values).items()]
        for begin in range(0, len(params), _PARAMS_PER_BATCH):
            part = params[begin : begin + _PARAMS_PER_BATCH]
            self._client.log_batch(run_id, params=part, synchronous=True)

    def _experiment_id(self) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(self.experiment)
        if found is None:
            try:
                return str(self._client.create_experiment(self.experiment))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self._client.get_experiment_by_name(self.experiment)
        if found.lifecycle_stage != "active":
            raise ValueError(
                f"The MLflow experiment {self.experiment!r} was deleted. Restore it "
                f"(mlflow experiments restore -x {found.experiment_id}) or name another one."
            )
        return str(found.experiment_id)

    def _log_metrics(self, records: Sequence[StepRecord]) -> None:
        metrics = points(records)
        for begin in range(0, len(metrics), _METRICS_PER_BATCH):
            part = metrics[begin : begin + _METRICS_PER_BATCH]
            self._client.log_batch(self.run_id, metrics=part, synchronous=True)

    def _move_aliases(self, registry: PolicyRegistry, records: Sequence[StepRecord]) -> None:
        current = self._current
        for record in records:
            given = record.rollout.guidance.policies.values()
            used = {policy.place: policy.version for policy in given if policy.rules}
            if record.kind == "rollout":
                current |= used
            made = [one for one in record.policies if not one.message.startswith(CANDIDATE)]
            current |= {policy.place: policy.version for policy in made}
            self._judge_best(record, used)
        for route, version in current.items():
            registry.set_alias("current", route, version)
        self._show_best(registry)
        registry.link_from_run(self._best.get("versions", {}))

    def _judge_best(self, record: StepRecord, used: Mapping[str, int]) -> None:
        score = record.metrics.get("rolling_score")
        judged = record.metrics.get("judged", 0)
        if record.feedback is None or score is None or not used or judged < _FEWEST_JUDGED:
            return
        found = {"rolling_score": score, "step": record.rollout.step, "versions": dict(used)}
        if judged >= ROLLING_WINDOW:
            if score > self._best.get("rolling_score", -1.0):
                self._best = found
        elif score > self._fallback.get("rolling_score", -1.0):
            self._fallback = found

    def _show_best(self, registry: PolicyRegistry) -> None:
        if self._best == self._best_shown:
            return
        for route, version in self._best["versions"].items():
            registry.set_alias("best", route, version)
        self._client.set_tag(self.run_id, _BEST_TAG, json.dumps(self._best))
        self._best_shown = self._best

    def _attach_history(self) -> None:
        title = f"{self.run_name or self._run.name}: step by step"
        with tempfile.TemporaryDirectory(prefix="drpg-") as folder:
            history = Path(folder, "history.jsonl")
            write_records(history, self._run.history(), self.run_id)
            self._client.log_artifact(self.run_id, str(history))
            page = Path(folder, "inspector.html")
            page.write_text(self._page(title), encoding="utf-8")
            self._client.log_artifact(self.run_id, str(page))

    def _note(self, registry: PolicyRegistry) -> str:
        """Return the run's description, with its result in front."""
        figures, lines = self._figures, []
        if "prequential_score" in figures:
            lines.append(
                f"**{figures['prequential_score']:.3f}** mean score over "
                f"{figures['judged']:,.0f} judged steps"
            )
        for route, version in self._best.get("versions", {}).items():
            number = registry.number(route, version)
            if number is not None:
                lines.append(
                    f"best at step {self._best['step']}: rolling score "
                    f"{self._best['rolling_score']:.3f} under `{registry.prompts[route]}` "
                    f"version {number}"
                )
        head = "; ".join(lines)
        return storable("\n\n".join([head, _NOTE.format(name=self._run.name)]).strip(), 5_000)

    def _page(self, title: str) -> str:
        return inspector.render(self._run.history(), title, threshold=self._run.threshold)


@contextmanager
def _nothing_on_stdout() -> Iterator[None]:
    """Keep MLflow from printing the run's address: stdout belongs to the program (``--json``)."""
    name = "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _traces_go_to(uri: str) -> bool:
    import mlflow

    return str(mlflow.get_tracking_uri()).rstrip("/") == uri.rstrip("/")


def _without_password(uri: str) -> str:
    return re.sub(r"//[^/@]*@", "//", uri)
