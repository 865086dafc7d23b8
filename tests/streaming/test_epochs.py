from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import NLPG, Gate, OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.analysis.audit_reading import (
    read_addressed,
    read_causes,
    read_decisions,
    read_instructions,
)
from drpg_dspy.exceptions import CompileFailed, ResumeMismatch
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.streaming import Budget, EpochProgress, run_epoch, run_epochs
from drpg_dspy.testing import ScriptedLM, fields

HELPS, HARMS = "Answer in capital letters.", "Leave out the middle of a word."
Make = Callable[..., OnlinePolicyOptimizer]


class TwoModules(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict("word -> draft")
        self.reply = dspy.Predict("draft -> answer")

    def forward(self, word: str, kind: str = "") -> dspy.Prediction:
        return self.reply(draft=self.draft(word=word).draft)


def script(messages: list[dict[str, str]]) -> str:
    """Copy the word; capitals only when told so. The coach has one good and one bad idea."""
    system, asked = messages[0]["content"], messages[-1]["content"]
    if "modules_at_fault" in system:
        fault = "draft" if "odd" in asked else "reply"
        return json.dumps({"step": 0, "modules_at_fault": [fault], "reason": "?"})
    if "You coach" in system:
        rule = HARMS if "module: draft" in asked else HELPS
        return json.dumps({"rules": [rule], "upstream": ""})
    word = asked.split("## ]]\n")[-1].split("\n")[0].strip()
    if HARMS in asked:
        word = word[0] + word[-1]
    return (
        fields(draft=word)
        if "draft" in asked.rsplit("Respond", 1)[-1]
        else fields(answer=word.upper() if HELPS in asked else word)
    )


def items(split: str, n: int, **more: Any) -> list[dspy.Example]:
    words = [f"{split}word{'odd' if i % 2 else ''}{i}" for i in range(n)]
    return [
        dspy.Example(id=f"{split}{i}", word=word, gold=word.upper(), **more).with_inputs("word")
        for i, word in enumerate(words)
    ]


def metric(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(example.gold == prediction.answer)


@pytest.fixture
def lm() -> Iterator[ScriptedLM]:
    model = ScriptedLM(script)
    with dspy.context(lm=model):
        yield model


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(name: str = "m", program: Any = None, **options: Any) -> OnlinePolicyOptimizer:
        memory = SQLiteMemory(tmp_path / f"{name}.sqlite", HashingEmbedder())
        optimizer = NLPG(**{"window": 4, **options})
        return OnlinePolicyOptimizer(
            program or TwoModules(), optimizer, memory=memory, metric=metric
        )  # fmt: skip

    return made


def test_what_fixes_the_selection_items_is_accepted_and_measured_on_others(
    lm: ScriptedLM, make: Make
) -> None:
    learner = make()

    epoch = run_epoch(learner, items("c", 6), items("s", 6), items("t", 5))

    assert epoch.construction == (0, 6)
    decided = {(tried.route, tried.text): tried.accepted for tried in epoch.tried}
    assert decided == {("reply", HELPS): True, ("draft", HARMS): False}
    (accepted,) = epoch.accepted
    assert (accepted.route, len(accepted.paired.fixed), accepted.paired.broken) == ("reply", 6, ())
    assert epoch.selection.after == 6
    assert epoch.test is not None
    assert (epoch.test.before, epoch.test.after, epoch.test.n) == (0, 5, 5)
    assert epoch.test.sign.two_sided == 0.0625
    guidance = learner.propose({"word": "x"})
    assert set(guidance.policies) <= {"reply"}


def test_items_of_selection_and_test_are_never_learned_from(lm: ScriptedLM, make: Make) -> None:
    learner = make()

    run_epoch(learner, items("c", 6), items("s", 6), items("t", 5))

    assert learner.memory.count() == 6
    coaching = [text for text in lm.texts() if "You coach" in text]
    assert coaching
    assert not any("sword" in text or "tword" in text for text in coaching)


def test_too_few_flips_change_nothing(lm: ScriptedLM, make: Make) -> None:
    learner = make()

    epoch = run_epoch(learner, items("c", 6), items("s", 3))

    assert all(not tried.accepted for tried in epoch.tried)
    assert max(len(tried.paired.fixed) for tried in epoch.tried) == 3  # p = 1/8
    assert (epoch.selection.before, epoch.selection.after, epoch.test) == (0, 0, None)
    assert not learner.propose({"word": "x"}).policies


def test_an_interrupted_epoch_goes_on_and_pays_for_nothing_twice(make: Make) -> None:
    splits = items("c", 6), items("s", 6), items("t", 5)
    whole, broken = ScriptedLM(script), ScriptedLM(script)
    with dspy.context(lm=whole):
        wanted = run_epoch(make("whole"), *splits)
    calls = 0

    def stopping(messages: list[dict[str, str]]) -> str:
        nonlocal calls
        calls += 1
        if calls % 25 == 0:
            raise KeyboardInterrupt
        return script(messages)

    broken.script_engine.script = stopping
    stops = 0
    with dspy.context(lm=broken):
        while True:
            learner = make("pieces")
            try:
                found = run_epoch(learner, *splits)
                break
            except KeyboardInterrupt:
                stops += 1
                learner.close()

    assert stops >= 2
    assert found == wanted
    assert len(broken.prompts) <= len(whole.prompts) + 5 * stops  # the step that was under way


def test_the_next_epoch_begins_with_what_the_last_one_accepted(lm: ScriptedLM, make: Make) -> None:
    learner = make()
    run_epoch(learner, items("c", 6), items("s", 6))

    again = run_epoch(learner, items("d", 4), items("s", 6))

    assert again.construction == (4, 4)
    assert again.selection.before == 6
    assert again.tried == ()


def test_without_a_gate_nothing_is_selected(lm: ScriptedLM, make: Make) -> None:
    epoch = run_epoch(make(gate=None), items("c", 6), items("s", 4))

    assert epoch.tried == ()
    assert epoch.selection.n == 4


def test_splits_that_overlap_are_refused_before_anything_is_asked(
    lm: ScriptedLM, make: Make
) -> None:
    with pytest.raises(ValueError, match=r"construction and test items overlap: 'c2', 'c3'"):
        run_epoch(make(), items("c", 4), items("s", 2), items("c", 4)[2:])
    with pytest.raises(ValueError, match=r"construction and selection items overlap: 'user 1'"):
        run_epoch(make(), items("c", 2, user="user 1"), items("s", 2, user="user 1"), group="user")
    with pytest.raises(ValueError, match="overlap"):
        run_epoch(make(), items("c", 2), items("s", 2), group=lambda example: example.id[1:])

    assert not lm.prompts


def test_items_without_the_field_are_told_apart_by_their_inputs(lm: ScriptedLM, make: Make) -> None:
    bare = [dspy.Example(word=f"w{i}", gold="W").with_inputs("word") for i in range(4)]

    with pytest.raises(ValueError, match="selection and test items overlap"):
        run_epoch(make(), bare[:2], bare[2:3], bare[2:])


def test_a_program_that_only_fails_stops_the_epoch(make: Make) -> None:
    def dead(messages: Any) -> str:
        raise RuntimeError("server is down")

    with dspy.context(lm=ScriptedLM(dead)), pytest.raises(CompileFailed, match="out of reach"):
        run_epoch(make(), items("c", 6), items("s", 6), retries=0)


def test_what_failed_while_the_model_was_away_is_asked_again(make: Make) -> None:
    splits = items("c", 6), items("s", 6), items("t", 5)
    with dspy.context(lm=ScriptedLM(script)):
        wanted = run_epoch(make("whole"), *splits)
    down = True

    def flickering(messages: list[dict[str, str]]) -> str:
        if down and "sword3" in messages[-1]["content"]:
            raise ConnectionError("the server is down")
        if down and "tword" in messages[-1]["content"]:
            raise ConnectionError("the server is down")
        return script(messages)

    with dspy.context(lm=ScriptedLM(flickering)):
        with pytest.raises(CompileFailed, match="out of reach: 5 items failed in a row"):
            run_epoch(make("pieces"), *splits, retries=0)
        down = False
        found = run_epoch(make("pieces"), *splits, retries=0)

    assert (found.test, found.selection) == (wanted.test, wanted.selection)
    assert {one.rollout.rpartition(".")[2] for one in found.before["test"].values()} == {"2"}
    assert found.before["selection"]["s3"].rollout.endswith("plain")  # one failure is a wrong one


def test_a_run_of_epochs_goes_on_until_it_has_as_many_and_says_how_it_stands(
    lm: ScriptedLM, make: Make
) -> None:
    splits = items("c", 6, category="x"), items("s", 6, category="x"), items("t", 5, category="y")
    told: list[EpochProgress] = []
    learner = make()

    (first,) = run_epochs(learner, *splits, progress=told.append)
    calls = len(lm.prompts)
    both = run_epochs(learner, *splits, epochs=2)

    assert both[0] == first
    assert both[1].test is not None
    assert (both[1].test.before, both[1].test.after) == (5, 5)
    assert run_epochs(learner, *splits, epochs=2) == both
    assert len(lm.prompts) == calls + 12  # the construction items under the new policies
    assert first.kinds["t0"] == {"category": ("y",), "routed as": ("",)}
    assert {at.part for at in told} == {"construction", "selection", "test"}
    assert (told[-1].doing, told[-1].done, told[-1].total, told[-1].right) == ("after", 5, 5, 5)
    status = json.loads(learner.memory.get_meta("stream:status") or "{}")
    assert status["state"] == "finished"


def test_a_run_of_epochs_over_other_items_is_refused(lm: ScriptedLM, make: Make) -> None:
    learner = make()
    run_epochs(learner, items("c", 6), items("s", 6), items("t", 5))

    with pytest.raises(ResumeMismatch, match="data"):
        run_epochs(learner, items("d", 6), items("s", 6), items("t", 5), epochs=2)


def test_every_decision_on_a_correction_is_kept_with_its_figures(
    lm: ScriptedLM, make: Make
) -> None:
    learner = make()
    run_epoch(learner, items("c", 6), items("s", 6))

    decided = {d.outcome: d for d in read_decisions(learner.memory)}

    assert {"tried", "accepted", "given up"} <= set(decided)
    assert decided["accepted"].counts["fixed"] == 6
    assert decided["accepted"].evidence == 0.01562  # 1 / 64, as it is kept
    (stands,) = read_instructions(learner.memory)
    assert (stands.decision.text, stands.ended) == (HELPS, None)
    assert stands.trial is not None
    assert len(stands.trial.fixed) == 6
    causes = read_causes(learner.memory, stands.decision)
    assert {cause.id.split(":")[0] for cause in causes} == {"construction"}
    assert all(cause.correction == HELPS for cause in causes)
    assert read_addressed(learner.memory) == {"reply": 3, "draft": 3}


def test_an_item_whose_program_raises_is_a_wrong_one(make: Make) -> None:
    def fragile(messages: list[dict[str, str]]) -> str:
        asked = messages[-1]["content"]
        if "You coach" not in messages[0]["content"] and HELPS in asked:
            raise RuntimeError("the reply cannot be read")
        return script(messages)

    with dspy.context(lm=ScriptedLM(fragile)):
        epoch = run_epoch(make(gate=Gate(level=0.5)), items("c", 6), items("s", 4), retries=0)

    assert epoch.accepted == ()
    assert all(tried.paired.n == 4 for tried in epoch.tried)


def test_another_optimizer_is_refused(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    learner = OnlinePolicyOptimizer(TwoModules(), ZeroShot(), memory=memory)

    with pytest.raises(ValueError, match="NLPG"):
        run_epoch(learner, items("c", 2), items("s", 2))


def test_items_answered_side_by_side_teach_the_same_in_the_same_order(
    lm: ScriptedLM, make: Make
) -> None:
    parts = items("c", 6), items("s", 6), items("t", 5)
    (alone,) = run_epochs(make("alone"), *parts)
    (abreast,) = run_epochs(side := make("side"), *parts, threads=4)

    def flips(epoch: Any) -> list[Any]:
        return [(one.route, one.text, one.accepted, one.paired.fixed) for one in epoch.tried]

    assert flips(abreast) == flips(alone)
    assert abreast.construction == alone.construction
    assert abreast.test is not None
    assert alone.test is not None
    assert (abreast.test.fixed, abreast.test.broken) == (alone.test.fixed, alone.test.broken)
    learned = [one.id for one in side.memory.recent(6)]
    assert [one.split(":")[1] for one in learned] == [f"c{n}" for n in range(6)]


def test_a_budget_that_ends_among_items_side_by_side_keeps_what_was_answered(
    lm: ScriptedLM, make: Make
) -> None:
    parts = items("c", 6), items("s", 12), items("t", 5)
    learner = make()

    epochs = run_epochs(learner, *parts, threads=4, budget=Budget(lm_calls=6))

    answered = learner.memory.count_rollouts()
    assert 3 <= answered <= 3 + 3  # two calls each; three more are under way when it is spent
    assert not any(epoch.finished for epoch in epochs)

    (epoch,) = run_epochs(learner, *parts, threads=4)
    assert epoch.finished


@pytest.mark.parametrize("share", [2, 1])
def test_replies_that_cannot_be_read_are_diagnosed_like_other_failures(
    make: Make, share: int
) -> None:
    class Counted(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.size = dspy.Predict("word -> n: int")
            self.reply = dspy.Predict("n -> answer")

        def forward(self, word: str) -> dspy.Prediction:
            return self.reply(n=self.size(word=word).n)

    def reply(messages: list[dict[str, str]]) -> str:
        asked = messages[-1]["content"]
        if "modules_at_fault" in messages[0]["content"]:
            fault = "size" if "failed: AdapterParseError" in asked else "reply"
            return json.dumps({"step": 1, "modules_at_fault": [fault], "reason": "no number"})
        if "You coach" in messages[0]["content"]:
            return json.dumps({"rules": ["Give digits alone."]})
        spoken = "odd" in asked or share == 1
        return fields(n="about five" if spoken and "digits" not in asked else "5", answer="ok")

    learner = make(program=Counted())
    learner.metric = None
    with dspy.context(lm=ScriptedLM(reply)):
        epoch = run_epoch(
            learner, items("c", 8), items("s", 12), metric=lambda example, answer: answer == "ok"
            if isinstance(answer, str) else answer.answer == "ok"
        )  # fmt: skip

    assert epoch.construction == (8 - 8 // share, 8)
    (tried,) = epoch.tried
    assert (tried.route, tried.text, tried.accepted) == ("size", "Give digits alone.", True)
    assert (epoch.selection.before, epoch.selection.after) == (12 - 12 // share, 12)
