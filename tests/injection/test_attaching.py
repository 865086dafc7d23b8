from __future__ import annotations

import copy
import logging
from typing import Any

import dspy
import pytest

from drpg_dspy.injection import attach, detach, routes, set_policy, use_policy
from drpg_dspy.types import PolicyField, ShotsField


class Hop(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = dspy.ChainOfThought("question -> query")
        self.answer = dspy.Predict("question, query -> answer")

    def forward(self, question: str) -> Any:
        query = self.query(question=question).query
        return self.answer(question=question, query=query)


class Traced(dspy.Predict):
    pass


def snapshot(program: dspy.Module) -> list[tuple[str, type, dict[str, Any]]]:
    found = program.named_sub_modules()
    return [(name, type(part), dict(part.__dict__)) for name, part in found]


def test_cards_tell_names_tasks_and_fields_without_ours() -> None:
    class Open(dspy.Signature):
        """Translate."""

        text: str = dspy.InputField()
        policy: str = PolicyField()
        shots: str = ShotsField()
        out: str = dspy.OutputField()

    (card,) = attach(dspy.Predict(Open))
    assert (card.name, card.instructions) == ("self", "Translate.")
    assert (card.inputs, card.outputs) == (("text",), ("out",))
    first, second = attach(Hop())
    assert (first.name, first.outputs) == ("query.predict", ("reasoning", "query"))
    assert (second.name, second.inputs) == ("answer", ("question", "query"))


def test_detaching_gives_back_the_program_as_it_was() -> None:
    program = Hop()
    before = snapshot(program)
    attach(program)
    with dspy.context(lm=dspy.utils.DummyLM([{"reasoning": "r", "query": "q", "answer": "a"}] * 9)):
        with use_policy({"answer": "- a"}):
            program(question="q")
    for predictor in routes(program).values():
        predictor.history.clear()
    program.history.clear()
    program.query.history.clear()
    set_policy(program, {"answer": "- b"})
    detach(program)
    assert snapshot(program) == before
    assert [list(state) for *_, state in snapshot(program)] == [list(s) for *_, s in before]


def test_attaching_twice_changes_nothing() -> None:
    program = Hop()
    attach(program)
    kinds = [type(p) for p in routes(program).values()]
    slots = [p.__dict__["_drpg_slot"].owner for p in routes(program).values()]
    attach(program)
    assert [type(p) for p in routes(program).values()] == kinds
    assert [p.__dict__["_drpg_slot"].owner for p in routes(program).values()] == slots


def test_an_attached_predictor_shows_the_users_class() -> None:
    class Mine(dspy.Predict):
        """My own."""

    program = Mine("question -> answer")
    text = repr(program)
    attach(program)
    assert repr(program) == text
    assert type(program).__name__ == "Mine"
    assert type(program).__module__ == Mine.__module__
    assert isinstance(program, Mine)


def test_classes_are_made_once() -> None:
    one, two = Traced("question -> answer"), Traced("question -> answer")
    attach(one)
    attach(two)
    assert type(one) is type(two)


def test_a_program_without_predictors_is_refused_with_the_remedy() -> None:
    class Empty(dspy.Module):
        def forward(self, question: str) -> Any:
            return dspy.Predict("question -> answer")(question=question)

    with pytest.raises(ValueError, match=r"Empty holds no predictor.*__init__"):
        attach(Empty())


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected a dspy\.Module, got str: 'q -> a'"):
        attach("q -> a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"placement": "system"}, "placement must be one of .*'system'"),
        ({"field": "my policy"}, "field must be a Python name, got 'my policy'"),
    ],
)
def test_odd_arguments_are_refused(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        attach(dspy.Predict("question -> answer"), **arguments)


@pytest.mark.parametrize("signature", ["policy, question -> answer", "question -> policy"])
def test_a_field_of_the_users_named_policy_is_refused_and_nothing_is_attached(signature) -> None:
    program = Hop()
    program.last = dspy.Predict(signature)
    before = snapshot(program)
    with pytest.raises(ValueError, match=r"Route 'last'.*PolicyField\(\).*field="):
        attach(program)
    assert snapshot(program) == before
    assert len(attach(program, field="learned_policy")) == 3


def test_another_field_name_is_used_in_the_prompt(lm) -> None:
    program = dspy.Predict("policy, question -> answer")
    attach(program, field="guidelines")
    with use_policy({"self": "- learned"}):
        program(question="q", policy="mine")
    text = lm.texts()[-1]
    assert "[[ ## guidelines ## ]]\n- learned" in text
    assert "[[ ## policy ## ]]\nmine" in text


def test_a_compiled_sub_module_is_reached_with_a_warning(lm, caplog) -> None:
    program = Hop()
    program.query._compiled = True
    assert "query.predict" not in dict(program.named_predictors())
    with caplog.at_level(logging.WARNING):
        attach(program)
    assert list(routes(program)) == ["answer", "query.predict"]
    assert "Route 'query.predict' is hidden from DSPy" in caplog.text
    with use_policy({"query.predict": "- hidden rule"}):
        program(question="q")
    assert "- hidden rule" in lm.texts()[0]
    detach(program)
    assert type(program.query.predict) is dspy.Predict


def test_histories_are_not_searched_for_predictors() -> None:
    class Untouchable(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("searched")

    program = Hop()
    for part in (program, program.query):
        part.history = Untouchable([{"prompt": "long ago"}])

    assert list(routes(program)) == ["query.predict", "answer"]


def test_candidates_that_an_optimizer_tried_are_no_routes() -> None:
    program = dspy.Predict("question -> answer")
    tried = [program.deepcopy(), program.deepcopy()]
    program.candidate_programs = [{"score": 1.0, "program": tried[0]}]  # as MIPROv2 leaves them
    program.trial_logs = {1: {"full_eval_program": tried[1]}}

    attach(program)

    assert list(routes(program)) == ["self"]
    assert [type(one) for one in tried] == [dspy.Predict, dspy.Predict]


def test_predictors_in_nested_lists_are_reached(lm) -> None:
    class Grid(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = [[dspy.Predict("question -> answer")]]

        def forward(self, question: str) -> Any:
            return self.cells[0][0](question=question)

    program = Grid()
    attach(program)
    with use_policy({"cells[0][0]": "- deep"}):
        program(question="q")
    assert "- deep" in lm.texts()[0]


def test_detaching_restores_a_predictor_that_another_library_has_wrapped(lm, caplog) -> None:
    program = Hop()
    attach(program)
    layer = type("Layer", (type(program.answer),), {})
    program.answer.__class__ = layer
    attach(program)
    assert type(program.answer) is layer
    with use_policy({"answer": "- still here"}):
        program(question="q")
    assert "- still here" in lm.texts()[-1]
    with caplog.at_level(logging.WARNING):
        detach(program)
    assert type(program.answer) is dspy.Predict
    assert "Layer was laid over an attached Predict" in caplog.text


def test_attaching_again_mends_a_predictor_whose_class_was_replaced(lm) -> None:
    program = Hop()
    attach(program)
    program.answer.__class__ = Traced
    attach(program)
    with use_policy({"answer": "- back"}):
        program(question="q")
    assert "- back" in lm.texts()[-1]
    detach(program)
    assert type(program.answer) is Traced


def test_a_class_brought_along_by_a_saved_program_is_replaced(lm) -> None:
    program = Hop()
    brought = type("Predict", (dspy.Predict,), {"_drpg_plain_class": dspy.Predict})
    program.answer.__class__ = brought
    attach(program)
    assert brought not in type(program.answer).__mro__
    with use_policy({"answer": "- once"}, {"answer": [{"answer": "shown once"}]}):
        program(question="q")
    assert lm.texts()[-1].count("shown once") == 1
    detach(program)
    assert type(program.answer) is dspy.Predict


def test_other_parameters_than_predictors_are_left_alone(lm) -> None:
    class Retrieves(Hop):
        def __init__(self) -> None:
            super().__init__()
            self.retrieve = dspy.Retrieve(k=1)

    program = Retrieves()
    assert [card.name for card in attach(program)] == ["query.predict", "answer"]
    assert type(program.retrieve) is dspy.Retrieve


def test_a_predictor_moved_into_another_program_is_named_anew_and_said_so(lm, caplog) -> None:
    inner = dspy.ChainOfThought("question -> answer")
    attach(inner)
    outer = dspy.BestOfN(inner, N=1, reward_fn=lambda a, p: 1.0, threshold=0.5)
    with caplog.at_level(logging.WARNING):
        attach(outer)
    assert "route 'predict' of another program is now route 'module.predict'" in caplog.text
    with use_policy({"module.predict": "- moved"}):
        outer(question="q")
    assert "- moved" in lm.texts()[-1]


def test_a_copy_made_during_a_call_can_rewrite_its_signature(lm) -> None:
    class Rewrites(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            other = copy.deepcopy(self.answer)
            other.signature = other.signature.with_instructions("Be terse.")
            other(question=question)
            return self.answer(question=question)

    program = Rewrites()
    attach(program)
    with use_policy({"answer": "- rule"}):
        program(question="q")
    rewritten, original = lm.texts()
    assert "Be terse." in rewritten
    assert rewritten.count("- rule") == original.count("- rule") == 1
    assert "Be terse." not in original
    assert list(program.answer.signature.input_fields) == ["question"]


def test_a_signature_class_shared_and_changed_in_place_is_followed(lm) -> None:
    class Shared(dspy.Signature):
        """Answer."""

        question: str = dspy.InputField()
        answer: str = dspy.OutputField()

    program = Hop()
    program.query, program.answer = dspy.Predict(Shared), dspy.Predict(Shared)
    attach(program)
    with use_policy({"query": "- rule", "answer": "- rule"}):
        program.query(question="q")
        Shared.instructions = "Answer in French."
        program.query(question="q")
        program.answer(question="q")
    before, *after = lm.texts()
    assert "Answer in French." not in before
    assert all("Answer in French." in text and "- rule" in text for text in after)


class TestOwnPolicy:
    def test_it_is_in_force_where_no_scope_says_otherwise(self, lm) -> None:
        program = Hop()
        set_policy(program, {"answer": "- own"})
        program(question="q")
        with use_policy({"query.predict": "- other"}):
            program(question="q")
        with use_policy({"answer": "- scoped"}):
            program(question="q")
        with use_policy({"answer": ""}):
            program(question="q")
        answers = lm.texts()[1::2]
        assert ["- own" in text for text in answers] == [True, True, False, False]
        assert "- scoped" in answers[2]
        assert "policy" not in answers[3]

    def test_it_is_copied_with_the_program_and_survives_reset(self, lm) -> None:
        program = Hop()
        set_policy(program, {"answer": "- own"})
        program.deepcopy()(question="q")
        program.reset_copy()(question="q")
        assert all("- own" in text for text in lm.texts()[1::2])

    def test_an_empty_one_takes_it_away(self, lm) -> None:
        program = Hop()
        set_policy(program, {"answer": "- own"})
        set_policy(program, {"answer": " \n"})
        program(question="q")
        assert "own" not in lm.texts()[-1]

    def test_an_unknown_route_is_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match=r"\['anser'\].*'answer', 'query.predict'"):
            set_policy(Hop(), {"anser": "- x"})

    def test_what_is_no_text_is_refused(self) -> None:
        with pytest.raises(ValueError, match="policy of route 'answer' must be a text, got 3"):
            set_policy(Hop(), {"answer": 3})  # type: ignore[dict-item]
