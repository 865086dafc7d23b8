"""LoCoMo, LongMemEval and HaluMem: a conversation is searched, then a question answered."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, OnlineOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.scoring import score_predictions
from drpg_dspy.streaming import run_stream
from drpg_dspy.testing.scripted import ScriptedLM, fields
from evaluators.llm_judge import LMJudge
from programs import halumem, locomo, longmemeval
from programs._conversations import Conversations, each_turn

PROGRAMS = {"locomo": locomo, "longmemeval": longmemeval, "halumem": halumem}
PETS = ("Rex", "Tom", "Ada", "Bob")


# -- fixtures written for this project, in the forms of the official files ------------------------


def locomo_sample(number: int) -> dict[str, Any]:
    pet = PETS[number]
    return {
        "sample_id": f"conv-{number}",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_2_date_time": "2 pm on 9 May, 2023",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "I hiked\nyesterday."}],
            "session_1_date_time": "1 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "Hello, how are you?"},
                {"speaker": "Ann", "dia_id": "D1:2", "text": f"My dog is called {pet}.",
                 "blip_caption": "a dog on a beach", "img_url": ["x"], "query": "dog"},
            ],
            "session_3_date_time": "3 pm on 10 May, 2023",
        },
        "qa": [
            {"question": "What is Ann's dog called?", "answer": pet, "evidence": ["D1:2"],
             "category": 4},
            {"question": "When did Ben hike?", "answer": "8 May 2023", "evidence": ["D:2:01; D2:1"],
             "category": 2},
            {"question": "Would Ann like a cat?", "answer": "No; she has a dog", "evidence": ["D"],
             "category": 3},
            {"question": "What does Ann have?", "answer": f"a dog, {pet}",
             "evidence": ["D1:2", "D2:1"], "category": 1},
            {"question": "What is Ben's dog called?", "adversarial_answer": pet,
             "evidence": ["D1:2"], "category": 5},
            {"question": "How old is Ann?", "answer": 30, "evidence": [], "category": 4},
        ],
    }  # fmt: skip


def longmemeval_row(number: int, **changes: Any) -> dict[str, Any]:
    pet = PETS[number]
    return {
        "question_id": f"q{number}",
        "question_type": "single-session-user",
        "question": "What is my dog called?",
        "answer": pet,
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["other_1", "answer_9"],
        "haystack_dates": ["2023/05/30 (Tue) 21:48", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "Which pasta is best?"}],
            [
                {"role": "user", "content": f"My dog is called {pet}.", "has_answer": True},
                {"role": "assistant", "content": "A fine\n\nname!"},
            ],
        ],
        "answer_session_ids": ["answer_9"],
        **changes,
    }


def halumem_turns(number: int, text: str) -> list[dict[str, Any]]:
    date = f"Dec {number:02}, 2025, 06:11:23"
    return [
        {"role": "user", "content": text, "timestamp": date, "dialogue_turn": 0},
        {"role": "assistant", "content": "I see.", "timestamp": date, "dialogue_turn": 0},
    ]


def halumem_point(text: str) -> dict[str, Any]:
    return {
        "index": 1, "memory_content": text, "memory_type": "Persona Memory",
        "memory_source": "primary", "is_update": "False", "original_memories": [],
        "importance": 0.75, "timestamp": "Dec 01, 2025, 06:11:23",
    }  # fmt: skip


def halumem_user(number: int) -> dict[str, Any]:
    pet, fact = PETS[number], f"The dog of user {number} is {PETS[number]}."
    memory = {"memory_content": fact, "memory_type": "Persona Memory"}
    return {
        "uuid": f"user-{number}",
        "persona_info": f"Name: Ann {number}; Gender: female;",
        "sessions": [
            {"start_time": "Dec 01, 2025, 06:00:00", "end_time": "Dec 01, 2025, 07:00:00",
             "dialogue": halumem_turns(1, "I moved to Lyon."), "memory_points": [],
             "dialogue_turn_num": 1},
            {"start_time": "Dec 02, 2025, 06:00:00", "end_time": "Dec 02, 2025, 07:00:00",
             "dialogue": halumem_turns(2, f"My dog is called {pet}."),
             "memory_points": [halumem_point(fact)],
             "questions": [
                 {"question": "What is the name of the user's dog?", "answer": pet,
                  "evidence": [memory], "difficulty": "easy",
                  "question_type": "Basic Fact Recall"},
                 {"question": "What is the name of the user's car?",
                  "answer": "This was not mentioned.", "evidence": [], "difficulty": "hard",
                  "question_type": "Memory Boundary"},
             ]},
            {"start_time": "Dec 03, 2025, 06:00:00", "is_generated_qa_session": True,
             "dialogue": halumem_turns(3, "What is two plus two?")},
            {"start_time": "Dec 04, 2025, 06:00:00", "end_time": "Dec 04, 2025, 07:00:00",
             "dialogue": halumem_turns(4, "My dog is now called Max."),
             "memory_points": [halumem_point("Max")],
             "questions": [
                 {"question": "What is the user's dog called now?", "answer": "Max",
                  "evidence": [], "difficulty": "medium", "question_type": "Dynamic Update"},
             ]},
        ],
    }  # fmt: skip


def write(folder: Path, name: str, numbers: range = range(4)) -> Path:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    if name == "locomo":
        rows = [locomo_sample(n) for n in numbers]
        (place / "locomo10.json").write_text(json.dumps(rows))
    elif name == "longmemeval":
        rows = [longmemeval_row(n) for n in numbers]
        abstaining = longmemeval_row(0, question_id="q0_abs", answer="You did not mention it.")
        rows.append({**abstaining, "question": "What is my cat called?"})
        rubric = {"question_id": "q9", "question_type": "single-session-preference"}
        rows.append(longmemeval_row(1, **rubric, answer="The user would like dog food."))
        (place / "longmemeval_s_cleaned.json").write_text(json.dumps(rows))
    else:
        lines = "\n".join(json.dumps(halumem_user(n)) for n in numbers)
        (place / "HaluMem-Medium.jsonl").write_text(f"{lines}\n\n")
    return folder


@pytest.fixture(params=PROGRAMS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ModuleType, Path]:
    return PROGRAMS[request.param], write(tmp_path, request.param)


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "locomo" / "locomo10.json").is_file():
        pytest.skip("needs the data folders locomo and longmemeval: set DRPG_DATA")
    return place


def reply(messages: list[dict[str, str]]) -> str:
    """Search for the dog, and say its name where a passage gives it."""
    last = messages[-1]["content"]
    if "coach" in messages[0]["content"]:
        return json.dumps({"rules": ["Search for the animal."]})
    if "[[ ## memories ## ]]" not in last:
        return fields(query="dog called")
    memories = last.rpartition("[[ ## memories ## ]]")[2]
    named = re.findall(r"dog is called (\w+)", memories)
    return fields(answer=named[0] if named else "Not mentioned")


# -- what all three have in common ---------------------------------------------------------------


def test_an_example_names_its_conversation_and_shows_no_label(
    made: tuple[ModuleType, Path],
) -> None:
    program, folder = made
    examples = program.load(folder)
    assert len({e.id for e in examples}) == len(examples)
    for example in examples:
        assert set(example.inputs().keys()) <= {"conversation", "question", "asked_on"}
        inputs = json.dumps(example.inputs().toDict())
        for label in ("abs", "answer_", example.category):
            assert label not in inputs
        assert program.key(example.inputs()) == example.question
        assert program.conversation(example.conversation)
        assert example.group
    assert program.load(folder, limit=2) == examples[:2]


def test_a_question_is_searched_for_and_answered(made: tuple[ModuleType, Path]) -> None:
    program, folder = made
    example = program.load(folder)[0]
    lm = ScriptedLM(reply)
    with dspy.context(lm=lm):
        prediction = program.program()(**example.inputs())
    verdict = program.evaluator()(example, prediction)
    assert (prediction.answer, verdict.score) == ("Rex", 1.0)
    assert verdict.subscores["evidence"] == 1.0
    query, answer = lm.texts()
    assert "Rex" not in query
    assert "My dog is called Rex." in answer
    assert len(program.program().named_predictors()) == 2


def test_parts_share_no_group(made: tuple[ModuleType, Path]) -> None:
    program, folder = made
    parts = {
        part: program.load(folder, split=part, sizes=[2, 1, 1])
        for part in ("construction", "selection", "test")
    }
    groups = {part: {e.group for e in rows} for part, rows in parts.items()}
    assert [len(names) for names in groups.values()] == [2, 1, 1]
    assert len(set.union(*groups.values())) == 4
    conversations = {part: {e.conversation for e in rows} for part, rows in parts.items()}
    assert not conversations["construction"] & conversations["test"]


def test_gold_answers_score_one_and_files_of_predictions_are_read(
    made: tuple[ModuleType, Path], tmp_path: Path
) -> None:
    program, folder = made
    examples = program.load(folder)
    path = tmp_path / "gold.jsonl"
    rows = [json.dumps({"id": e.id, "prediction": e.answer}) for e in examples]
    path.write_text("\n".join(rows[::-1]))
    rubrics = sum(bool(e.get("rubric")) for e in examples)
    for compare in program.BENCHMARK.compares:
        if compare == "judge":
            continue
        report = score_predictions(program.BENCHMARK, folder, path, compare=compare)
        assert (report.n, report.not_judged) == (len(examples), rubrics)
        wrong = sum(e.abstain for e in examples) if compare == "faithful" else 0
        assert report.correct >= len(examples) - rubrics - wrong
    path.write_text('{"id": "unknown", "prediction": 1}')
    with pytest.raises(ValueError, match="no example 'unknown'"):
        program.read_predictions(path, examples)
    path.write_text(rows[0])
    assert [p.answer for p in program.read_predictions(path, examples[:2])][1] is None


def test_a_language_model_may_judge(made: tuple[ModuleType, Path]) -> None:
    program, folder = made
    examples = program.load(folder)
    word = "correct" if program is halumem else "yes"
    lm = ScriptedLM([f"{word}, it is."])
    judge = program.evaluator(compare="judge", lm=lm)
    assert isinstance(judge, LMJudge)
    verdicts = [judge(e, dspy.Prediction(answer="x")) for e in examples]
    assert [v.score for v in verdicts] == [1.0] * len(examples)
    asked = [e for e, p in zip(examples, lm.texts(), strict=True) if "does not hold what" in p]
    assert asked == [e for e in examples if e.abstain]
    with pytest.raises(ValueError, match="compare must be one of"):
        program.evaluator(compare="bleu")


@pytest.mark.parametrize(
    "method",
    [ZeroShot, functools.partial(SelfStreamICL, k=2), functools.partial(DRPG, k=2)],
    ids=["zero", "icl", "drpg"],
)
def test_each_method_runs_a_stream(
    made: tuple[ModuleType, Path], method: Callable[[], OnlineOptimizer]
) -> None:
    program, folder = made
    lm, optimizer = ScriptedLM(reply), method()
    learner = OnlinePolicyOptimizer(program.program(), optimizer, key=program.key)
    examples = program.load(folder, limit=6)
    with dspy.context(lm=lm):
        summary = run_stream(learner, examples, program.evaluator())
    learner.close()
    assert (summary.n, summary.failed) == (6, 0)
    answer = [p for p in lm.texts() if "from what was said in a conversation" in p][-1]
    assert ("answer: Rex" in answer) is (optimizer.name != "zero_shot")
    assert ("- Search for the animal." in answer) is (optimizer.name == "drpg")
    query = [p for p in lm.texts() if "of a long conversation for what" in p][-1]
    assert ("query: dog called" in query) is (optimizer.name != "zero_shot")


def test_missing_data_says_what_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program, command in (
        (locomo, r"curl .*locomo10\.json"),
        (longmemeval, "hf download xiaowu0162/longmemeval-cleaned longmemeval_s_cleaned"),
        (halumem, r"hf download IAAR-Shanghai/HaluMem HaluMem-Medium\.jsonl"),
    ):
        with pytest.raises(BenchmarkDataMissing, match=command):
            program.load(tmp_path)
        monkeypatch.setattr(program, "_conversations", Conversations("It", program._read_all))
        with monkeypatch.context() as patch:
            patch.delenv("DRPG_DATA", raising=False)
            patch.chdir(tmp_path)
            with pytest.raises(BenchmarkDataMissing, match=r"'x' was not loaded.*data"):
                program.conversation("x")


def test_a_conversation_that_no_loader_read_is_looked_for(
    made: tuple[ModuleType, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, folder = made
    name = program.load(folder)[0].conversation
    known = program.conversation(name)
    monkeypatch.setattr(program, "_conversations", Conversations("It", program._read_all))
    monkeypatch.setenv("DRPG_DATA", str(folder))
    assert program.conversation(name) == known
    with pytest.raises(ValueError, match="no conversation 'nobody'; names are like"):
        program.conversation("nobody")


def test_wrong_arguments_are_named(made: tuple[ModuleType, Path]) -> None:
    program, folder = made
    with pytest.raises(ValueError, match="got -3"):
        program.load(folder, limit=-3)
    with pytest.raises(ValueError, match="stream, construction, selection, test; got 'dev'"):
        program.load(folder, split="dev")
    if program is not locomo:
        with pytest.raises(ValueError, match="variant must be one of"):
            program.load(folder, variant="huge")


# -- each by itself -------------------------------------------------------------------------------


def test_locomo_reads_categories_evidence_and_pictures(tmp_path: Path) -> None:
    fact, when, would, several, adversarial, number = locomo.load(write(tmp_path, "locomo"))[:6]
    assert [e.category for e in (fact, when, would, several, adversarial)] == [
        "single-hop", "temporal", "open-domain", "multi-hop", "adversarial",
    ]  # fmt: skip
    assert (when.evidence, would.evidence) == (["D2:1"], [])
    assert would.answer == "No"
    assert (several.several, fact.several) == (True, False)
    assert (adversarial.abstain, adversarial.adversarial_answer) == (True, "Rex")
    assert number.answer == "30"
    turns = locomo.conversation("conv-0")
    assert [t.id for t in turns] == ["D1:1", "D1:2", "D2:1"]
    assert turns[1].text == "My dog is called Rex. (shares a picture: a dog on a beach)"
    assert each_turn(turns)[2].text == "[2 pm on 9 May, 2023] Ben: I hiked yesterday."


def test_locomo_shows_categories_only_where_none_gives_the_answer_away(tmp_path: Path) -> None:
    folder = write(tmp_path, "locomo")
    with pytest.raises(ValueError, match="which questions have no answer"):
        locomo.load(folder, show_category=True)
    kept = ["temporal", "single-hop"]
    examples = locomo.load(folder, categories=kept, show_category=True)
    assert {e.inputs()["category"] for e in examples} == set(kept)
    assert locomo.category(examples[0].inputs()) == "single-hop"
    lm = ScriptedLM(reply)
    with dspy.context(lm=lm):
        locomo.program()(**examples[0].inputs())
    assert "single-hop" not in "".join(lm.texts())
    for wrong in (["other"], [], "other"):
        with pytest.raises(ValueError, match="categories must be some of multi-hop"):
            locomo.load(folder, categories=wrong)


def test_locomo_reads_the_authors_form_of_predictions(tmp_path: Path) -> None:
    folder = write(tmp_path, "locomo")
    rows = [locomo_sample(0), locomo_sample(1)]
    rows[0]["qa"][0].update({"m_prediction": "Rex", "m_prediction_context": ["D1:2"]})
    rows[1]["qa"][1].update({"m_prediction": "in May"})
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(rows))
    examples = locomo.load(folder)
    found = dict(
        zip((e.id for e in examples), locomo.read_predictions(path, examples), strict=True)
    )
    assert (found["conv-0-1"].answer, found["conv-0-1"].retrieved) == ("Rex", ["D1:2"])
    assert (found["conv-1-2"].answer, found["conv-3-1"].answer) == ("in May", None)
    rows[0]["qa"][0]["other_prediction"] = "x"
    path.write_text(json.dumps(rows))
    with pytest.raises(ValueError, match="several predictions"):
        locomo.read_predictions(path, examples)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["qa"][1].update(question=""), "question 2: question must be a text"),
        (lambda s: s["qa"][0].update(category=9), "question 1: category must be 1 to 5, got 9"),
        (lambda s: s["qa"][0].update(answer=" "), "question 1: answer must not be empty"),
        (lambda s: s["qa"].append("x"), "question 7: question must be a text, got None"),
        (lambda s: s.pop("qa"), "expected an object with sample_id"),
        (lambda s: s.update(conversation=[]), "conversation must be an object"),
        (lambda s: s.update(conversation={"session_1": []}), "has no turns"),
        (lambda s: s["conversation"].update(session_1=["x"]), "session 1: a turn needs dia_id"),
        (lambda s: s.update(sample_id="conv-1"), "'conv-1' comes twice"),
    ],
)
def test_locomo_names_what_cannot_be_used(
    tmp_path: Path, change: Callable[[Any], Any], said: str
) -> None:
    rows = [locomo_sample(1), locomo_sample(2)]
    change(rows[1])
    (tmp_path / "locomo10.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match=f"conversation 2.*{said}"):
        locomo.load(tmp_path)


@pytest.mark.benchmark_data
def test_the_real_locomo_has_all_questions_and_the_example_of_the_card(real: Path) -> None:
    examples = locomo.load(real)
    assert len(examples) == len({e.id for e in examples}) == 1986
    counts = [sum(e.category == name for e in examples) for name in locomo.CATEGORIES.values()]
    assert counts == [282, 321, 96, 841, 446]
    ids = {t.id for name in {e.group for e in examples} for t in locomo.conversation(name)}
    known = [name in ids for e in examples for name in e.evidence]
    assert sum(known) / len(known) > 0.99
    card = " ".join((locomo.__doc__ or "").split())
    assert examples[0].question in card
    assert examples[0].answer in card
    judge = locomo.evaluator()
    assert all(judge(e, dspy.Prediction(answer=e.answer)).score == 1.0 for e in examples[::7])


def test_longmemeval_orders_sessions_and_gives_nothing_away(tmp_path: Path) -> None:
    examples = longmemeval.load(write(tmp_path, "longmemeval"))
    first, twin, preference = examples[0], examples[4], examples[5]
    turns = longmemeval.conversation(first.conversation)
    assert [(t.id, t.speaker) for t in turns] == [
        ("session 1", "user"), ("session 1", "assistant"), ("session 2", "user"),
    ]  # fmt: skip
    assert first.evidence == ["session 1"]
    assert first.asked_on == "2023/06/01 (Thu) 10:00"
    assert (twin.id, twin.group, twin.abstain) == ("q0_abs", "q0", True)
    assert twin.conversation != first.conversation
    assert (preference.rubric, preference.abstain) == (True, False)
    assert re.fullmatch(r"s-[0-9a-f]{10}", twin.conversation)


def test_longmemeval_reads_the_forms_of_other_carriers(tmp_path: Path) -> None:
    several = longmemeval_row(1, questions=["Dog?", "Pasta?"], answers=["Tom", 3])
    several.pop("question")
    several["answer_session_ids"] = [["answer_9"], ["other_1"]]
    turns = [{"role": "user", "content": "My dog is Ada.", "date": "2023/05/20 (Sat) 02:21"}]
    reshaped = {
        "id": "abstain-77_abs",
        "question_type": "abstention",
        "conversation": turns,
        "questions": [{"id": "abs1", "question": "Cat?", "answer": "?", "is_abstention": True}],
    }
    (tmp_path / "longmemeval_s_3rows.json").write_text(json.dumps([several]))
    (tmp_path / "longmemeval_abstain_sample.json").write_text(json.dumps({"data": [reshaped]}))
    one, two, three = longmemeval.load(tmp_path)
    assert [(e.id, e.group) for e in (one, two, three)] == [
        ("q1-1", "q1"), ("q1-2", "q1"), ("abstain-77_abs-abs1", "77"),
    ]  # fmt: skip
    assert (one.evidence, two.evidence, two.answer) == (["session 1"], ["session 2"], "3")
    assert (three.abstain, three.asked_on) == (True, "")
    shown = longmemeval.load(tmp_path, show_category=True)
    assert [e.inputs()["category"] for e in shown] == ["single-session-user"] * 2 + [""]


def test_longmemeval_reads_the_authors_form_of_predictions(tmp_path: Path) -> None:
    examples = longmemeval.load(write(tmp_path, "longmemeval"))
    path = tmp_path / "hypotheses.jsonl"
    rows = [{"question_id": "q1", "hypothesis": "Tom"}, {"question_id": "z", "hypothesis": "x"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = longmemeval.read_predictions(path, examples)
    assert [p.answer for p in found[:3]] == [None, "Tom", None]
    path.write_text(json.dumps(rows[1]))
    with pytest.raises(ValueError, match="none of its 1 answers"):
        longmemeval.read_predictions(path, examples)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question_id": ""}, "question_id must be a text"),
        ({"question": None}, "question must be a text, got None"),
        ({"answer": None}, "answer must not be empty"),
        ({"haystack_dates": []}, "differ in length"),
        ({"haystack_sessions": "x"}, "haystack_sessions must be a list"),
        ({"haystack_sessions": [[], [{"role": "user"}]]}, "a turn needs role and content"),
        ({"haystack_sessions": [[], []]}, "has no turns"),
        ({"question_id": "q1"}, "the id 'q1' comes twice"),
    ],
)
def test_longmemeval_names_what_cannot_be_used(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    rows = [longmemeval_row(1), longmemeval_row(2, **change)]
    (tmp_path / "longmemeval_s.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match=f"row 2.*{said}"):
        longmemeval.load(tmp_path)


@pytest.mark.benchmark_data
def test_the_real_samples_of_longmemeval_load(real: Path) -> None:
    whole, oracle = longmemeval.load(real), longmemeval.load(real, variant="oracle")
    assert [len(whole), len(oracle)] == [30, 16]
    assert sum(e.abstain for e in whole) == 4
    assert sum(e.rubric for e in oracle) == 3
    assert len({e.group for e in whole}) == 7
    for example in whole:
        there = {turn.id for turn in longmemeval.conversation(example.conversation)}
        assert there.issuperset(example.evidence)
    card = " ".join((longmemeval.__doc__ or "").split())
    assert oracle[0].conversation in card
    assert oracle[0].question in card


def test_halumem_asks_as_the_chats_go_on(tmp_path: Path) -> None:
    dog, car, now = halumem.load(write(tmp_path, "halumem"))[:3]
    assert [e.id for e in (dog, car, now)] == ["user-0-2-1", "user-0-2-2", "user-0-4-1"]
    before, after = halumem.conversation(dog.conversation), halumem.conversation(now.conversation)
    assert [t.text for t in before if t.speaker == "user"] == [
        "I moved to Lyon.", "My dog is called Rex.",
    ]  # fmt: skip
    assert after[: len(before)] == before
    assert "What is two plus two?" in [t.text for t in after]
    assert dog.evidence == ["session 2"]
    assert (dog.asked_on, now.asked_on) == ("Dec 02, 2025, 07:00:00", "Dec 04, 2025, 07:00:00")
    assert (car.abstain, dog.abstain) == (True, False)
    assert (dog.category, dog.difficulty) == ("Basic Fact Recall", "easy")
    assert halumem.category(dog.inputs()) == "fact"
    shown = halumem.load(tmp_path, show_category=True)
    assert [e.inputs()["category"] for e in shown[:3]] == [
        "Basic Fact Recall", "", "Dynamic Update",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda u: u.pop("uuid"), "line 2: expected an object with uuid"),
        (lambda u: u.update(uuid="user-1"), "line 2: the uuid 'user-1' comes twice"),
        (lambda u: u.update(sessions={}), "line 2: expected an object with uuid"),
        (lambda u: u["sessions"].insert(0, "x"), "session 1: expected an object"),
        (lambda u: u["sessions"][0].update(dialogue=[{"role": "user"}]), "session 1: a turn needs"),
        (lambda u: u["sessions"][1]["questions"][0].pop("answer"), "question 1: answer must be"),
        (lambda u: u["sessions"][1]["questions"].append(3), "question 3: question must be a text"),
        (lambda u: [u["sessions"][i].update(dialogue=[]) for i in (0, 1)], "before anything was"),
    ],
)
def test_halumem_names_what_cannot_be_used(
    tmp_path: Path, change: Callable[[Any], Any], said: str
) -> None:
    users = [halumem_user(1), halumem_user(2)]
    change(users[1])
    lines = "\n".join(json.dumps(user) for user in users)
    (tmp_path / "HaluMem-Medium.jsonl").write_text(lines)
    with pytest.raises(ValueError, match=said):
        halumem.load(tmp_path)


def test_halumem_names_a_line_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "HaluMem-Long.jsonl").write_text("{")
    with pytest.raises(ValueError, match="line 1: no JSON"):
        halumem.load(tmp_path, variant="long")
