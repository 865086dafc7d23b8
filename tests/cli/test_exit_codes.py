"""The rule between 1 and 2: a value that cannot be used is wrong usage and names its option."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from drpg_dspy.cli import cli, learners
from drpg_dspy.exceptions import ModelNotFound
from drpg_dspy.streaming import RunFolder

Drpg = Callable[..., Result]
TINY = "tiny_bench:BENCHMARK"
LM = "scripted/tiny_bench:calculator"
RUN = ("run", TINY, "--lm", LM, "--embedder", "hashing", "--no-mlflow", "--name", "second")
ICL = (*RUN, "--optimizer", "self_stream_icl")
PLAIN = (*RUN, "--optimizer", "zero_shot")


@pytest.fixture
def first(run: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run of two steps, a file of one prediction, and no model or data anywhere."""
    run("--limit", "2")
    (workdir / "said.txt").write_text("2 units\n")
    monkeypatch.setenv("DRPG_HOME", str(workdir / "models"))
    monkeypatch.delenv("DRPG_DATA", raising=False)


WRONG = [
    # arguments of an optimizer
    ((*RUN, "--set", "foo=1"), "--set", "drpg takes no argument 'foo'"),
    ((*RUN, "--set", "k=abc"), "--set", "k must be a whole number of at least 1, got 'abc'"),
    ((*RUN, "--set", "k=-1"), "--set", "got -1"),
    ((*RUN, "--set", "k=2.5"), "--set", "got 2.5"),
    ((*RUN, "--set", "k"), "--set", "Expected KEY=VALUE"),
    ((*RUN, "--set", "shots=many"), "--set", "got 'many'"),
    ((*RUN, "--set", "contrast=sideways"), "--set", "got 'sideways'"),
    ((*RUN, "--set", "contrast=[1]"), "--set", "got [1]"),
    ((*RUN, "--set", "use_feedback=maybe"), "--set", "got 'maybe'"),
    ((*RUN, "--set", "writer=cas"), "--set", "Did you mean 'case'?"),
    ((*RUN, "--set", "writer=3"), "--set", "There is no policy writer '3'"),
    ((*ICL, "--set", "k=abc"), "--set", "k must be a whole number of at least 1, got 'abc'"),
    ((*ICL, "--set", "k=-1"), "--set", "got -1"),
    ((*ICL, "--set", "kk=3"), "--set", "Did you mean 'k'?"),
    ((*ICL, "--policy-lm", LM), "--policy-lm", "self_stream_icl has no LM of its own"),
    ((*PLAIN, "--set", "foo=1"), "--set", "It takes none."),
    ((*PLAIN, "--k", "3"), "--k", "zero_shot takes no argument 'k'"),
    ((*RUN, "--k", "0"), "--k", "0"),
    # what is run, and by whom
    (("run", "tiny_bench:NOT_A_BENCHMARK", "--lm", LM), "BENCHMARK", "found 42"),
    (("run", "tiny_bench:NOTHING", "--lm", LM), "BENCHMARK", "has no 'NOTHING'"),
    ((*RUN, "--optimizer", "drgp"), "--optimizer", "Did you mean 'drpg'?"),
    ((*RUN, "--lm", "local/UNKNOWN"), "--lm", "Unknown model 'UNKNOWN'"),
    ((*RUN, "--lm", "gpt-4.1-mini"), "--lm", "names no provider"),
    ((*RUN, "--lm", "openai/gpt-5-mini"), "--temperature", "temperature=1.0"),
    ((*RUN, "--lm", "scripted/tiny_bench:no_model"), "--lm", "returned 42"),
    ((*RUN, "--lm", "scripted/nowhere:lm"), "--lm", "no module 'nowhere'"),
    ((*RUN, "--policy-lm", "local/UNKNOWN"), "--policy-lm", "Unknown model 'UNKNOWN'"),
    ((*RUN, "--embedder", "hashing:abc"), "--embedder", "'hashing:abc'"),
    ((*RUN, "--embedder", "hashing:0"), "--embedder", "got 0"),
    (("demo", "--lm", "local/UNKNOWN", "--no-mlflow"), "--lm", "Unknown model 'UNKNOWN'"),
    # data, order, limits, names
    (("run", "spider", "--lm", LM, "--data", "nowhere"), "--data", "no dev.json in"),
    (("run", "house_rules", "--lm", LM, "--split", "dev"), "--split", "takes no argument 'split'"),
    ((*RUN, "--compare", "lose"), "--compare", "Did you mean 'loose'?"),
    ((*RUN, "--seed", "-1"), "--seed", "-1"),
    ((*RUN, "--limit", "0"), "--limit", "0"),
    ((*RUN, "--budget-dollars", "nan"), "--budget-dollars", "nan"),
    ((*RUN, "--name", "a/b"), "--name", "'a/b'"),
    ((*RUN, "--name", "first"), "--name", "--overwrite"),
    # a run that exists
    (("resume", "first", "--limit", "1"), "--limit", "2 steps were made already"),
    (("resume", "frist"), "NAME", "Did you mean 'first'?"),
    (("show", "first", "--step", "99"), "--step", "it has steps 1, 2"),
    (("show", "first", "--html", "nowhere/x.html"), "--html", "no folder 'nowhere'"),
    (("policy", "log", "first", "--route", "slef"), "--route", "Did you mean 'self'?"),
    (("policy", "show", "first", "self@9"), "ROUTE[@VERSION]", "it has 1."),
    (("feedback", "first", "99", "--score", "1"), "ROLLOUT", "it has steps 1, 2"),
    (("feedback", "first", "nobody", "--score", "1"), "ROLLOUT", "nobody"),
    (("feedback", "first", "1", "--score", "7"), "--score", "[0, 1]"),
    (("memory", "reindex", "first", "--embedder", "hashing:abc"), "--embedder", "'hashing:abc'"),
    (("memory", "reindex", "frist", "--embedder", "hashing"), "NAME", "'first'"),
    # predictions
    (("score", "spider", "--predictions", "said.txt", "--data", "nowhere"), "--data", "dev.json"),
    (("score", TINY, "--predictions", "said.txt", "--compare", "lose"), "--compare", "'loose'"),
    (("score", TINY, "--predictions", "none.txt"), "--predictions", "none.txt"),
    (("score", TINY, "--predictions", "said.txt", "--rows", "no/x"), "--rows", "no folder 'no'"),
    (("score", "house_rules", "--predictions", "said.txt", "--split", "dev"), "--split", "takes"),
]  # fmt: skip

FAILED = [
    ((*RUN, "--lm", "local/smollm2-135m"), "drpg lm pull smollm2-135m"),
    (("run", "spider", "--lm", LM, "--no-mlflow"), "no dev.json in"),
    (("score", TINY, "--predictions", "said.txt"), ""),
]


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(("arguments", "option", "said"), WRONG, ids=lambda value: str(value)[-50:])
def test_a_value_that_cannot_be_used_exits_with_2_names_its_option_and_makes_no_run(
    drpg: Drpg, workdir: Path, arguments: tuple[str, ...], option: str, said: str
) -> None:
    result = drpg(*arguments, exit_code=2)

    message = " ".join(result.stderr.partition("Error: ")[2].split())
    assert f"'{option}'" in message
    assert said in message
    assert "--debug" not in message
    assert result.stdout == ""
    assert [path.name for path in (workdir / ".drpg" / "runs").iterdir()] == ["first"]


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(("arguments", "said"), FAILED, ids=lambda value: str(value)[-50:])
def test_work_that_goes_wrong_under_a_right_command_exits_with_1(
    drpg: Drpg, arguments: tuple[str, ...], said: str
) -> None:
    result = drpg(*arguments, exit_code=1)

    assert result.stderr.partition("Error: ")[2].strip()
    assert said in result.stderr
    assert "Invalid value" not in result.stderr


def test_a_run_in_use_is_no_wrong_usage(run: Drpg) -> None:
    run("--limit", "1")

    with RunFolder.open("first").lock():
        assert "is running" in run("--overwrite", exit_code=1).stderr


def test_an_embedder_that_was_named_and_cannot_be_loaded_is_wrong_usage_and_a_default_is_not(
    run: Drpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: Any, **__: Any) -> Any:
        raise ModelNotFound("the hub does not answer")

    monkeypatch.setattr(learners, "resolve_embedder", nowhere)
    monkeypatch.setattr(learners.weights, "pull", nowhere)
    monkeypatch.delenv("DRPG_EMBEDDER", raising=False)

    assert "'--embedder'" in run("--embedder", "someone/model", exit_code=2).stderr
    assert "Invalid value" not in run("--embedder", "default", exit_code=1).stderr
    assert "Invalid value" not in run("--embedder", "minilm", exit_code=1).stderr
    monkeypatch.setenv("DRPG_EMBEDDER", "someone/model")
    assert "DRPG_EMBEDDER=someone/model" in run("--embedder", "default", exit_code=2).stderr


def test_debug_shows_what_is_behind_a_wrong_value(workdir: Path) -> None:
    result = CliRunner().invoke(cli, [*RUN, "--set", "k=abc", "--debug"])

    assert isinstance(result.exception, ValueError)
    assert "got 'abc'" in str(result.exception)
