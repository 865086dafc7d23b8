"""Each kind of DSPy module: its prompts are unchanged without a policy, and carry it with one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.adapters.types.decision import Noul
from dspy.primitives import LocalInterpreter

from drpg_dspy.injection import attach, routes, use_policy
from drpg_dspy.types import PolicyField

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def lookup(city: str) -> str:
    """Say what the weather is."""
    return f"sunny in {city}"


def double(n: int) -> int:
    return 2 * int(n)


class Nested(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = dspy.ChainOfThought("question -> hint")
        self.second = dspy.Predict("question, hint -> answer")

    def forward(self, question: str) -> Any:
        hint = self.first(question=question).hint
        return self.second(question=question, hint=hint)


class Containers(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.listed = [dspy.Predict("question -> answer"), dspy.ChainOfThought("question -> hint")]
        self.named = {"deep": dspy.Predict("question -> answer")}

    def forward(self, question: str) -> Any:
        for part in [*self.listed, *self.named.values()]:
            answered = part(question=question)
        return answered


class Aliased(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = dspy.Predict("question -> answer")
        self.two = self.one

    def forward(self, question: str) -> Any:
        self.one(question=question)
        return self.two(question=question)


class Positional(dspy.Module):
    """Calls sub-modules by forward, with positional arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.sub = Nested()

    def forward(self, question: str) -> Any:
        return self.sub.forward(question)


class DirectForward(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        return self.answer.forward(question=question)


class NamedArguments(dspy.Predict):
    """A Predict whose forward takes named parameters only."""

    def forward(self, question: str) -> Any:
        return super().forward(question=question)


class OwnSignatureEachCall(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        signature = dspy.Signature("question -> answer", "Answer in one word.")
        return self.answer(question=question, signature=signature)


class SeveralCompletions(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.vote = dspy.Predict("question -> answer", n=3)

    def forward(self, question: str) -> Any:
        return dspy.majority(self.vote(question=question))


class RawCallsBeside(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        return self.answer(question=question + self.answer_raw(question))

    def answer_raw(self, question: str) -> str:
        return str(dspy.settings.lm(f"Respond with nothing about {question}")[0])[:0]


def react(**values: Any) -> dspy.Module:
    return dspy.ReAct("question -> answer", tools=[lookup])


REACT = {
    "next_tool_name": lambda m: "finish" if "observation_0" in m[-1]["content"] else "lookup",
    "next_tool_args": lambda m: {} if "observation_0" in m[-1]["content"] else {"city": "Rome"},
}
REACT_V2 = {
    "tool_calls": lambda m: {
        "tool_calls": [
            {"name": "submit", "args": {"answer": "x"}}
            if any("sunny" in x["content"] for x in m)
            else {"name": "lookup", "args": {"city": "Rome"}}
        ]
    }
}
PROGRAM_OF_THOUGHT = {
    "generated_code": lambda m: (
        "```python\nresult = 1 / 0\nresult\n```"
        if not any("error" in x["content"] for x in m)
        else "```python\nresult = 2\nSUBMIT({'answer': result})\n```"
    )
}
CODE_ACT = {"generated_code": "```python\nprint(double(2))\n```", "finished": "True"}
RLM = {"code": "```python\nSUBMIT(answer='x')\n```"}

CASES: dict[str, tuple[Callable[[], dspy.Module], dict[str, Any], dict[str, Any], set[str]]] = {
    # name: program, model's values, arguments, routes that are called
    "Predict": (lambda: dspy.Predict("question -> answer"), {}, {}, {"self"}),
    "ChainOfThought": (lambda: dspy.ChainOfThought("question -> answer"), {}, {}, {"predict"}),
    "nested": (Nested, {}, {}, {"first.predict", "second"}),
    "lists and dicts": (
        Containers, {}, {}, {"listed[0]", "listed[1].predict", "named['deep']"},
    ),
    "one predictor under two names": (Aliased, {}, {}, {"one"}),
    "forward called with positional arguments": (
        Positional, {}, {}, {"sub.first.predict", "sub.second"},
    ),
    "forward of a predictor called directly": (DirectForward, {}, {}, {"answer"}),
    "Predict with named parameters": (
        lambda: NamedArguments("question -> answer"), {}, {}, {"self"},
    ),
    "call-time signature": (OwnSignatureEachCall, {}, {}, {"answer"}),
    "three completions": (SeveralCompletions, {}, {}, {"vote"}),
    "MultiChainComparison": (
        lambda: dspy.MultiChainComparison("question -> answer", M=2),
        {},
        {"completions": [{"reasoning": "a", "answer": "b"}, {"reasoning": "c", "answer": "d"}]},
        {"predict"},
    ),
    "BestOfN": (
        lambda: dspy.BestOfN(
            dspy.ChainOfThought("question -> answer"), N=3, reward_fn=lambda a, p: 0.0, threshold=1
        ),
        {}, {}, {"module.predict"},
    ),
    "ReAct": (react, REACT, {}, {"react", "extract.predict"}),
    "ReActV2": (
        lambda: dspy.ReActV2("question -> answer", tools=[lookup]), REACT_V2, {}, {"react"},
    ),
    "ProgramOfThought": (
        lambda: dspy.ProgramOfThought("question -> answer", interpreter_factory=LocalInterpreter),
        PROGRAM_OF_THOUGHT,
        {},
        {"code_generate.predict", "code_regenerate.predict", "generate_output.predict"},
    ),
    "CodeAct": (
        lambda: dspy.CodeAct(
            "question -> answer", tools=[double], interpreter_factory=LocalInterpreter
        ),
        CODE_ACT, {}, {"codeact", "extractor.predict"},
    ),
    "RLM": (
        lambda: dspy.RLM("question -> answer", interpreter_factory=LocalInterpreter),
        RLM, {}, {"generate_action"},
    ),
}  # fmt: skip


def rules(program: dspy.Module) -> dict[str, str]:
    return {route: f"- rule of <{route}>" for route in routes(program)}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_a_policy_every_prompt_is_that_of_the_plain_program(case, make_lm) -> None:
    make, values, arguments, _ = CASES[case]
    plain, attached = make_lm(**values), make_lm(**values)
    with dspy.context(lm=plain):
        make()(question="q", **arguments)
    program = make()
    attach(program)
    with dspy.context(lm=attached):
        program(question="q", **arguments)
    assert plain.prompts
    assert attached.prompts == plain.prompts


@pytest.mark.parametrize("placement", ["input", "instructions"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_prompt_carries_the_policy_of_its_own_route(
    case, placement, make_lm, policies_seen
) -> None:
    make, values, arguments, called = CASES[case]
    lm = make_lm(**values)
    program = make()
    attach(program, placement=placement)
    with dspy.context(lm=lm), use_policy(rules(program)):
        program(question="q", **arguments)
    assert {len(seen) for seen in policies_seen(lm)} == {1}
    assert {seen[0] for seen in policies_seen(lm)} == called


def test_raw_calls_beside_a_predictor_are_left_alone(make_lm, policies_seen) -> None:
    lm = make_lm()
    program = RawCallsBeside()
    attach(program)
    with dspy.context(lm=lm), use_policy(rules(program)):
        program(question="q")
    assert policies_seen(lm) == [[], ["answer"]]


def test_react_v2_keeps_the_policy_out_of_the_replayed_history(make_lm) -> None:
    lm = make_lm(**REACT_V2)
    program = dspy.ReActV2("question -> answer", tools=[lookup])
    attach(program)
    with dspy.context(lm=lm), use_policy(rules(program)):
        result = program(question="q")
    last = lm.prompts[-1]
    assert [i for i, m in enumerate(last) if "rule of" in m["content"]] == [len(last) - 1]
    assert result.termination_reason == "submit"
    assert "rule of" not in str(result.history)


class OpenForAgents(dspy.Signature):
    """Answer the question."""

    question: str = dspy.InputField()
    policy: str = PolicyField("What was learned so far.")
    answer: str = dspy.OutputField()


@pytest.mark.parametrize("kind", ["ReAct", "ReActV2"])
def test_an_open_field_stands_in_its_place_in_an_agent_too(kind, make_lm, policies_seen) -> None:
    values = REACT if kind == "ReAct" else REACT_V2
    lm = make_lm(**values)
    program = getattr(dspy, kind)(OpenForAgents, tools=[lookup])
    cards = attach(program)
    with dspy.context(lm=lm), use_policy(rules(program)):
        program(question="q")
    assert all("policy" not in card.inputs for card in cards)
    assert all(len(seen) == 1 for seen in policies_seen(lm))
    first = lm.texts()[0]
    assert first.index("[[ ## question ## ]]") < first.index("[[ ## policy ## ]]")


def reward(args: dict[str, Any], prediction: dspy.Prediction) -> float:
    return 0.0


@pytest.mark.parametrize("placement", ["input", "instructions"])
def test_the_hint_of_refine_reaches_the_predictor_under_a_policy(placement, make_lm) -> None:
    lm = make_lm(advice={"predict": "count twice"}, discussion="d")
    inner = dspy.ChainOfThought("question -> answer")
    program = dspy.Refine(inner, N=2, reward_fn=reward, threshold=1.0)
    attach(program, placement=placement)
    with dspy.context(lm=lm), use_policy(rules(program)):
        program(question="q")
    (hinted,) = [text for text in lm.texts() if "[[ ## hint_ ## ]]" in text]
    assert "[[ ## hint_ ## ]]\ncount twice" in hinted
    assert "rule of <module.predict>" in hinted


def test_a_predictor_that_is_a_users_class_can_be_refined(make_lm) -> None:
    lm = make_lm(advice={"self": "count twice"}, discussion="d")
    root = NamedArguments("question -> answer")
    attach(root)
    with dspy.context(lm=lm), use_policy({"self": "- rule"}):
        dspy.Refine(root, N=2, reward_fn=reward, threshold=1.0)(question="q")
    advice = next(text for text in lm.texts() if "program_code" in text)
    assert "class NamedArguments(dspy.Predict):" in advice


ADAPTERS: dict[str, Callable[[Any], dspy.Adapter]] = {
    "chat": lambda lm: dspy.ChatAdapter(),
    "json": lambda lm: dspy.JSONAdapter(),
    "xml": lambda lm: dspy.XMLAdapter(),
    "baml": lambda lm: __import__("dspy.adapters.baml_adapter", fromlist=["x"]).BAMLAdapter(),
    "two steps": lambda lm: dspy.TwoStepAdapter(lm),
}


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("placement", ["input", "instructions"])
@pytest.mark.parametrize("adapter", ADAPTERS, ids=str)
async def test_every_adapter_shows_the_policy(adapter, placement, how, make_lm) -> None:
    extractor = make_lm()
    main, plain = make_lm(), make_lm()
    program = dspy.ChainOfThought("question -> answer")
    with dspy.context(adapter=ADAPTERS[adapter](extractor)):
        with dspy.context(lm=plain):
            program(question="q")
        attach(program, placement=placement)
        with dspy.context(lm=main):
            program(question="q")
            with use_policy({"predict": "- rule of <predict>"}):
                result = await program.acall(question="q") if how == "async" else program(
                    question="q"
                )  # fmt: skip
    assert main.prompts[0] == plain.prompts[0]
    assert "- rule of <predict>" in main.texts()[1]
    assert result.answer == "x"


def test_the_fallback_to_json_keeps_the_policy(make_lm) -> None:
    lm = make_lm()
    replies = iter(["not in the form asked for"])
    ask = lm.script_engine.script
    lm.script_engine.script = lambda m: next(replies, None) or ask(m)
    program = dspy.ChainOfThought("question -> answer")
    attach(program)
    with dspy.context(lm=lm), use_policy({"predict": "- rule"}):
        program(question="q")
    assert len(lm.prompts) == 2
    assert "JSON object" in lm.texts()[1]
    assert "- rule" in lm.texts()[1]


def test_decision_outputs_work_under_a_policy(make_lm) -> None:
    lm = make_lm(answer={"noul": 0.9})
    signature = dspy.Signature("question -> answer: Noul", custom_types={"Noul": Noul})
    signature = signature.with_updated_fields("answer", desc="Is it so?")
    program = dspy.Predict(signature)
    attach(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dspy.context(lm=lm), use_policy({"self": "- rule"}):
            result = program(question="q")
    assert "- rule" in lm.texts()[0]
    assert result.answer is not None
