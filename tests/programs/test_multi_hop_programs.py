"""HotpotQA in two hops and HoVer: searches in a corpus, several modules."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, OnlineOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.retrieval import DenseRetriever, HashingEmbedder
from drpg_dspy.scoring import score_predictions
from drpg_dspy.streaming import run_stream
from drpg_dspy.testing.scripted import ScriptedLM, fields
from programs import _passages, hotpotqa_two_hop, hover

METHODS = pytest.mark.parametrize(
    "method",
    [ZeroShot, functools.partial(SelfStreamICL, k=2), functools.partial(DRPG, k=2)],
    ids=["zero", "icl", "drpg"],
)


def paragraph(title: str, text: str) -> dict[str, str]:
    return {"title": title, "text": text}


PARAGRAPHS = [
    *(paragraph(f"Film {n}", f"Film {n} was directed by Director {n}.") for n in range(1, 7)),
    *(paragraph(f"Director {n}", f"Director {n} was born in Town{n}.") for n in range(1, 7)),
    paragraph("Cafe\u0301", "A place for coffee."),
]


def question(number: int) -> dict[str, Any]:
    return {
        "_id": f"q{number}",
        "question": f"Where was the director of Film {number} born?",
        "answer": f"Town{number}",
        "supporting_facts": [[f"Film {number}", 0], [f"Director {number}", 0]],
        "context": [["Film 1", ["Film 1 was directed", " by Director 1."]]],
        "type": "bridge",
        "level": "hard",
    }


def claim(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "uid": f"c{number}",
        "claim": f"The director of Film {number} was born in Town{number}.",
        "supporting_facts": [
            [f"Film {number}", 0],
            [f"Director {number}", 0],
            [f"Director {number}", 1],
        ],
        "label": "SUPPORTED" if number % 2 else "NOT_SUPPORTED",
        "num_hops": 2,
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder with a corpus, questions and claims, and a place of its own for indices."""
    monkeypatch.setenv("DRPG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DRPG_DATA", raising=False)
    data = tmp_path / "data"
    for name in ("wiki_corpus", "hotpotqa", "hover"):
        (data / name).mkdir(parents=True)
    lines = "\n".join(json.dumps(row) for row in PARAGRAPHS)
    (data / "wiki_corpus" / "wiki_paragraphs.jsonl").write_text(lines)
    rows = [question(n) for n in range(1, 7)]
    (data / "hotpotqa" / "hotpot_dev_distractor_v1.json").write_text(json.dumps(rows))
    rows = [claim(n) for n in range(1, 7)]
    rows.append(claim(7, supporting_facts=[["Elsewhere", 0], ["Film 1", 0]]))
    rows.append(claim(8, supporting_facts=[["Caf\u00e9", 0], ["Film_1", 0]]))
    (data / "hover" / "hover_dev_release_v1.1.json").write_text(json.dumps(rows))
    yield data
    _passages.note_place(None)


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "wiki_corpus" / "wiki_paragraphs.jsonl").is_file():
        pytest.skip("needs the data folders hotpotqa, hover and wiki_corpus: set DRPG_DATA")
    return place


def reply(messages: list[dict[str, str]]) -> str:
    """Play a program that follows the chain, and fails for films with an even number."""
    last = messages[-1]["content"]
    if "coach" in messages[0]["content"]:
        return json.dumps({"rules": ["Look the director up."]})
    field = "claim" if "[[ ## claim ## ]]" in last else "question"
    number = int(re.findall(r"Film (\d)", last.rpartition(f"[[ ## {field} ## ]]")[2])[0])
    asked = re.findall(r"\[\[ ## (\w+) ## \]\]", last.rsplit("Respond with", 1)[-1])
    values = {
        "summary": f"Film {number} is by Director {number}.",
        "query": f"Director {number}" if number % 2 else "nothing that is there",
        "answer": f"Town{number}" if number % 2 else "I do not know",
        "label": "SUPPORTED" if number % 2 else "supported or not supported",
    }
    return fields(**{name: values[name] for name in asked if name in values})


# -- the corpus ---------------------------------------------------------------------------------


def test_the_corpus_is_found_beside_the_data_and_searched_by_title_and_text(folder: Path) -> None:
    hotpotqa_two_hop.load(folder / "hotpotqa", limit=1)
    search = _passages.CorpusSearch(2)
    assert _passages.search(search, "Director 3\n was born") == [
        "Director 3 | Director 3 was born in Town3.",
        "Film 3 | Film 3 was directed by Director 3.",
    ]
    assert _passages.search(search, "  \n ") == []
    assert _passages.title_of("Film 3 | Film 3 | was") == "Film 3"


def test_without_a_corpus_hotpotqas_own_paragraphs_are_one(folder: Path) -> None:
    (folder / "wiki_corpus" / "wiki_paragraphs.jsonl").unlink()
    _passages.note_place(folder)
    assert _passages.read_corpus_here() == ("Film 1 | Film 1 was directed by Director 1.",)


def test_no_corpus_at_all_is_said_with_what_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRPG_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    _passages.note_place(None)
    for program, inputs in (
        (hotpotqa_two_hop.program(), {"question": "Who?"}),
        (hover.program(), {"claim": "It is so."}),
    ):
        with dspy.context(lm=ScriptedLM(["x"])), pytest.raises(BenchmarkDataMissing) as caught:
            program(**inputs)
        assert "curl" in str(caught.value)
        assert "program(retriever=" in str(caught.value)


@pytest.mark.parametrize("line", ['{"title": "A"}', '{"title": 3, "text": "x"}', "[]", "no"])
def test_a_corpus_with_a_bad_line_names_it(folder: Path, line: str) -> None:
    path = folder / "wiki_corpus" / "wiki_paragraphs.jsonl"
    path.write_text(f'{{"title": "A", "text": "b"}}\n{line}\n')
    _passages.note_place(folder)
    with pytest.raises(ValueError, match=r"wiki_paragraphs\.jsonl, (row|line) 2"):
        _passages.read_corpus_here()


# -- HotpotQA in two hops -----------------------------------------------------------------------


def test_a_question_comes_without_its_paragraphs_and_labels(folder: Path) -> None:
    example = hotpotqa_two_hop.load(folder)[1]
    assert example.inputs().toDict() == {"question": "Where was the director of Film 2 born?"}
    assert (example.id, example.group, example.category) == ("q2", "q2", "bridge")
    assert (example.answer, example.supporting_facts[1][0]) == ("Town2", "Director 2")
    assert "context" not in example
    assert hotpotqa_two_hop.key(example.inputs()) == example.question


def test_parts_of_the_questions_are_disjoint_and_have_the_sizes(folder: Path) -> None:
    ids = {
        part: {e.id for e in hotpotqa_two_hop.load(folder, split=part, sizes=[2, 1, 3])}
        for part in ("construction", "selection", "test")
    }
    assert [len(part) for part in ids.values()] == [2, 1, 3]
    assert set.union(*ids.values()) == {f"q{n}" for n in range(1, 7)}
    few = hotpotqa_two_hop.load(folder, split="test", sizes=[2, 1, 3], limit=2)
    assert len(few) == 2
    assert {e.id for e in few} < ids["test"]


def test_two_hops_find_both_documents_and_each_module_sees_its_own_fields(folder: Path) -> None:
    example = hotpotqa_two_hop.load(folder)[0]
    lm = ScriptedLM(reply)
    program = hotpotqa_two_hop.program()
    with dspy.context(lm=lm):
        prediction = program(**example.inputs())
    assert [name for name, _ in program.named_predictors()] == [
        "summarise_1", "query_2", "summarise_2", "answer_question",
    ]  # fmt: skip
    first, query, second, answer = lm.texts()
    assert "Film 1 | Film 1 was directed by Director 1." in first
    assert "Director 1 | Director 1 was born in Town1." in second
    assert " | " not in query.rpartition("[[ ## question ## ]]")[2]
    assert "Film 1 is by Director 1." in answer
    verdict = hotpotqa_two_hop.evaluator()(example, prediction)
    assert (verdict.score, verdict.subscores["all_found"]) == (1.0, 1.0)
    assert prediction.query == "Director 1"


def test_any_retriever_of_the_users_takes_the_place_of_ours(folder: Path) -> None:
    texts = [f"{row['title']} | {row['text']}" for row in PARAGRAPHS]
    example = hotpotqa_two_hop.load(folder)[0]
    for retriever in (
        DenseRetriever(texts, HashingEmbedder(), k=3),
        dspy.Embeddings(texts, HashingEmbedder(), k=3),
        lambda query: [{"long_text": text} for text in texts],
        lambda query: [],
    ):
        with dspy.context(lm=ScriptedLM(reply)):
            prediction = hotpotqa_two_hop.program(retriever)(**example.inputs())
        assert prediction.answer == "Town1"
        assert all(" | " not in title for title in prediction.retrieved)


def test_questions_are_told_apart_by_their_words_alone(real: Path) -> None:
    examples = hotpotqa_two_hop.load(real)
    right = sum(hotpotqa_two_hop.category(e.inputs()) == e.category for e in examples)
    assert right / len(examples) > 0.9


@pytest.mark.benchmark_data
def test_the_real_questions_are_answered_by_gold_and_all_their_titles_are_there(
    real: Path, tmp_path: Path
) -> None:
    examples = hotpotqa_two_hop.load(real)
    assert len(examples) == len({e.id for e in examples}) == 591
    there = _passages.corpus_titles()
    assert all(_passages.title_key(t) in there for e in examples for t, _ in e.supporting_facts)
    path = tmp_path / "gold.json"
    gold = {
        "answer": {e.id: e.answer for e in examples},
        "sp": {e.id: e.supporting_facts for e in examples},
    }
    path.write_text(json.dumps(gold))
    report = score_predictions(hotpotqa_two_hop.BENCHMARK, real, path)
    assert (report.n, report.correct) == (591, 591)
    assert report.subscores["all_found"] == 1.0


@METHODS
def test_two_hops_run_a_stream_under_each_method(
    folder: Path, method: Callable[[], OnlineOptimizer]
) -> None:
    lm, optimizer = ScriptedLM(reply), method()
    learner = OnlinePolicyOptimizer(hotpotqa_two_hop.program(), optimizer, key=hotpotqa_two_hop.key)
    with dspy.context(lm=lm):
        summary = run_stream(learner, hotpotqa_two_hop.load(folder), hotpotqa_two_hop.evaluator())
    learner.close()
    assert (summary.n, summary.correct, summary.failed) == (6, 3, 0)
    for prompt in lm.texts():
        assert "Expected:" not in prompt
    query = [p for p in lm.texts() if "second search query" in p][-1]
    shown = "query: Director 5" in query and "summary: Film 5 is by Director 5." in query
    assert shown is (optimizer.name != "zero_shot")
    answer = [p for p in lm.texts() if "from the notes that two searches" in p][-1]
    assert ("answer: Town5" in answer) is (optimizer.name != "zero_shot")
    assert ("- Look the director up." in answer) is (optimizer.name == "drpg")


# -- HoVer --------------------------------------------------------------------------------------


def test_claims_are_those_whose_evidence_the_corpus_holds(folder: Path) -> None:
    examples = hover.load(folder)
    assert [e.id for e in examples] == [f"c{n}" for n in (1, 2, 3, 4, 5, 6, 8)]
    assert examples[0].inputs().toDict() == {"claim": "The director of Film 1 was born in Town1."}
    assert examples[0].titles == ["Film 1", "Director 1"]
    assert (examples[0].label, examples[0].category) == ("SUPPORTED", "2 hops")
    assert len(hover.load(folder, covered=False)) == 8
    assert [e.id for e in hover.load(folder, limit=2)] == ["c1", "c2"]
    assert hover.key(examples[0].inputs()) == examples[0].claim


@pytest.mark.benchmark_data
def test_the_real_claims_are_those_of_the_list_and_gold_scores_one(
    real: Path, tmp_path: Path
) -> None:
    examples = hover.load(real)
    listed = json.loads((real / "hover" / "dev_uids_covered_by_wiki_paragraphs.json").read_text())
    assert {e.id for e in examples} == set(listed)
    counts = [sum(e.category == f"{n} hops" for e in examples) for n in (2, 3, 4)]
    assert counts == [126, 71, 4]
    path = tmp_path / "gold.jsonl"
    rows = ({"id": e.id, "prediction": {"label": e.label, "titles": e.titles}} for e in examples)
    path.write_text("\n".join(map(json.dumps, rows)))
    for compare in hover.BENCHMARK.compares:
        report = score_predictions(hover.BENCHMARK, real, path, compare=compare)
        assert (report.n, report.correct, report.not_judged) == (201, 201, 0)
    card = " ".join((hover.__doc__ or "").split())
    assert examples[0].claim in card or hover.load(real, covered=False)[0].claim in card


def test_hops_are_modules_of_their_own_and_never_a_label(folder: Path) -> None:
    example = hover.load(folder)[0]
    for hops in (2, 3, 4):
        lm = ScriptedLM(reply)
        program = hover.program(hops=hops)
        with dspy.context(lm=lm):
            prediction = program(**example.inputs())
        names = [name for name, _ in program.named_predictors()]
        assert len(names) == len(lm.prompts) == 2 * hops
        assert names[-1] == "verify"
        assert {f"summarise_{hops}", f"query_{hops}"} < set(names)
        assert set(example.titles) <= set(prediction.titles)
        assert len(prediction.queries) == hops - 1
        assert hover.evaluator(compare="hover")(example, prediction).score == 1.0
        assert not [p for p in lm.texts() if "2 hops" in p]
    for hops in (1, 5, True, "3"):
        with pytest.raises(ValueError, match="hops must be 2, 3 or 4"):
            hover.program(hops=hops)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"uid": None}, "row 2: uid must be a text, got None"),
        ({"claim": " "}, "row 2: claim must be a text"),
        ({"label": "REFUTED"}, "row 2: label must be one of SUPPORTED, NOT_SUPPORTED"),
        ({"label": None}, "row 2: label must be"),
        ({"supporting_facts": []}, "row 2: supporting_facts must hold pairs"),
        ({"supporting_facts": [[3, 0]]}, "row 2: supporting_facts must hold pairs"),
        ({"uid": "c1"}, "row 2: the uid 'c1' comes twice"),
    ],
)
def test_a_claim_that_cannot_be_used_is_named(
    folder: Path, change: dict[str, Any], said: str
) -> None:
    path = folder / "hover" / "hover_dev_release_v1.1.json"
    path.write_text(json.dumps([claim(1), claim(2, **change)]))
    with pytest.raises(ValueError, match=said):
        hover.load(folder)


def test_wrong_arguments_and_missing_claims_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="source must be one of dev, train; got 'test'"):
        hover.load(folder, source="test")
    for program in (hover, hotpotqa_two_hop):
        with pytest.raises(ValueError, match="stream, construction, selection, test"):
            program.load(folder, split="dev")
        with pytest.raises(ValueError, match="got -1"):
            program.load(folder, limit=-1)
        with pytest.raises(BenchmarkDataMissing, match="curl"):
            program.load(tmp_path / "home")
    with pytest.raises(BenchmarkDataMissing, match=r"hover_train_release_v1\.1\.json"):
        hover.load(folder, source="train")
    (folder / "hover" / "hover_dev_release_v1.1.json").write_text("{}")
    with pytest.raises(ValueError, match="must hold a list of claims"):
        hover.load(folder)


def test_predictions_may_be_labels_titles_or_both(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    rows = [
        {"id": "c3", "prediction": ["Film 3", ["Director 3", 1]]},
        {"id": "c1", "prediction": {"label": "SUPPORTED", "titles": ["Film 1"]}},
        {"id": "c2", "prediction": "refuted"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    examples = hover.load(folder, limit=4)
    judge = hover.evaluator()
    verdicts = [
        judge(e, p) for e, p in zip(examples, hover.read_predictions(path, examples), strict=True)
    ]
    assert [v.score for v in verdicts] == [0.0, 0.0, 1.0, 0.0]
    assert [v.subscores["label"] for v in verdicts] == [1.0, 1.0, 0.0, 0.0]


@METHODS
def test_hover_runs_a_stream_under_each_method(
    folder: Path, method: Callable[[], OnlineOptimizer]
) -> None:
    lm, optimizer = ScriptedLM(reply), method()
    learner = OnlinePolicyOptimizer(hover.program(), optimizer, key=hover.key)
    with dspy.context(lm=lm):
        summary = run_stream(learner, hover.load(folder, limit=6), hover.evaluator())
    learner.close()
    assert (summary.n, summary.failed, summary.not_judged) == (6, 0, 0)
    verify = [p for p in lm.texts() if "supports a claim in all its parts" in p][-1]
    assert ("label: SUPPORTED" in verify) is (optimizer.name != "zero_shot")
    assert ("- Look the director up." in verify) is (optimizer.name == "drpg")
    for prompt in lm.texts():
        assert "documents needed" not in prompt or "coach" in prompt


def test_a_copied_program_is_small_and_keeps_its_search(folder: Path) -> None:
    for program in (hotpotqa_two_hop.program(), hover.program()):
        again = program.deepcopy()
        assert type(again.retriever) is type(program.retriever)
        assert again.retriever.k == program.retriever.k
        assert program.dump_state().keys() == again.dump_state().keys()
