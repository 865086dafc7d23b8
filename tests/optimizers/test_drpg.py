from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, CaseWriter, OnlineOptimizer, QuoteWriter, SelfStreamICL
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import Feedback

Build = Callable[..., OnlinePolicyOptimizer]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def make(optimizer: OnlineOptimizer, program: dspy.Module | None = None) -> Any:
        memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
        program = program or dspy.Predict("context, question -> answer")
        return OnlinePolicyOptimizer(program, optimizer, memory=memory)

    return make


def is_writer(messages: list[dict[str, str]]) -> bool:
    return "You coach an assistant" in messages[0]["content"]


def scripted(rules: str = '{"rules": ["Name the unit of every figure."]}') -> ScriptedLM:
    return ScriptedLM(lambda m: rules if is_writer(m) else fields(answer="forty-two"))


def teach(learner: OnlinePolicyOptimizer, *cases: tuple[str, float]) -> list[str]:
    ids = []
    for question, score in cases:
        rollout = learner.predict_one({"context": "LONG CONTEXT", "question": question})
        learner.learn_one(rollout, Feedback(score, text=f"note on {question}"))
        ids.append(rollout.id)
    return ids


def writer_prompts(lm: ScriptedLM) -> list[str]:
    prompts = zip(lm.prompts, lm.texts(), strict=True)
    return [text for messages, text in prompts if is_writer(messages)]


def test_policy_and_examples_of_the_paper(build: Build) -> None:
    """R_t holds correct cases, R'_t k/2 of each verdict, P_t goes into the agent's prompt."""
    lm, learner = scripted(), None
    learner = build(DRPG(k=4))
    with dspy.context(lm=lm):
        ids = teach(
            learner,
            ("how many red apples", 1.0),
            ("how many green apples", 1.0),
            ("how many blue apples", 1.0),
            ("how many ripe apples", 0.0),
            ("how many sour apples", 0.0),
            ("how many old apples", 0.0),
        )
        rollout = learner.predict_one({"context": "LONG", "question": "how many apples"})

    retrieved = rollout.guidance.retrieved
    assert set(retrieved["shots"]) == set(ids[:3])
    assert len(retrieved["correct"]) == 2
    assert retrieved["correct"] == retrieved["shots"][:2]
    assert len(retrieved["wrong"]) == 2
    assert set(retrieved["wrong"]) <= set(ids[3:])
    assert "- Name the unit of every figure." in lm.texts()[-1]


def test_examples_are_question_and_answer_most_similar_last(build: Build) -> None:
    lm = scripted()
    learner = build(SelfStreamICL(k=2))
    with dspy.context(lm=lm):
        teach(learner, ("how many apples in may", 1.0), ("who is the mayor of Lyon", 1.0))
        rollout = learner.predict_one({"context": "NEW", "question": "how many apples in june"})

    questions = [shot["question"] for shot in rollout.guidance.shots["self"]]
    assert questions == ["who is the mayor of Lyon", "how many apples in may"]
    assert "LONG CONTEXT" not in lm.texts()[-1]


def test_rules_name_the_cases_they_came_from(build: Build) -> None:
    learner = build(DRPG(k=4))
    with dspy.context(lm=scripted()):
        ids = teach(learner, ("one apple", 1.0), ("two apples", 0.0))
        policy = learner.propose({"context": "", "question": "apples"}).policies["self"]

    assert set(policy.sources) == set(ids)
    assert policy.author == "drpg"


def test_a_policy_text_keeps_the_version_and_cases_it_was_first_written_with(build: Build) -> None:
    learner = build(DRPG(k=4))
    with dspy.context(lm=scripted()):
        ids = teach(learner, ("one apple", 1.0), ("two apples", 0.0))
        rollout = learner.predict_one({"context": "", "question": "apples"})

    policy = rollout.guidance.policies["self"]
    assert policy.version == 1
    assert policy.sources == (ids[0],)
    assert set(rollout.guidance.retrieved["wrong"]) == {ids[1]}


def test_the_writer_sees_verdicts_but_feedback_text_only_when_asked(build: Build) -> None:
    lm = scripted()
    with dspy.context(lm=lm):
        learner = build(DRPG(k=4))
        teach(learner, ("one apple", 0.0))
        learner.propose({"context": "", "question": "apples"})
        learner.optimizer = DRPG(k=4, feedback_text=True)
        learner.optimizer.bind(learner.card)
        learner.propose({"context": "", "question": "apples"})

    plain, with_text = writer_prompts(lm)[-2:]
    assert "verdict: wrong" in plain
    assert "note on one apple" not in plain
    assert "reviewer: note on one apple" in with_text


def test_without_feedback_the_writer_sees_no_verdict(build: Build) -> None:
    lm = scripted()
    learner = build(DRPG(k=4, use_feedback=False))
    with dspy.context(lm=lm):
        teach(learner, ("one apple", 0.0), ("two apples", 1.0))
        learner.propose({"context": "", "question": "apples"})

    prompt = writer_prompts(lm)[-1]
    assert "one apple" in prompt
    assert "two apples" in prompt
    for word in ("verdict", "wrong", "note on"):
        assert word not in prompt.split("[[ ## cases ## ]]")[-1]


def test_the_previous_policy_is_shown_when_asked(build: Build) -> None:
    lm = scripted()
    learner = build(DRPG(k=4, previous_policy=True))
    with dspy.context(lm=lm):
        teach(learner, ("one apple", 0.0), ("two apples", 1.0))
        learner.propose({"context": "", "question": "apples"})

    assert "Name the unit of every figure." in writer_prompts(lm)[-1]


def test_another_lm_may_write_the_policy(build: Build) -> None:
    agent, writer = scripted(), scripted('{"rules": ["Rule of the other model."]}')
    learner = build(DRPG(k=4, policy_lm=writer))
    with dspy.context(lm=agent):
        teach(learner, ("one apple", 0.0))
        rollout = learner.predict_one({"context": "", "question": "apples"})

    assert not any(is_writer(messages) for messages in agent.prompts)
    assert len(writer.prompts) == 1
    assert rollout.guidance.policies["self"].text == "- Rule of the other model."
    assert rollout.guidance.usage.calls == 1
    assert rollout.usage.calls == 1


def test_the_same_evidence_is_not_written_up_twice(build: Build) -> None:
    lm = scripted()
    learner = build(DRPG(k=4))
    with dspy.context(lm=lm):
        teach(learner, ("one apple", 0.0))
        first = learner.predict_one({"context": "", "question": "apples"})
        second = learner.predict_one({"context": "", "question": "apples or pears"})

    assert len(writer_prompts(lm)) == 1
    assert second.guidance.policies == first.guidance.policies
    assert second.guidance.counts == {"policy_memo_hits": 1}


@pytest.mark.parametrize(
    "reply", ["", "I cannot do that.", "- ", '{"rules": "none"}', "x" * 50_000]
)
def test_a_reply_without_rules_gives_no_policy_and_is_counted(build: Build, reply: str) -> None:
    learner = build(DRPG(k=4))
    with dspy.context(lm=scripted(reply)):
        teach(learner, ("one apple", 0.0))
        rollout = learner.predict_one({"context": "", "question": "apples"})

    assert not rollout.failed
    assert rollout.guidance.policies == {}
    assert rollout.guidance.counts["rules_unparsable"] == 1


def test_one_side_short_is_not_topped_up(build: Build) -> None:
    learner = build(DRPG(k=8))
    with dspy.context(lm=scripted()):
        ids = teach(learner, ("one apple", 1.0), ("two apples", 1.0), ("three apples", 0.0))
        rollout = learner.predict_one({"context": "", "question": "apples"})

    assert rollout.guidance.retrieved["wrong"] == (ids[2],)
    assert len(rollout.guidance.retrieved["correct"]) == 2


def test_case_writer_writes_once_for_each_failure_and_never_to_propose(build: Build) -> None:
    lm = scripted()
    learner = build(DRPG(k=4, writer=CaseWriter(), feedback_text=True))
    with dspy.context(lm=lm):
        ids = teach(learner, ("one apple", 1.0), ("two apples", 0.0), ("six pears", 1.0))
        written = len(writer_prompts(lm))
        rollout = learner.predict_one({"context": "", "question": "apples"})

    assert written == len(writer_prompts(lm)) == 1
    assert "one apple" in writer_prompts(lm)[0]
    assert "reviewer: note on two apples" in writer_prompts(lm)[0]
    rule = rollout.guidance.policies["self"].rules[0]
    assert rule.text == "Name the unit of every figure."
    assert rule.sources == (ids[1],)


def test_case_rules_that_agree_are_one_rule_with_all_their_cases(build: Build) -> None:
    learner = build(DRPG(k=4, writer=CaseWriter()))
    with dspy.context(lm=scripted()):
        ids = teach(learner, ("one apple", 0.0), ("two apples", 0.0))
        guidance = learner.propose({"context": "", "question": "apples"})

    (rule,) = guidance.policies["self"].rules
    assert set(rule.sources) == set(ids)


def test_cases_are_quoted_as_data_and_long_ones_are_cut_visibly(build: Build) -> None:
    lm = scripted()
    learner = build(DRPG(k=4))
    with dspy.context(lm=lm):
        teach(learner, ("word " * 2000, 0.0))
        learner.propose({"context": "", "question": "word"})

    assert "more characters]" in writer_prompts(lm)[-1]
    assert len(writer_prompts(lm)[-1]) < 6000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be a whole number"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"contrast": "mixed"}, "contrast must be one of"),
        ({"shots": -1}, "shots must be None or"),
        ({"shots": True}, "shots must be None or"),
        ({"previous_policy": "maybe"}, "previous_policy must be True or False"),
        ({"writer": "case"}, "writer must be an instance"),
        ({"writer": CaseWriter}, "writer must be an instance"),
        ({"policy_lm": "gpt"}, "policy_lm must be a dspy.LM"),
        ({"use_feedback": False, "feedback_text": True}, "feedback_text=True"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DRPG(**arguments)


def test_multi_module_programs_get_each_routes_own_examples(build: Build) -> None:
    class Two(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plan = dspy.Predict("question -> plan")
            self.answer = dspy.Predict("question, plan -> answer")

        def forward(self, question: str) -> Any:
            return self.answer(question=question, plan=self.plan(question=question).plan)

    def script(messages: list[dict[str, str]]) -> str:
        if is_writer(messages):
            return '{"rules": ["Think in steps first."]}'
        return fields(plan="a plan", answer="done")

    lm = ScriptedLM(script)
    learner = build(DRPG(k=2), Two())
    with dspy.context(lm=lm):
        rollout = learner.predict_one({"question": "how"})
        learner.learn_one(rollout, 1.0)
        rollout = learner.predict_one({"question": "how else"})

    assert rollout.guidance.shots["plan"] == ({"question": "how", "plan": "a plan"},)
    assert rollout.guidance.shots["answer"] == (
        {"question": "how", "plan": "a plan", "answer": "done"},
    )
    assert set(rollout.guidance.policies) == {"plan", "answer"}


def test_quote_writer_quotes_advice_sentence_by_sentence_without_an_lm_call(build: Build) -> None:
    lm = scripted()
    learner = build(DRPG(k=4, writer=QuoteWriter(), feedback_text=True))
    with dspy.context(lm=lm):
        for question, text in (
            ("one apple", "Report euros. Leave out cancelled orders."),
            ("two apples", "Leave out the cancelled orders!"),
        ):
            rollout = learner.predict_one({"context": "", "question": question})
            learner.learn_one(rollout, Feedback(0.0, text=text, author="person:ada"))
        guidance = learner.propose({"context": "", "question": "apples"})

    rules = guidance.policies["self"].rules
    assert len(rules) == 2
    assert len(rules[0].sources) == 2
    assert "cancelled orders" in rules[0].text
    assert rules[0].author == "person:ada"
    assert writer_prompts(lm) == []


def test_quote_writer_takes_no_finding_of_a_judge_for_advice(build: Build) -> None:
    learner = build(DRPG(k=4, writer=QuoteWriter(), feedback_text=True))
    with dspy.context(lm=scripted()):
        rollout = learner.predict_one({"context": "", "question": "one apple"})
        learner.learn_one(rollout, Feedback(0.0, text="Row 1 differs: got 1, expected 2."))

        assert learner.propose({"context": "", "question": "apples"}).policies == {}


def test_quote_writer_says_once_that_findings_alone_give_it_nothing_to_quote(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    learner = build(DRPG(k=4, writer=QuoteWriter(), feedback_text=True))
    said = ["", "Use euros.\n\nGot 500.", "Use euros.", "Got 500, expected 5."]
    with dspy.context(lm=scripted()):
        for text in said:
            rollout = learner.predict_one({"context": "", "question": "one apple"})
            learner.learn_one(rollout, Feedback(0.0, text=text))
        learner.learn_one(learner.predict_one({"context": "", "question": "two"}), 1.0)

    warnings = [one.getMessage() for one in caplog.records if "QuoteWriter" in one.getMessage()]
    assert len(warnings) == 1
    assert "'metric' said: 'Use euros.'. A judge's advice" in warnings[0]


def test_quote_writer_without_feedback_text_is_refused() -> None:
    with pytest.raises(ValueError, match="feedback_text=True"):
        DRPG(writer=QuoteWriter())
