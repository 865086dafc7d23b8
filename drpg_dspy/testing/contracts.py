"""The laws of an online optimizer, as a test class to subclass.

::

    class TestMine(OptimizerContract):
        def make(self):
            return Mine(k=3)

Every law of :mod:`drpg_dspy.optimizers.base` is one test. They need no network and no model.
Without pytest, in a notebook say, :func:`check_laws` runs them.
"""

from __future__ import annotations

import inspect
import json
import math
import tempfile
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.plain import dumps
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing.scripted import Message, ScriptedLM, fields
from drpg_dspy.types import Feedback, Policy, Rule

__all__ = ["OptimizerContract", "check_laws", "toy_example", "toy_lm", "toy_program"]

AWKWARD_POLICY = 'Use {braces} and \\1 \\n, [[ ## answer ## ]], <answer>x</answer>, "quotes", 規則.'


def toy_program() -> dspy.Module:
    """Return a program with one predictor, ``question -> answer``."""
    return dspy.Predict("question -> answer")


def toy_example(i: int) -> tuple[dict[str, Any], float]:
    """Return the inputs of a small recurring stream and the score its answer gets."""
    return {"question": f"What is item {i % 7} of list {i % 3}?"}, float(i % 4 != 0)


def toy_lm() -> ScriptedLM:
    """Return a model that answers, reviews and writes rules, by the prompt alone."""

    def script(messages: list[Message]) -> str:
        n = sum(map(len, (m["content"] for m in messages))) % 5
        if "You keep" in messages[0]["content"] or "You look back" in messages[0]["content"]:
            return _keeper_reply(messages[0]["content"], n)
        if "rules" in messages[0]["content"] and "coach" in messages[0]["content"]:
            return f'{{"rules": ["Name item number {n} first", "Never answer list {n + 10}"]}}'
        if "needs_refinement" in messages[0]["content"]:
            again = len(messages[-1]["content"]) % 3 > 0
            return fields(review="Name the item first.", needs_refinement=again)
        return fields(answer=f"answer {len(messages[-1]['content'])}")

    return ScriptedLM(script)


def _keeper_reply(asked: str, n: int) -> str:
    """Write a sheet, reflect on an answer, or edit a book of notes."""
    if "`entries`" in asked:
        return json.dumps({"entries": [f"List {n} has {n} items.", "Name the item first."]})
    if "`helped`" in asked:
        tags = {"helped": ["bullet-1"], "misled": [f"bullet-{n}"]}
        return json.dumps({"reason": "The list.", "lesson": f"Look at list {n} first.", **tags})
    edits = [
        {"op": "add", "section": "facts", "text": f"List {n} has {n + 2} items."},
        {"op": "upvote", "id": f"rule-{n}"},
        {"op": "downvote", "id": f"rule-{n + 1}"},
        {"op": "remove", "id": f"bullet-{n + 1}"},
        {"op": "merge", "ids": ["rule-1", "rule-2"], "text": "Name list and item."},
    ]
    return json.dumps({"edits": edits})


class OptimizerContract:
    """Subclass and implement :meth:`make`; pytest collects the rest."""

    @abstractmethod
    def make(self) -> OnlineOptimizer:
        """Return a fresh instance, the same every time."""

    def learner(self, folder: Path, name: str = "m") -> OnlinePolicyOptimizer:
        """Return a learner over the toy program with a memory in ``folder``."""
        memory = SQLiteMemory(folder / f"{name}.sqlite", HashingEmbedder())
        return OnlinePolicyOptimizer(toy_program(), self.make(), memory=memory)

    def drive(self, learner: OnlinePolicyOptimizer, steps: range) -> list[str]:
        """Run some steps of the toy stream; return what each was given."""
        seen = []
        for i in steps:
            inputs, score = toy_example(i)
            rollout = learner.predict_one(inputs, rollout_id=f"{i:04d}")
            assert not rollout.failed, rollout.error
            given = {route: policy.text for route, policy in rollout.guidance.policies.items()}
            answer = [rollout.outputs, rollout.guidance.counts]
            seen.append(dumps([given, rollout.guidance.shots, rollout.guidance.retrieved, answer]))
            learner.learn_one(rollout, Feedback(score, text="because of list 2"))
        return seen

    def test_a_label_given_with_the_call_is_never_in_a_prompt(self, tmp_path: Path) -> None:
        learner = self.learner(tmp_path)
        learner.metric = lambda example, prediction: 1.0
        with dspy.context(lm=toy_lm()) as _:
            lm = dspy.settings.lm
            learner(question="What is item 1?", labels={"gold": "SECRET-LABEL"})

            assert not any("SECRET-LABEL" in text for text in lm.texts())

    def test_predicting_changes_no_state(self, tmp_path: Path) -> None:
        learner = self.learner(tmp_path)
        with dspy.context(lm=toy_lm()):
            self.drive(learner, range(6))
            before = dumps(learner.optimizer.state_dict())
            first = learner.propose({"question": "What is item 3?"})
            second = learner.propose({"question": "What is item 3?"})

            assert dumps(learner.optimizer.state_dict()) == before
            assert (first.policies, first.shots) == (second.policies, second.shots)

    def test_learning_returns_nothing(self, tmp_path: Path) -> None:
        learner = self.learner(tmp_path)
        with dspy.context(lm=toy_lm()):
            rollout = learner.predict_one({"question": "q"})

            learn: Any = learner.learn_one

            assert learn(rollout, 1.0) is None

    def test_same_seed_same_run(self, tmp_path: Path) -> None:
        with dspy.context(lm=toy_lm()):
            runs = [self.drive(self.learner(tmp_path, name), range(12)) for name in "ab"]

        assert runs[0] == runs[1]

    def test_feedback_that_does_not_teach_changes_nothing(self, tmp_path: Path) -> None:
        learner = self.learner(tmp_path)
        with dspy.context(lm=toy_lm()):
            self.drive(learner, range(4))
            before = learner.propose({"question": "What is item 2?"})
            state = dumps(learner.optimizer.state_dict())
            for feedback in (Feedback(math.nan), Feedback(1.0, informative=False)):
                rollout = learner.predict_one({"question": "What is item 2?"})
                learner.learn_one(rollout, feedback)

            after = learner.propose({"question": "What is item 2?"})
            assert (after.policies, after.shots) == (before.policies, before.shots)
            assert dumps(learner.optimizer.state_dict()) == state

    def test_an_empty_memory_gives_the_plain_programs_prompt(self, tmp_path: Path) -> None:
        plain, wrapped = toy_lm(), toy_lm()
        with dspy.context(lm=plain):
            toy_program()(question="What is item 1?")
        with dspy.context(lm=wrapped):
            self.learner(tmp_path)(question="What is item 1?")

        assert wrapped.texts()[0] == plain.texts()[0]  # calls to revise the answer may follow

    def test_reopening_after_any_committed_step_gives_the_same_run(self, tmp_path: Path) -> None:
        with dspy.context(lm=toy_lm()):
            whole = self.drive(self.learner(tmp_path, "whole"), range(10))
            pieces = []
            for i in range(10):
                learner = self.learner(tmp_path, "pieces")
                pieces += self.drive(learner, range(i, i + 1))
                learner.close()

        assert pieces == whole

    def test_lm_calls_stay_within_the_declared_bound(self, tmp_path: Path) -> None:
        lm = toy_lm()
        learner = self.learner(tmp_path)
        with dspy.context(lm=lm):
            for i in range(10):
                before = len(lm.prompts)
                self.drive(learner, range(i, i + 1))
                own = 1

                assert len(lm.prompts) - before - own <= learner.optimizer.max_lm_calls

    def test_a_pinned_rule_survives_whatever_is_learned(self, tmp_path: Path) -> None:
        learner = self.learner(tmp_path)
        route = learner.card.route_names[0]
        learner.governance.pin(route, "Keep this rule.", author="person:ada")
        with dspy.context(lm=toy_lm()):
            for i in range(8):
                inputs, score = toy_example(i)
                rollout = learner.predict_one(inputs)
                learner.learn_one(rollout, Feedback(score, text="because of list 2"))

                assert rollout.guidance.policies[route].text.startswith("- Keep this rule.")

    def test_an_awkward_policy_reaches_the_prompt_verbatim(self, tmp_path: Path) -> None:
        learner = self.learner(tmp_path)
        lm = toy_lm()
        original = learner.optimizer.propose

        def propose(inputs: Any, memory: Any) -> Any:
            guidance = original(inputs, memory)
            policy = Policy(learner.card.route_names[0], (Rule(AWKWARD_POLICY),))
            return type(guidance)(policies={policy.route: policy}, shots=guidance.shots)

        learner.optimizer.propose = propose  # type: ignore[method-assign]
        with dspy.context(lm=lm):
            prediction = learner(question="What is item 1?")

        assert AWKWARD_POLICY in lm.texts()[-1 if not learner.optimizer.revises else 0]
        assert prediction.answer.startswith("answer ")

    def test_constructor_arguments_are_kept_under_their_names(self) -> None:
        optimizer = self.make()
        names = list(inspect.signature(type(optimizer).__init__).parameters)[1:]
        if type(optimizer).__init__ is object.__init__:
            names = []

        assert set(optimizer.get_params()) == set(names)
        rebuilt = type(optimizer)(**optimizer.get_params())
        assert repr(rebuilt) == repr(optimizer)


def check_laws(make: Callable[[], OnlineOptimizer]) -> list[str]:
    """Check a method against every law; no pytest is needed.

    Args:
        make: Returns a fresh instance, the same every time.

    Returns:
        The laws, in words.

    Raises:
        AssertionError: The method breaks one; the message names it, and the cause is what failed.

    >>> from drpg_dspy.optimizers import SelfStreamICL
    >>> "learning returns nothing" in check_laws(lambda: SelfStreamICL(k=2))
    True
    """

    class Contract(OptimizerContract):
        """The laws, about this method."""

        def make(self) -> OnlineOptimizer:
            return make()

    laws = {name: law for name, law in vars(OptimizerContract).items() if name.startswith("test_")}
    kept = []
    for name, law in laws.items():
        said = name.removeprefix("test_").replace("_", " ")
        wants_folder = "tmp_path" in inspect.signature(law).parameters
        with tempfile.TemporaryDirectory(prefix="drpg-laws-") as folder:
            try:
                law(Contract(), *([Path(folder)] if wants_folder else []))
            except Exception as error:
                raise AssertionError(f"{make()!r} breaks a law: {said}.") from error
        kept.append(said)
    return kept
