from __future__ import annotations

import importlib.machinery
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import weights
from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, OnlineOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.scoring import score_predictions
from drpg_dspy.streaming import run_stream
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.types import OPEN_FIELD
from programs import hotpotqa

SMALL = "smollm2-135m"


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "_id": f"q{number}",
        "question": f"Where was writer {number} born?",
        "answer": f"Town {number}",
        "supporting_facts": [[f"Writer {number}", 0]],
        "context": [
            [f"Writer {number}", [f"Writer {number} was born in Town {number}.", " He\u2028left."]],
            ["Moon", ["The moon is far away."]],
        ],
        "type": "bridge",
        "level": "hard",
        **changes,
    }


def on_the_hub(number: int) -> dict[str, Any]:
    plain = row(number)
    titles, sentences = zip(*plain["context"], strict=True)
    return {
        **{name: plain[name] for name in ("question", "answer", "type", "level")},
        "id": plain["_id"],
        "context": {"title": list(titles), "sentences": list(sentences)},
        "supporting_facts": {"title": [f"Writer {number}"], "sent_id": [0]},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the official dev file."""
    rows = [row(n) for n in range(1, 7)]
    (tmp_path / "hotpot_dev_distractor_v1.json").write_text(json.dumps(rows))
    return tmp_path


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "hotpotqa" / "dev_distractor_first500.jsonl").is_file():
        pytest.skip("needs the HotpotQA data: set DRPG_DATA to the folder that holds hotpotqa/")
    return place


# -- loading ------------------------------------------------------------------------------------


def test_examples_show_context_and_question_and_hide_the_labels(folder: Path) -> None:
    example = hotpotqa.load(folder)[1]
    assert dict(example.inputs().items()) == {
        "context": "Writer 2: Writer 2 was born in Town 2. He left.\nMoon: The moon is far away.",
        "question": "Where was writer 2 born?",
    }
    assert (example.id, example.answer) == ("q2", "Town 2")
    assert example.supporting_facts == [["Writer 2", 0]]
    assert hotpotqa.key(example.inputs()) == example.question


def test_the_stream_is_the_beginning_of_dev_and_a_limit_a_beginning_of_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hotpotqa.STREAM == 1500
    monkeypatch.setattr(hotpotqa, "STREAM", 4)
    assert [e.id for e in hotpotqa.load(folder)] == ["q1", "q2", "q3", "q4"]
    assert [e.id for e in hotpotqa.load(folder, limit=9)] == ["q1", "q2", "q3", "q4"]
    assert [e.id for e in hotpotqa.load(folder, limit=2)] == ["q1", "q2"]
    assert len(hotpotqa.load(folder, split="dev")) == 6
    assert hotpotqa.load(folder, limit=0) == []


def test_rows_of_the_hub_give_the_same_examples(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("hub")
    lines = [json.dumps(on_the_hub(n), ensure_ascii=False) for n in range(1, 7)]
    (other / "hotpot_dev_distractor_v1.jsonl").write_text("\n".join(lines) + "\n")
    assert hotpotqa.load(other) == hotpotqa.load(folder)


def test_the_hub_is_asked_where_datasets_is_installed_and_nothing_is_here(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    module = types.ModuleType("datasets")
    module.__spec__ = importlib.machinery.ModuleSpec("datasets", None)

    def load_dataset(*names: str, split: str) -> list[dict[str, Any]]:
        asked.append((*names, split))
        if split == "train":
            raise ConnectionError("no route to the hub")
        return [on_the_hub(n) for n in range(1, 7)]

    monkeypatch.setattr(module, "load_dataset", load_dataset, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.delenv("DRPG_DATA", raising=False)
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert hotpotqa.load() == hotpotqa.load(folder)
    with pytest.raises(BenchmarkDataMissing, match="no route to the hub"):
        hotpotqa.load(split="train")
    with pytest.raises(BenchmarkDataMissing):
        hotpotqa.load("nowhere")
    assert asked == [("hotpotqa/hotpot_qa", "distractor", s) for s in ("validation", "train")]


def test_missing_data_says_what_gets_it(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkDataMissing, match=r"curl .*hotpot_dev_distractor_v1\.json"):
        hotpotqa.load(tmp_path)
    with pytest.raises(BenchmarkDataMissing, match=r"train split.*hotpot_train_v1\.1\.json"):
        hotpotqa.load(tmp_path, split="train")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (row(2, question=None), r"row 2: question must be a text, got None"),
        (row(2, answer=" "), r"row 2: answer must be a text"),
        ({k: v for k, v in row(2).items() if k != "_id"}, r"row 2: id must be a text, got None"),
        ({k: v for k, v in row(2).items() if k != "context"}, r"row 2: context must hold pairs"),
        (row(2, context={"title": ["A", "B"], "sentences": [["x"]]}), r"row 2: context"),
        (row(2, context=[["A", "no list"]]), r"row 2: context has no list of sentences for 'A'"),
        (row(2, supporting_facts=["ab"]), r"row 2: supporting_facts must hold pairs"),
        (row(1), r"row 2: the _id 'q1' comes twice"),
        (["x"], r"row 2: expected an object"),
    ],
)
def test_a_row_that_cannot_be_used_names_itself_and_the_field(
    tmp_path: Path, bad: Any, said: str
) -> None:
    (tmp_path / "hotpot_dev_distractor_v1.json").write_text(json.dumps([row(1), bad]))
    with pytest.raises(ValueError, match=said):
        hotpotqa.load(tmp_path)


def test_wrong_arguments_and_files_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="stream, dev, train; got 'test'"):
        hotpotqa.load(folder, split="test")
    with pytest.raises(ValueError, match="got -1"):
        hotpotqa.load(folder, limit=-1)
    (folder / "hotpot_dev_distractor_v1.json").write_text("{}")
    with pytest.raises(ValueError, match="must hold a list"):
        hotpotqa.load(folder)


@pytest.mark.benchmark_data
def test_the_shared_files_give_each_question_once_and_gold_scores_one(
    real: Path, tmp_path: Path
) -> None:
    examples = hotpotqa.load(real)
    assert len(examples) == len({e.id for e in examples}) == 591
    path = tmp_path / "gold.json"
    gold = {
        "answer": {e.id: e.answer for e in examples},
        "sp": {e.id: e.supporting_facts for e in examples},
    }
    path.write_text(json.dumps(gold))
    for compare in hotpotqa.BENCHMARK.compares:
        report = score_predictions(hotpotqa.BENCHMARK, real, path, compare=compare)
        assert (report.n, report.correct, report.uninformative) == (591, 591, 0)
    judge = hotpotqa.evaluator()
    for example, prediction in zip(
        examples, hotpotqa.read_predictions(path, examples), strict=True
    ):
        figures = judge(example, prediction).subscores
        assert set(figures) == {"em", "f1", "sp_em", "sp_f1", "joint_em", "joint_f1"}
        assert set(figures.values()) == {1.0}


@pytest.mark.benchmark_data
def test_the_example_of_the_card_is_the_first_question(real: Path) -> None:
    first = hotpotqa.load(real, limit=1)[0]
    card = " ".join((hotpotqa.__doc__ or "").split())
    assert first.question in card
    assert f"answer {first.answer} Metric" in card
    assert first.context[:60] in card


# -- predictions --------------------------------------------------------------------------------


def test_the_official_form_may_lack_answers_facts_and_hold_others(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "predictions.json"
    answers = {"q2": "Town 2", "q1": "Town 9", "other": "x"}
    path.write_text(json.dumps({"answer": answers, "sp": {"q2": [["Moon", 0]]}}))
    found = hotpotqa.read_predictions(path, hotpotqa.load(folder, limit=3))
    assert [p.answer for p in found] == ["Town 9", "Town 2", None]
    assert [p.get("supporting_facts") for p in found] == [None, [["Moon", 0]], None]
    path.write_text(json.dumps({"answer": answers}))
    report = score_predictions(hotpotqa.BENCHMARK, folder, path)
    assert (report.n, report.correct, report.not_judged, report.missing) == (6, 1, 0, 4)
    assert report.subscores_n == {"em": 6, "f1": 6}
    path.write_text(json.dumps({"answer": {}}))
    with pytest.raises(ValueError, match="no prediction for any of the 6 examples"):
        score_predictions(hotpotqa.BENCHMARK, folder, path)


def test_facts_are_averaged_over_all_questions_as_in_the_official_script(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "predictions.json"
    answers = {"q1": "Town 1", "q2": "Town 2", "q3": "Town 9"}
    facts = {"q1": [["Writer 1", 0]], "q3": [["Writer 3", 0], ["Moon", 0]], "q4": [["Writer 4", 0]]}
    path.write_text(json.dumps({"answer": answers, "sp": facts}))
    report = score_predictions(hotpotqa.BENCHMARK, folder, path)
    assert (report.n, report.missing) == (6, 2)
    assert report.subscores_n == dict.fromkeys(report.subscores, 6)
    # By the official script: "Town 9" and "Town 3" share one word of two, q3's facts have
    # precision 1/2 and recall 1, so that its joint F1 is that of 1/4 and 1/2.
    assert report.subscores == pytest.approx(
        {"em": 2 / 6, "f1": 2.5 / 6, "sp_em": 2 / 6, "sp_f1": (2 + 2 / 3) / 6,
         "joint_em": 1 / 6, "joint_f1": (1 + 1 / 3) / 6}
    )  # fmt: skip


def test_json_lines_may_come_in_any_order_and_lack_some(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_text('{"id": "q3", "prediction": "a\u2028b"}\n\n{"id": "q1", "prediction": 7}\n')
    found = hotpotqa.read_predictions(path, hotpotqa.load(folder, limit=3))
    assert [p.answer for p in found] == [7, None, "a\u2028b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"answer": {"x": "y"}}', r"none of its 1 answers .*'q1'"),
        ('{"answer": ["y"]}', "\"answer\" must be an object .*, got .'y'."),
        ('{"answer": [], "sp": []}', '"answer" must be an object .*, got ..\\.'),
        ('{"answer": {"q1": "y"}, "sp": []}', '"sp" must be an object .*, got ..\\.'),
        ('{"answer": {"q1": "y"}, "sp": null}', '"sp" must be an object .*, got None'),
        ('{"id": "q1"}', "line 1: expected"),
        ('{"id": "x", "prediction": 1}', "no example 'x'"),
        ("Town 1", "line 1: no JSON"),
    ],
)
def test_a_file_of_another_form_is_refused(
    folder: Path, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "predictions"
    path.write_text(text)
    examples = hotpotqa.load(folder)
    with pytest.raises(ValueError, match=said):
        hotpotqa.read_predictions(path, examples)


# -- the program --------------------------------------------------------------------------------


def test_the_program_asks_in_the_papers_order_outside_this_library(folder: Path) -> None:
    example = hotpotqa.load(folder)[0]
    lm = ScriptedLM([fields(answer="Town 1")])
    with dspy.context(lm=lm):
        prediction = hotpotqa.program()(**example.inputs())
    assert hotpotqa.evaluator()(example, prediction).score == 1.0
    (prompt,) = lm.texts()
    assert prompt.rindex(example.context) < prompt.rindex(example.question)
    inputs = hotpotqa.AnswerQuestion.input_fields
    assert list(inputs) == ["examples", "policy", "context", "question"]
    assert [f.json_schema_extra.get(OPEN_FIELD) for f in inputs.values()] == [
        "shots", "policy", None, None,
    ]  # fmt: skip


def reply(messages: list[dict[str, str]]) -> str:
    """Answer even questions right and odd ones wrong; write a policy when asked for rules."""
    last = messages[-1]["content"]
    if "rules" in last:
        return json.dumps({"rules": ["Answer with the town alone."]})
    number = int(last.rpartition("Where was writer ")[2].split()[0])
    return fields(answer=f"Town {number}" if number % 2 == 0 else "I do not know")


@pytest.mark.parametrize(
    "optimizer", [ZeroShot(), SelfStreamICL(k=4), DRPG(k=4)], ids=["zero", "icl", "drpg"]
)
def test_each_method_runs_a_stream_and_shots_hold_no_context(
    folder: Path, optimizer: OnlineOptimizer
) -> None:
    lm = ScriptedLM(reply)
    learner = OnlinePolicyOptimizer(hotpotqa.program(), optimizer, key=hotpotqa.key)
    with dspy.context(lm=lm):
        summary = run_stream(learner, hotpotqa.load(folder), hotpotqa.evaluator())
    learner.close()
    assert (summary.n, summary.correct, summary.not_judged) == (6, 3, 0)
    last = lm.texts()[-1]
    assert last.count("The moon is far away.") == 1
    shown = "question: Where was writer 2 born?\nanswer: Town 2"
    assert (shown in last) is (optimizer.name != "zero_shot")
    assert ("- Answer with the town alone." in last) is (optimizer.name == "drpg")
    for prompt in lm.texts():
        assert "Expected:" not in prompt


@pytest.mark.local_lm
def test_a_small_model_is_run_and_judged(folder: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra local-lm is not installed")
    if weights.find(SMALL) is None:
        pytest.skip(f"{SMALL} is not in the cache; get it with: drpg lm pull {SMALL}")
    from drpg_dspy.local_lm import LocalLM

    lm = LocalLM(SMALL, context=1024, threads=1, max_tokens=24)
    learner = OnlinePolicyOptimizer(hotpotqa.program(), SelfStreamICL(k=2), key=hotpotqa.key)
    with dspy.context(lm=lm):
        summary = run_stream(learner, hotpotqa.load(folder, limit=2), hotpotqa.evaluator())
    learner.close()
    assert summary.n == 2
    assert summary.answering.prompt_tokens > 200
