from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from drpg_dspy import DRPG, Comparison, SelfStreamICL, compare
from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.optimizers.offline import Offline
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.streaming import Budget
from drpg_dspy.testing.scripted import ScriptedLM

BUDGET = 40


class Setup:
    """A comparison ready to be called with a few changes."""

    def __init__(self, doubling: ModuleType) -> None:
        self.lm = ScriptedLM(doubling.reply)
        self.doubling = doubling
        self.said: list[str] = []

    def __call__(self, **changes: Any) -> Comparison:
        given: dict[str, Any] = {
            "program": dspy.Predict("question -> answer"),
            "trainset": self.doubling.examples(0, 10),
            "testset": self.doubling.examples(10, 22),
            "metric": self.doubling.metric,
            "budget": BUDGET,
            "optimizers": ["zero_shot", "drpg"],
            "lm": self.lm,
            "embedder": HashingEmbedder(32),
            "k": 4,
            "say": self.said.append,
        }
        return compare(**{**given, **changes})


@pytest.fixture
def setup(doubling: ModuleType) -> Setup:
    return Setup(doubling)


def test_every_column_answers_the_same_questions_and_is_tested_against_zero_shot(
    setup: Setup,
) -> None:
    found = setup(optimizers=["zero_shot", "self_stream_icl", "drpg", "gepa", "miprov2"])

    assert [summary.name for summary in found.columns] == [
        "zero_shot", "self_stream_icl", "drpg", "gepa", "miprov2",
    ]  # fmt: skip
    ids = {tuple(a.id for a in results[0].answers) for results in found.results.values()}
    assert ids == {tuple(f"q{n}" for n in range(10, 22))}
    assert found.column("zero_shot").score == 0.5
    assert found.column("drpg").score == 1.0
    (against,) = [t for t in found.tests if (t.first, t.second) == ("drpg", "zero_shot")]
    assert (against.n, against.difference) == (12, 0.5)
    assert (against.sign.only_first, against.sign.only_second) == (6, 0)
    assert against.interval[0] > 0
    assert len(found.tests) == 10  # each against each


def test_no_column_spends_more_than_the_budget_on_learning(setup: Setup) -> None:
    found = setup(optimizers=["drpg", "gepa", "miprov2", "gepa+drpg"], budget=25)

    assert all(summary.learning.calls <= 25 for summary in found.columns)
    together = sum(s.learning.calls + s.testing.calls for s in found.columns)
    assert len(setup.lm.prompts) == together
    (note,) = found.column("gepa").notes
    assert "25 LM calls is used up" in note
    assert "of 10 training examples" in note


def test_a_stream_that_runs_out_of_budget_says_how_far_it_came(setup: Setup) -> None:
    found = setup(optimizers=["zero_shot", "drpg"], budget=6)

    drpg = found.results["drpg"][0]
    assert drpg.learning.calls == 6
    assert drpg.steps < 10
    assert drpg.reached == f"{drpg.steps} of 10 questions met"
    assert len(drpg.answers) == 12


def test_online_columns_have_a_prequential_score_and_offline_ones_have_none(setup: Setup) -> None:
    found = setup(optimizers=["zero_shot", "drpg", "gepa"])

    assert found.column("zero_shot").prequential == 0.5
    assert found.column("drpg").prequential > 0.5
    assert math.isnan(found.column("gepa").prequential)


def test_a_budget_of_tokens_stops_after_the_call_that_crosses_it(setup: Setup) -> None:
    found = setup(optimizers=["zero_shot"], budget=Budget(tokens=300))

    spent = found.column("zero_shot").learning
    each = spent.tokens / spent.calls
    assert 300 <= spent.tokens < 300 + each + 1


def test_a_method_goes_on_from_a_compiled_program_on_what_is_left(setup: Setup) -> None:
    found = setup(optimizers=["gepa", "gepa+drpg"], budget=60)

    joined = found.results["gepa+drpg"][0]
    assert joined.learning.calls <= 60
    assert joined.steps > 0
    assert "instructions" in joined.kept
    assert "memory: " in joined.kept


def test_the_user_program_is_never_changed(setup: Setup) -> None:
    program = dspy.ChainOfThought("question -> answer")
    before = program.dump_state()

    setup(program=program, optimizers=["drpg", "gepa", "bootstrap_few_shot"])

    assert program.dump_state() == before
    assert type(program.predict) is dspy.Predict


def test_finished_columns_are_kept_and_new_ones_added(setup: Setup, tmp_path: Path) -> None:
    first = setup(folder=tmp_path, optimizers=["zero_shot", "drpg"])
    calls = len(setup.lm.prompts)

    second = setup(folder=tmp_path, optimizers=["zero_shot", "drpg"])
    assert len(setup.lm.prompts) == calls
    assert second.rows() == first.rows()

    third = setup(folder=tmp_path, optimizers=["zero_shot", "self_stream_icl"])
    assert len(setup.lm.prompts) == calls + 22
    assert list(third.results) == ["zero_shot", "self_stream_icl"]


def test_an_interrupted_comparison_goes_on_and_ends_as_if_it_had_not_been(
    setup: Setup, doubling: ModuleType, tmp_path: Path
) -> None:
    whole = Setup(doubling)(optimizers=["zero_shot", "drpg"], folder=tmp_path / "whole")
    played = 0

    def dying(messages: list[dict[str, str]]) -> str:
        nonlocal played
        played += 1
        if played in (5, 18, 40):
            raise KeyboardInterrupt
        return str(doubling.reply(messages))

    lm = ScriptedLM(dying)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            setup(lm=lm, folder=tmp_path / "cut")
    found = setup(lm=lm, folder=tmp_path / "cut")

    for name, results in whole.results.items():
        assert found.results[name][0].answers == results[0].answers
        assert found.results[name][0].learning.calls == results[0].learning.calls


def test_what_an_offline_optimizer_has_learned_is_not_paid_twice(
    setup: Setup, doubling: ModuleType, tmp_path: Path
) -> None:
    whole = Setup(doubling)(optimizers=["gepa"], budget=25)
    played = 0

    def dying(messages: list[dict[str, str]]) -> str:
        nonlocal played
        played += 1
        if played == 30:  # among the held-out questions
            raise KeyboardInterrupt
        return str(doubling.reply(messages))

    lm = ScriptedLM(dying)
    with pytest.raises(KeyboardInterrupt):
        setup(lm=lm, optimizers=["gepa"], budget=25, folder=tmp_path)
    found = setup(lm=lm, optimizers=["gepa"], budget=25, folder=tmp_path)

    assert found.results["gepa"][0].answers == whole.results["gepa"][0].answers
    assert found.results["gepa"][0].learning.calls == 25
    assert len(lm.prompts) == 25 + 12 + 1


def test_another_setting_in_the_same_folder_is_refused(setup: Setup, tmp_path: Path) -> None:
    setup(folder=tmp_path, optimizers=["zero_shot"])

    with pytest.raises(ResumeMismatch, match="budget"):
        setup(folder=tmp_path, optimizers=["zero_shot"], budget=99)
    with pytest.raises(ResumeMismatch, match="testset"):
        setup(folder=tmp_path, testset=setup.doubling.examples(10, 12))


def test_a_column_of_that_name_with_other_arguments_is_refused(
    setup: Setup, tmp_path: Path
) -> None:
    setup(folder=tmp_path, optimizers=[SelfStreamICL(k=2)])

    with pytest.raises(ResumeMismatch, match="optimizer"):
        setup(folder=tmp_path, optimizers=[SelfStreamICL(k=3)])


def test_a_column_that_fails_is_named_and_does_not_stop_the_others(setup: Setup) -> None:
    class Broken(dspy.teleprompt.Teleprompter):
        def compile(self, student: Any, *, trainset: Any, **_: Any) -> Any:
            raise RuntimeError("no such file")

    found = setup(optimizers={"broken": Offline(Broken()), "zero_shot": "zero_shot"})

    assert list(found.results) == ["zero_shot"]
    assert found.failed == {"broken": "RuntimeError: no such file"}
    assert "broken is missing: RuntimeError: no such file" in found.notes()


def test_a_dead_server_is_no_wrong_answer(setup: Setup, tmp_path: Path) -> None:
    def dead(messages: list[dict[str, str]]) -> str:
        raise ConnectionError("no route to host")

    found = setup(lm=ScriptedLM(dead), optimizers=["labeled_few_shot"], folder=tmp_path)

    assert found.results == {}
    assert "3 answers in a row failed" in found.failed["labeled_few_shot"]
    again = setup(lm=setup.lm, optimizers=["labeled_few_shot"], folder=tmp_path)
    assert again.column("labeled_few_shot").failed == 0


def test_seeds_repeat_everything_and_are_averaged_by_question(setup: Setup) -> None:
    found = setup(optimizers=["zero_shot", "drpg"], seeds=3)

    assert [result.seed for result in found.results["drpg"]] == [0, 1, 2]
    summary = found.column("drpg")
    assert summary.seeds == 3
    assert summary.score == pytest.approx(sum(r.score for r in found.results["drpg"]) / 3)
    assert not math.isnan(summary.spread)


def test_answers_without_a_verdict_add_nothing_and_are_left_out_of_the_tests(
    setup: Setup,
) -> None:
    def metric(example: Any, prediction: Any) -> float:
        if example.id == "q10":
            raise OSError("the database is gone")
        return float(prediction.answer == example.gold)

    found = setup(metric=metric, optimizers=["zero_shot", "drpg"])

    assert found.column("drpg").not_judged == 1
    assert found.column("drpg").score == pytest.approx(11 / 12)
    assert found.tests[0].n == 11


def test_the_files_hold_the_table_and_the_page_needs_nothing_else(
    setup: Setup, tmp_path: Path
) -> None:
    found = setup(folder=tmp_path, optimizers=["zero_shot", "drpg"], title="<b>Doubling</b>")

    page = (tmp_path / "index.html").read_text()
    assert "&lt;b&gt;Doubling&lt;/b&gt;" in page
    assert "<script" not in page
    assert "http" not in page
    assert setup.doubling.HINT in page
    assert "| drpg | 100.0 %" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "table.csv").read_text().startswith("method,held-out score")
    plain = json.loads((tmp_path / "comparison.json").read_text())
    assert plain["settings"]["budget"] == {"lm_calls": BUDGET}
    assert "drpg" in str(found)


def test_all_runs_stand_in_one_mlflow_experiment(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)  # where MLflow puts artifacts beside a database
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"

    found = setup(
        optimizers=["zero_shot", "drpg", "gepa"],
        folder=tmp_path / "out",
        experiment="doubling",
        tracking_uri=uri,
    )

    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("doubling")
    runs = client.search_runs([experiment.experiment_id])
    named = {run.info.run_name: run for run in runs}
    assert set(named) == {"zero_shot-0", "drpg-0", "gepa-0", "comparison"}
    for name in ("zero_shot", "drpg", "gepa"):
        run = named[f"{name}-0"]
        assert run.data.metrics["heldout_score"] == found.column(name).score
        assert run.data.metrics["learning_lm_calls"] == found.column(name).learning.calls
        assert run.info.run_id == found.results[name][0].run_id
        assert run.info.status == "FINISHED"
    files = {file.path for file in client.list_artifacts(named["comparison"].info.run_id)}
    assert files == {"index.html", "table.md", "table.csv", "comparison.json"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizers": ["drgp"]}, "There is no optimizer 'drgp'. Did you mean 'drpg'?"),
        ({"program": dspy.Module()}, "holds no predictor"),
        ({"optimizers": "drpg"}, "must be a list"),
        ({"optimizers": []}, "at least one column"),
        ({"optimizers": ["drpg", "drpg"]}, "Two columns are called drpg"),
        ({"optimizers": [DRPG(k=2), DRPG(k=4)]}, "name them apart"),
        ({"optimizers": ["drpg+gepa"]}, "first must learn offline"),
        ({"optimizers": ["mam_stream_icl"]}, "needs lms"),
        ({"optimizers": [dspy.MIPROv2]}, "An optimizer to compare is"),
        ({"budget": 0}, "budget"),
        ({"budget": "cheap"}, "number of LM calls"),
        ({"budget": True}, "number of LM calls"),
        ({"seeds": 0}, "seeds"),
        ({"testset": []}, "empty"),
        ({"program": lambda question: "1"}, "dspy.Module"),
        ({"metric": lambda prediction: True}, "A metric takes"),
        ({"lm": "openai/gpt-4o"}, "needs an LM"),
        ({"threads": 0}, "threads"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_paid_for(
    setup: Setup, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        setup(**changes)
    assert setup.lm.prompts == []


def test_held_out_questions_may_not_be_among_the_training_examples(setup: Setup) -> None:
    with pytest.raises(ValueError, match=r"2 held-out questions .*q8, q9"):
        setup(testset=setup.doubling.examples(8, 12))


@pytest.mark.parametrize("score", [None, "good", 7])
def test_a_metric_that_returns_no_score_is_named(setup: Setup, score: Any) -> None:
    found = setup(metric=lambda example, prediction: score, optimizers=["zero_shot", "gepa"])

    assert found.results == {}
    assert all("score" in reason for reason in found.failed.values())
