from __future__ import annotations

import json
from typing import Any

import dspy
import pytest

from drpg_dspy import JERP
from drpg_dspy.online.baking import bake
from drpg_dspy.testing import ScriptedLM, fields


def kind(messages: list[dict[str, str]]) -> str:
    system = messages[0]["content"]
    if "more of them" in system:
        return "merge"
    return "edit" if "rules of experience" in system else "program"


def play(edit: Any, merge: Any = "{}") -> ScriptedLM:
    """A model that answers 42 and edits the pool as told: a text, or texts in turn."""
    replies = {"edit": edit, "merge": merge}

    def reply(messages: list[dict[str, str]]) -> str:
        asked = kind(messages)
        if asked == "program":
            return fields(answer="42")
        chosen = replies[asked]
        if isinstance(chosen, list):
            return chosen.pop(0) if len(chosen) > 1 else chosen[0]
        return chosen(messages) if callable(chosen) else chosen

    return ScriptedLM(reply)


def edits(*operations: tuple[str, Any]) -> str:
    """Write edits: (op, text), (op, id), (op, (id, text)) or (op, ([ids], text))."""
    made = []
    for op, what in operations:
        if op == "add":
            made.append({"op": "ADD", "text": what})
        elif op in ("upvote", "downvote"):
            made.append({"op": op.upper(), "id": what})
        elif op == "edit":
            made.append({"op": "EDIT", "id": what[0], "text": what[1]})
        else:
            made.append({"op": op.upper(), "ids": what[0], "text": what[1]})
    return json.dumps({"edits": made})


ROAD, SEA, SUM = "Roads are in km.", "Seas are wide.", "Check each sum twice."


def pool(online: Any) -> list[tuple[str, str, float]]:
    return [(note.id, note.text, note.score) for note in online.optimizer.pool]


def test_rules_begin_with_a_score_and_the_best_are_given(learner: Any, teach: Any) -> None:
    steps = [edits(("add", ROAD), ("add", SEA), ("add", SUM)), edits(("upvote", "rule-2")), "{}"]
    online = learner(JERP(top=2))
    with dspy.context(lm=play(steps)):
        teach(online, ("a?", 0.0), ("b?", 1.0))
        (last,) = teach(online, ("c?", 1.0))

    assert pool(online) == [("rule-2", SEA, 3.0), ("rule-1", ROAD, 2.0), ("rule-3", SUM, 2.0)]
    assert online.memory.rollout(last).guidance.policies["self"].text == f"- {SEA}\n- {ROAD}"


def test_the_five_operations_change_scores_by_the_steps_given(learner: Any, teach: Any) -> None:
    steps = [
        edits(("add", ROAD), ("add", SEA), ("add", SUM)),
        edits(
            ("edit", ("rule-1", "Roads are given in km.")),
            ("upvote", "rule-2"),
            ("downvote", "rule-3"),
        ),
        edits(("merge", (["rule-2", "rule-3"], "Seas are wide and sums are checked."))),
    ]
    online = learner(JERP(top=3, start=5.0, up=0.5, down=1.5))
    with dspy.context(lm=play(steps)):
        teach(online, ("a?", 0.0), ("b?", 1.0))
        after_votes = pool(online)
        teach(online, ("c?", 1.0))

    assert after_votes == [
        ("rule-1", "Roads are given in km.", 5.5),
        ("rule-2", SEA, 5.5),
        ("rule-3", SUM, 3.5),
    ]
    assert pool(online) == [
        ("rule-1", "Roads are given in km.", 5.5),
        ("rule-2", "Seas are wide and sums are checked.", 5.5),
    ]


def test_adding_what_is_there_votes_for_it(learner: Any, teach: Any) -> None:
    online = learner(JERP())
    with dspy.context(lm=play([edits(("add", ROAD)), edits(("add", "All roads are in km"))])):
        ids = teach(online, ("a?", 0.0), ("b?", 0.0))

    assert pool(online) == [("rule-1", ROAD, 3.0)]
    assert online.optimizer.pool[0].sources == tuple(ids)


def test_a_rule_at_the_floor_is_pruned(learner: Any, teach: Any) -> None:
    down = edits(("downvote", "rule-1"))
    online = learner(JERP(floor=0.0))
    with dspy.context(lm=play([edits(("add", ROAD), ("add", SEA)), down, down])):
        teach(online, ("a?", 0.0), ("b?", 0.0))
        assert len(online.optimizer.pool) == 2
        teach(online, ("c?", 0.0))

    assert pool(online) == [("rule-2", SEA, 2.0)]
    assert online.optimizer.counters["rules_pruned"] == 1


def test_one_answer_votes_once_on_a_rule_and_a_revised_verdict_takes_it_back(
    learner: Any, teach: Any
) -> None:
    votes = edits(("upvote", "rule-1"), ("upvote", "rule-1"), ("downvote", "rule-1"))
    online = learner(JERP())
    with dspy.context(lm=play([edits(("add", ROAD)), votes, edits(("downvote", "rule-1"))])):
        _, id = teach(online, ("a?", 0.0), ("b?", 1.0))
        voted = pool(online)[0][2]
        online.feedback(id, 0.0)

    assert voted == 3.0
    assert pool(online)[0][2] == 1.0


def test_a_full_pool_is_merged_by_the_lm(learner: Any, teach: Any) -> None:
    merge = edits(("merge", (["rule-1", "rule-2"], "Roads are in km and seas wide.")))
    lm, online = (
        play(edits(("add", ROAD), ("add", SEA), ("add", SUM)), merge),
        learner(JERP(top=2, capacity=2)),
    )
    with dspy.context(lm=lm):
        teach(online, ("a?", 0.0))

    assert [text for _, text, _ in pool(online)] == ["Roads are in km and seas wide.", SUM]
    assert [kind(messages) for messages in lm.prompts] == ["program", "edit", "merge"]
    assert len(lm.prompts) - 1 == JERP.max_lm_calls


@pytest.mark.parametrize("merge", ["", "I cannot.", edits(("merge", (["rule-1", "x"], "No.")))])
def test_the_capacity_holds_whatever_the_lm_says(learner: Any, teach: Any, merge: str) -> None:
    def edit(messages: list[dict[str, str]]) -> str:
        n = len(messages[-1]["content"])
        return edits(*(("add", f"Road {n + i} is {i + 3} km long.") for i in range(6)))

    online = learner(JERP(top=2, capacity=4))
    with dspy.context(lm=play(edit, merge)):
        for i in range(5):
            teach(online, (f"q{i}", 0.0))
            assert len(online.optimizer.pool) <= 4

    assert online.optimizer.counters["rules_merged_by_force"] > 5


def test_an_answer_is_compared_with_the_nearest_right_ones_and_not_with_itself(
    learner: Any, teach: Any
) -> None:
    lm, online = play("{}"), learner(JERP(references=1))
    with dspy.context(lm=lm):
        ids = teach(
            online, ("How far is Rome?", 1.0), ("What is a sea?", 1.0), ("How far is Bern?", 0.0)
        )
        asked = lm.texts()[-1]
        online.feedback(ids[0], 1.0, text="again")

    assert "How far is Rome?" in asked
    assert "What is a sea?" not in asked
    assert asked.index("How far is Rome?") < asked.index("How far is Bern?")
    assert lm.texts()[-1].count("How far is Rome?") == 1


@pytest.mark.parametrize("reply", ["", "I cannot.", "[[[", '{"edits": "none"}'])
def test_replies_that_cannot_be_read_change_nothing(learner: Any, teach: Any, reply: str) -> None:
    online = learner(JERP())
    with dspy.context(lm=play([edits(("add", ROAD)), reply])):
        teach(online, ("a?", 0.0), ("b?", 0.0))

    assert pool(online) == [("rule-1", ROAD, 2.0)]


def test_a_dead_editor_leaves_the_pool_as_it_was(learner: Any, teach: Any) -> None:
    def dead(messages: Any) -> str:
        raise ConnectionError("no route to host")

    many = edits(("add", ROAD), ("add", SEA), ("add", SUM))
    online = learner(JERP(top=1, capacity=2))
    with dspy.context(lm=play(many, dead)):
        rollout = online.predict_one({"context": "", "question": "q"})
        online.learn_one(rollout, 0.0)

    assert pool(online) == []


class Trainable(ScriptedLM):
    """A model whose training is asked for and begins; no weights are here to change."""

    def reinforce(self, train_kwargs: Any, **more: Any) -> Any:
        raise KeyboardInterrupt(f"training asked for: {sorted(train_kwargs)}")


def test_the_working_set_is_baked_into_the_student_that_grpo_trains(learner: Any) -> None:
    from dspy.teleprompt.grpo import GRPO

    online = learner(JERP(top=1), dspy.Predict("question -> answer"))
    with dspy.context(lm=play(edits(("add", ROAD), ("add", SEA)))):
        rollout = online.predict_one({"question": "a?"})
        online.learn_one(rollout, 0.0)
    student = bake(online.program.deepcopy(), online.optimizer.consolidate(online.memory))
    lm = Trainable([fields(answer="42")])
    student.set_lm(lm)
    train = [dspy.Example(question="b?", answer="42").with_inputs("question")]

    grpo = GRPO(metric=lambda *_: 1.0, exclude_demos=True, num_train_steps=1)
    with pytest.raises(KeyboardInterrupt, match="num_generations"):
        grpo.compile(student, trainset=train)

    assert f"- {ROAD}" in student.signature.instructions
    assert SEA not in student.signature.instructions
    student(question="b?")
    assert ROAD in lm.texts()[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"top": 0},
        {"top": 5, "capacity": 4},
        {"up": 0},
        {"down": -1},
        {"floor": 3, "start": 3},
        {"references": -1},
        {"floor": "low"},
        {"policy_lm": "openai/x"},
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=list(options)[-1]):
        JERP(**options)
