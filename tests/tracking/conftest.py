from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule, Usage


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SQLiteMemory]:
    """A run's memory; trackers only read its history, so it needs no embedder."""
    with closing(SQLiteMemory(tmp_path / "memory.db")) as memory:
        yield memory


@pytest.fixture
def play() -> Callable[..., None]:
    """Return what plays steps into a memory: a rollout with a policy, and its verdict."""

    def step(
        memory: SQLiteMemory, n: int, *, score: float | None = None, rules: tuple[str, ...] = ()
    ) -> Rollout:
        texts = rules or (f"Rule number {n}.",)
        policy = Policy("predict", tuple(Rule(t) for t in texts))
        rollout = memory.record(
            Rollout(
                id=f"r{n:04}",
                step=n,
                inputs={"question": f"question {n}"},
                outputs={"answer": f"answer {n}"},
                guidance=Guidance(
                    policies={"predict": policy}, usage=Usage(1, 30, 5), counts={"odd": n % 2}
                ),
                usage=Usage(1, 100, 10),
                created_at=1.7e9 + n,
                seconds=0.25,
            )
        )
        value = float(n % 3 != 0) if score is None else score
        memory.commit(rollout.id, Feedback(value, f"verdict {n}"))
        return rollout

    return step


@pytest.fixture(scope="session")
def mlflow_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database whose tables were made once: that takes seconds."""
    mlflow = pytest.importorskip("mlflow")
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    mlflow.MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def mlflow_uri(mlflow_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty MLflow store of this test's own; artifacts go to its folder."""
    monkeypatch.chdir(tmp_path)  # MLflow puts the artifacts of a database store under ./mlruns
    monkeypatch.setattr(
        "mlflow.tracking.fluent._active_experiment_id", None
    )  # of a test before, in its store
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
    shutil.copy(mlflow_template, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"
