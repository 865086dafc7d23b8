from __future__ import annotations

from typing import Any

from drpg_dspy.optimizers.corrections.traces import ModuleGraph, show_calls
from drpg_dspy.types import REVISION, Call, Rollout


def rollout(*calls: Call, outputs: dict[str, Any] | None = None, **inputs: Any) -> Rollout:
    return Rollout("r", 1, inputs, outputs or {}, trace=calls)


QUESTION = "Which town is the author of Dune from?"
HOPS = rollout(
    Call("summarize1", {"question": QUESTION, "passages": ["Dune is by Frank Herbert."]},
         {"summary": "Frank Herbert wrote Dune"}),
    Call("query2", {"question": QUESTION, "summary": "Frank Herbert wrote Dune"},
         {"query": "town of birth of Frank Herbert"}),
    Call("summarize2", {"question": QUESTION, "context": "Frank Herbert wrote Dune",
                        "passages": ["Herbert was born in Tacoma."]},
         {"summary": "He was born in Tacoma"}),
    Call("answer", {"question": QUESTION, "summary_1": "Frank Herbert wrote Dune",
                    "summary_2": "He was born in Tacoma"}, {"answer": "Tacoma"}),
    outputs={"answer": "Tacoma"}, question=QUESTION,
)  # fmt: skip


def test_who_consumed_whose_output_is_read_off_the_values() -> None:
    graph = ModuleGraph.of(HOPS)

    assert graph.consumers[0] == (1, 2, 3)
    assert graph.consumers[2] == (3,)
    assert graph.answering == {3}


def test_code_between_two_modules_does_not_break_the_graph() -> None:
    graph = ModuleGraph.of(HOPS)  # a retriever turned the query into passages

    assert graph.consumers[1] == (2,)
    assert "query2" in graph.feeders("summarize2")


def test_routes_go_from_the_answer_back_to_the_first_module() -> None:
    assert ModuleGraph.of(HOPS).routes() == ["answer", "summarize2", "summarize1", "query2"]


def test_what_the_program_was_given_is_nobodys_output() -> None:
    graph = ModuleGraph.of(
        rollout(
            Call("echo", {"question": "What is the time?"}, {"copy": "What is the time?"}),
            Call("other", {"question": "What is the time?"}, {"answer": "noon o'clock"}),
            outputs={"answer": "noon o'clock"},
            question="What is the time?",
        )
    )

    assert graph.consumers == ((), ())


def test_short_values_are_found_under_their_own_name_only() -> None:
    graph = ModuleGraph.of(
        rollout(
            Call("a", {"q": "is it?"}, {"verdict": "yes"}),
            Call("b", {"note": "yesterday it was", "q": "is it?"}, {"text": "nothing to say"}),
            Call("c", {"verdict": "yes"}, {"answer": "it is so"}),
            outputs={"answer": "it is so"},
            q="is it?",
        )
    )

    assert graph.consumers[0] == (2,)


def test_elements_of_a_list_and_lists_of_outputs_are_found() -> None:
    graph = ModuleGraph.of(
        rollout(
            Call("a", {"q": "?"}, {"item": "first piece"}),
            Call("b", {"q": "?"}, {"items": ["x1", "x2"]}),
            Call("c", {"pieces": ["first piece", "other"], "items": ["x1", "x2"]}, {"answer": "A"}),
            outputs={"answer": "A"},
            q="?",
        )
    )

    assert graph.feeders("c") == ["b", "a"]


def test_a_module_that_failed_is_part_of_the_trace() -> None:
    failed = Call("parse", {"text": "1,2"}, None, error="AdapterParseError: no field [[ numbers ]]")
    graph = ModuleGraph.of(
        rollout(failed, Call("answer", {"text": "1,2"}, {"answer": "3"}), outputs={"answer": "3"})
    )

    assert "failed: AdapterParseError" in show_calls(graph)
    assert "parse" in graph.routes()


def test_the_entry_of_a_revised_answer_is_no_module() -> None:
    graph = ModuleGraph.of(
        rollout(
            Call("self", {"q": "?"}, {"answer": "a"}),
            Call(REVISION, {"answer": "a"}, {"answer": "b"}),
            outputs={"answer": "b"},
        )
    )

    assert graph.routes() == ["self"]
    assert graph.answering == {0}  # nothing matches: the last call made the answer


def test_no_trace_is_an_empty_graph() -> None:
    graph = ModuleGraph.of(rollout(outputs={"answer": "x"}))

    assert graph.routes() == []
    assert show_calls(graph) == "(no step)"


def test_a_loop_of_fifty_calls_is_shown_within_bounds() -> None:
    loop = [
        Call("act", {"trajectory": "x" * 3_000 * n, "n": n}, {"thought": f"thought number {n}"})
        for n in range(50)
    ]
    last = Call("extract", {"trajectory": "y" * 90_000}, {"answer": "done"})
    graph = ModuleGraph.of(rollout(*loop, last, outputs={"answer": "done"}))

    text = show_calls(graph)

    assert len(text) < 14_000
    assert "more steps of the same kind are not shown" in text
    assert "more characters" in text
    assert "thought number 0" in text
    assert "thought number 49" in text
    assert "module: extract" in text


def test_a_very_long_trace_is_looked_at_from_both_ends() -> None:
    calls = [Call("act", {"n": n}, {"out": f"result number {n}"}) for n in range(1_000)]
    graph = ModuleGraph.of(rollout(*calls, outputs={"out": "result number 999"}))

    assert graph.left_out == 1_000 - len(graph.calls)
    assert graph.calls[0].inputs == {"n": 0}
    assert graph.calls[-1].inputs == {"n": 999}


def test_a_module_that_a_long_trace_calls_once_in_its_middle_is_looked_at() -> None:
    calls = [
        *(Call("scan", {"n": n}, {"found": f"finding number {n}"}) for n in range(20)),
        Call("merge", {"items": "many"}, {"merged": "everything merged"}),
        *(Call("check", {"merged": "everything merged"}, {"ok": f"{n} ok"}) for n in range(60)),
        Call("end", {"verdicts": "all ok"}, {"answer": "done"}),
    ]
    graph = ModuleGraph.of(rollout(*calls, outputs={"answer": "done"}))

    assert graph.left_out == 82 - len(graph.calls)
    assert len(graph.calls) <= 64
    assert set(graph.routes()) == {"scan", "merge", "check", "end"}
    assert [graph.route_at(step) for step in (1, 21, 22, 82, 83)] == [
        "scan", "merge", "check", "end", "",
    ]  # fmt: skip
    assert "[step 21] module: merge" in show_calls(graph)
    assert "[step 82] module: end" in show_calls(graph)
