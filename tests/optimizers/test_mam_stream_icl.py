from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMUnexpectedError

from drpg_dspy import MAMStreamICL
from drpg_dspy.testing import ScriptedLM, fields


def agents(*names: str) -> list[ScriptedLM]:
    return [ScriptedLM([fields(answer=name)], model=f"scripted/{name}") for name in names]


def answers(online: Any, scores: Sequence[float], start: int = 0) -> list[str]:
    """Meet questions, one for each score; return who answered."""
    seen = []
    for i, score in enumerate(scores, start):
        rollout = online.predict_one({"context": "", "question": f"number {i}"})
        online.learn_one(rollout, score)
        seen.append(rollout.outputs["answer"])
    return seen


def test_agents_take_turns_and_share_what_any_of_them_got_right(learner: Any) -> None:
    lms = agents("a", "b", "c")
    online = learner(MAMStreamICL(lms, k=4))

    assert answers(online, [1.0, 0.0, 1.0, 1.0, 1.0]) == ["a", "b", "c", "a", "b"]
    last = lms[1].texts()[-1]
    assert all(f"[[ ## answer ## ]]\n{name}\n" in last for name in "ac")
    assert "number 1" not in last  # what b got wrong
    assert "verdict" not in last


def test_who_answered_stands_in_the_counts(learner: Any) -> None:
    online = learner(MAMStreamICL(agents("a", "b")))
    answers(online, [1.0] * 3)

    counts = [rollout.guidance.counts for rollout, _ in online.memory.rollouts()]
    assert counts == [{"agent_0": 1}, {"agent_1": 1}, {"agent_0": 1}]


def test_turns_count_rollouts_whatever_became_of_them(learner: Any) -> None:
    """Also those that were not judged, proved nothing, or failed."""
    good, bad = agents("good")[0], ScriptedLM(lambda messages: 1 / 0)  # type: ignore[arg-type]
    online = learner(MAMStreamICL([good, bad]))
    unjudged = answers(online, [math.nan])
    failed = online.predict_one({"context": "", "question": "q"})
    online.predict_one({"context": "", "question": "never judged"})

    assert unjudged == ["good"]
    assert failed.failed
    with pytest.raises(LMUnexpectedError, match="scripted/lm"):
        online(context="", question="the bad one's turn")
    assert online(context="", question="q").answer == "good"


def test_a_run_goes_on_with_the_right_agent_wherever_it_stopped(learner: Any) -> None:
    def make() -> MAMStreamICL:
        return MAMStreamICL(agents("a", "b", "c"), k=2)

    scores = [float(i % 3 != 1) for i in range(10)]
    whole = answers(learner(make(), name="whole"), scores)
    pieces = []
    for i, score in enumerate(scores):
        online = learner(make(), name="pieces")
        pieces += answers(online, [score], start=i)
        online.close()

    assert pieces == whole == list("abcabcabca")


async def test_async_and_other_calls_take_their_turns_too(learner: Any) -> None:
    online = learner(MAMStreamICL(agents("a", "b")))
    seen = [online(context="", question="q").answer]
    seen.append((await online.acall(context="", question="q")).answer)
    seen.append(online(context="", question="q").answer)

    assert seen == ["a", "b", "a"]


def test_none_is_the_lm_that_is_configured(learner: Any) -> None:
    (configured, other) = agents("configured", "other")
    online = learner(MAMStreamICL([None, other]))
    with dspy.context(lm=configured):
        assert answers(online, [1.0, 1.0]) == ["configured", "other"]


def test_all_routes_of_a_program_are_served_by_one_agent(learner: Any, two_routes: Any) -> None:
    lms = [ScriptedLM([fields(terms=name, answer=name)]) for name in "ab"]
    online = learner(MAMStreamICL(lms), two_routes)
    online(question="q", context="")
    online(question="q", context="")

    assert [len(lm.prompts) for lm in lms] == [2, 2]


def test_where_retrieval_fails_the_first_agent_answers(learner: Any, monkeypatch: Any) -> None:
    online = learner(MAMStreamICL(agents("a", "b")))
    answers(online, [1.0])

    def broken(*args: Any) -> Any:
        raise RuntimeError("the index is gone")

    monkeypatch.setattr(type(online.memory), "search", broken)

    assert online(context="", question="q").answer == "a"


def test_a_program_whose_predictors_have_lms_of_their_own_is_refused(learner: Any) -> None:
    program = dspy.Predict("context, question -> answer")
    program.set_lm(agents("own")[0])

    with pytest.raises(ValueError, match=r"MAMStreamICL.*scripted/a.*set_lm\(None\)"):
        learner(MAMStreamICL(agents("a", "b")), program)(context="", question="q")


def test_a_compiled_program_keeps_right_answers_of_all_agents(learner: Any) -> None:
    online = learner(MAMStreamICL(agents("a", "b"), k=3))
    answers(online, [1.0, 1.0, 0.0, 1.0])

    kept = online.optimizer.consolidate(online.memory).shots["self"]

    assert [shot["answer"] for shot in kept] == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("lms", "message"),
    [
        ([], "at least two agents, got 0"),
        ([None], r"at least two.*SelfStreamICL"),
        ("openai/gpt-4o", "lms must be a list"),
        (ScriptedLM(["x"]), "lms must be a list"),
        ([None, "openai/gpt-4o"], r"lms\[1\] must be a dspy.LM"),
    ],
)
def test_wrong_agents_are_named(lms: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MAMStreamICL(lms)
