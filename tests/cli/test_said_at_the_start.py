"""What ``drpg run`` and ``drpg sweep`` say before the first question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from drpg_dspy.cli import embedders, learners
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.retrieval.embedder import BGE

Drpg = Callable[..., Result]
LM = "scripted/tiny_bench:calculator"
RUN = ("run", "tiny_bench:BENCHMARK", "--lm", LM, "--no-mlflow", "--limit", "2")


@pytest.fixture
def without_bge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the default embedder be another than the papers'."""
    monkeypatch.delenv("DRPG_EMBEDDER", raising=False)
    monkeypatch.setattr(learners, "resolve_embedder", lambda spec: HashingEmbedder())
    monkeypatch.setattr(embedders.weights, "hub_refusal", lambda model: "nobody answers")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda model, file: None)


@pytest.mark.usefixtures("without_bge")
def test_a_run_says_which_embedder_it_has_when_it_is_not_the_default(drpg: Drpg) -> None:
    said = drpg(*RUN, "--name", "first").stderr

    (line,) = [line for line in said.splitlines() if line.startswith("embedder:")]
    assert f"hashing:256, because {BGE}, the default, is not on this machine" in line
    # Going on asks for what the run was made with, which is no surprise.
    assert "embedder:" not in drpg("resume", "first", "--limit", "3").stderr


@pytest.mark.usefixtures("without_bge")
def test_the_environment_is_named_where_it_chose(
    drpg: Drpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRPG_EMBEDDER", "hashing:64")

    assert "embedder: hashing:64, because DRPG_EMBEDDER says so" in drpg(*RUN).stderr


def test_an_embedder_that_was_asked_for_is_not_announced(drpg: Drpg) -> None:
    assert "embedder:" not in drpg(*RUN, "--embedder", "hashing").stderr


@pytest.mark.usefixtures("without_bge")
def test_a_sweep_says_it_once_for_the_runs_it_starts(drpg: Drpg, workdir: Path) -> None:
    text = 'benchmark = "tiny_bench:BENCHMARK"\nmlflow = false\nlimit = 2\n'
    for name in ("a", "b"):
        (workdir / f"{name}.toml").write_text(text)

    said = drpg("sweep", "a.toml", "b.toml", "--lm", LM, "--dry-run").stderr

    assert said.count("embedder: minilm, because") == 1
    told = drpg("sweep", "a.toml", "--lm", LM, "--dry-run", "--embedder", "hashing").stderr
    assert "embedder:" not in told


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("--set", "k=5"), "2 wrong and 3 right cases"),
        (("--k", "1"), "0 wrong and 1 right cases"),
        (("--set", "k=4"), ""),
        (("--set", "k=5", "--set", "contrast=wrong"), ""),
        (("--set", "k=5", "--optimizer", "self_stream_icl"), ""),
    ],
)
def test_an_odd_k_is_said_to_be_split(drpg: Drpg, settings: tuple[str, ...], said: str) -> None:
    told = drpg(*RUN, "--embedder", "hashing", *settings).stderr

    assert told.count("is odd") == bool(said)
    assert said in told
