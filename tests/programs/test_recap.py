"""RECAP: its schedules, its prompts, and the plain stream."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import dspy
import pytest

from drpg_dspy.constraints import RULE_TYPES, TYPES, Schedule, parse_rule
from drpg_dspy.exceptions import BenchmarkDataMissing
from programs import recap
from programs._recap_prompts import clean_instructions
from programs._recap_schedules import VALUES

PLACES = [os.environ.get("DRPG_DATA"), Path(__file__).parents[2].parent / "shared" / "data"]
OWN = [
    "Explain to a neighbour how compost works.",
    "What is a good name for a grey cat?",
    "Tell me why the sea is salty.",
]


@pytest.fixture
def real() -> Path:
    for place in PLACES:
        if place and (Path(place) / "constraints").is_dir():
            return Path(place)
    pytest.skip("the prompts of MulDimIF are not here (DRPG_DATA)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def row(number: int, text: str, pattern: str = "Listing") -> dict[str, object]:
        return {
            "id": str(number),
            "conversations": [{"role": "user", "content": text}],
            "constraint_pattern": pattern,
        }

    rules = " The output must follow the following rules:\n 1. At most 3 sentences."
    rows = [row(n, text + rules) for n, text in enumerate(OWN)]
    rows += [row(7, "Explain it in at least 20 words, please."), row(8, OWN[0], "Example")]
    (tmp_path / "muldimif_test.json").write_text(json.dumps(rows))
    return tmp_path


def count(plan: Schedule) -> dict[str, int]:
    return dict(Counter(one.op for step in plan.steps for one in step))


def deletions(plan: Schedule) -> list[int]:
    return [n for n, step in enumerate(plan.steps) if any(one.op == "delete" for one in step)]


def test_interleaved_20_has_the_papers_counts_and_windows() -> None:
    plan = recap.schedule("interleaved-20")
    lengths = [
        n for n, step in enumerate(plan.steps) if step[0].type == "Length" and step[0].op == "edit"
    ]
    style = [step[0].op for step in plan.steps if step[0].type == "Style"]

    assert count(plan) == {"add": 11, "edit": 5, "delete": 4}
    assert deletions(plan) == [7, 11, 14, 19]
    assert lengths == [5, 16]
    assert style == ["add", "edit", "delete"]


def test_clustered_20_has_the_same_operations_in_blocks() -> None:
    plan, mixed = recap.schedule("clustered-20"), recap.schedule("interleaved-20")

    assert [step[0].op for step in plan.steps] == ["add"] * 11 + ["edit"] * 5 + ["delete"] * 4
    assert Counter(plan.steps) == Counter(mixed.steps)


def test_rule_only_15_is_checked_by_rule_alone() -> None:
    plan = recap.schedule("rule-only-15")

    assert len(plan.steps) == 15
    assert {kind for kind, _ in plan.texts()} == {
        "Length", "Keyword", "Format", "Start_With", "End_With", "No_Commas",
    }  # fmt: skip
    assert all(parse_rule(kind, text) for kind, text in plan.texts())


def test_the_generator_knows_every_type_and_every_rule_of_it_can_be_read() -> None:
    assert set(VALUES) == set(TYPES)
    assert len(TYPES) == 21
    for kind in RULE_TYPES:
        assert all(parse_rule(kind, text) for text in VALUES[kind])


@pytest.mark.parametrize("seed", range(20))
def test_generated_schedules_can_be_played_and_repeat_by_seed(seed: int) -> None:
    plan = recap.generate(seed, 25)

    assert plan == recap.schedule(f"random-25-{seed}")
    for step in range(25):
        types = {one.type for one in plan.active(step)}
        assert not {"All_Lower", "All_Upper"} <= types


def test_a_generator_with_a_single_text_never_gets_stuck() -> None:
    assert len(recap.generate(3, 9, ["No_Commas"]).steps) == 9


def test_generated_schedules_are_named_as_they_are_asked_for() -> None:
    names = ["rules-5-3", "random-5-3"]
    assert [recap.schedule(name).name for name in names] == names


@pytest.mark.parametrize("name", ["rule-only-16", "random-20", "none.txt"])
def test_an_unknown_schedule_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"clustered-20, interleaved-20, rule-only-15"):
        recap.schedule(name)


def test_prompts_are_instructions_without_their_rules(folder: Path) -> None:
    chosen = recap.load_prompts(folder, 3, 0)

    assert sorted(one.prompt for one in chosen) == sorted(OWN)
    assert [one.id for one in chosen] == [one.id for one in recap.load_prompts(folder, 3, 0)]


def test_more_prompts_than_there_are_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="There are 3 prompts; got a wish for 4"):
        recap.load_prompts(folder, 4, 0)


@pytest.mark.parametrize(
    "text",
    [
        "Summarise the following.",
        "Write it in exactly two lines of text.",
        "Give me a bulleted overview of it.",
        "Short?",
        "No mark at the end of this sentence",
    ],
)
def test_instructions_that_limit_their_answer_or_lack_something_are_left_out(text: str) -> None:
    assert list(clean_instructions([("a", text)])) == []


def test_missing_data_says_what_gets_it(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkDataMissing, match="Junjie-Ye/MulDimIF"):
        recap.load(tmp_path)


def test_the_plain_stream_shows_each_steps_constraints_and_is_judged_by_them(folder: Path) -> None:
    stream = recap.load(folder, prompts=2, schedule_name="rule-only-15")
    judge = recap.evaluator()

    assert len(stream) == 30
    assert len({one.id for one in stream}) == 30
    assert stream[2].prompt.endswith("must meet:\n- Keep the answer under 40 words.\n"
                                     '- Mention the word "practical" at least twice.')  # fmt: skip
    assert recap.key(stream[2].inputs()) in OWN
    said = dspy.Prediction(response="practical and practical")
    assert judge(stream[2], said).score == 1.0
    assert judge(stream[2], dspy.Prediction(response="no")).score == 0.5


@pytest.mark.benchmark_data
def test_the_real_prompts_are_many_and_clean(real: Path) -> None:
    chosen = recap.load_prompts(real, 200, 0)

    assert len({one.prompt for one in chosen}) == 200
    assert not [one.prompt for one in chosen if "must" in one.prompt.split()]


def test_prompts_come_from_the_hub_where_the_package_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def load_dataset(name: str, split: str) -> list[dict[str, object]]:
        asked.append(f"{name} {split}")
        return [
            {"id": "a", "prompt": OWN[0]},
            {"id": "b", "prompt": "Write exactly three sentences about tea."},
            {"id": "c", "base_instruction": OWN[1], "prompt": OWN[1] + " Use 5 words."},
            {"id": "d", "text": "no known field"},
        ]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    found = recap.load_prompts(None, 2, 0, hub="owner/name")

    assert sorted(one.id for one in found) == ["a", "c"]
    assert asked == ["owner/name train"]


def test_a_hub_that_cannot_be_reached_is_missing_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(name: str, split: str) -> None:
        raise ConnectionError("no network")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(BenchmarkDataMissing, match="'owner/name' cannot be had: no network"):
        recap.load_prompts(None, 1, 0, hub="owner/name")


def test_without_the_package_the_hub_names_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BenchmarkDataMissing, match="pip install datasets"):
        recap.load_prompts(None, 1, 0, hub="owner/name")
