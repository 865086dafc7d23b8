"""``drpg policy log`` and ``show``: versions, diffs, authors, cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from drpg_dspy.cli.policies import History
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule

Drpg = Callable[..., Result]


@pytest.fixture
def finished(run: Drpg) -> None:
    run("--set", "writer=case", "--set", "feedback_text=true", "--limit", "5")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SQLiteMemory]:
    """Three steps: one without policy, one under each of two versions."""
    with closing(SQLiteMemory(tmp_path / "m.sqlite", None)) as memory:
        rules = [(), (Rule("Use cents.", sources=("a",)), Rule("Skip X.", sources=("a",)))]
        rules.append((rules[1][0], Rule("Skip cancelled orders.", sources=("a", "b"))))
        for step, (id, texts) in enumerate(zip("abc", rules, strict=True), start=1):
            policy = {"p": Policy("p", texts, message=f"{len(texts)} rules")} if texts else {}
            memory.record(Rollout(id, step, {"q": id}, {"a": "!"}, id, guidance=Guidance(policy)))
            memory.commit(id, Feedback(float(step == 3), text=f"said {id}"))
        yield memory


@pytest.mark.usefixtures("finished")
def test_the_log_shows_version_author_steps_score_and_cases(drpg: Drpg) -> None:
    out = drpg("policy", "log", "first").stdout

    assert "self@1  by drpg, step 2" in out
    assert "in force: steps 2–5: 100.0 % of 4 judged" in out
    assert "+ End every answer with the word units." in out
    assert "from step 1 ✗" in out


def test_the_log_is_newest_first_and_a_diff_against_the_parent(memory: SQLiteMemory) -> None:
    history = History(memory)
    newest, oldest = map(click.unstyle, history.as_text(reversed(history.versions)))

    assert "p@2  by drpg, step 3, after @1" in newest
    assert "in force: step 3: 100.0 % of 1 judged" in newest
    assert "before: 0.0 % of 1 judged under @1" in newest
    assert "    Use cents." in newest
    assert "  - Skip X." in newest
    assert "  + Skip cancelled orders." in newest
    assert "from step 1 ✗, step 2 ✗" in newest
    assert oldest.count("  + ") == 2


def test_the_log_as_json_says_what_was_added_and_removed(memory: SQLiteMemory) -> None:
    history = History(memory)
    first, second = map(history.as_plain, history.versions)

    assert (first["version"], second["parent"]) == (1, 1)
    assert second["added"] == ["Skip cancelled orders."]
    assert second["removed"] == ["Skip X."]
    assert second["use"] == {"steps": (3,), "judged": 1, "score": 1.0}


def test_rules_in_another_order_are_no_change() -> None:
    a, b = Rule("Use cents."), Rule("Skip X.")
    with closing(SQLiteMemory(":memory:", None)) as memory:
        for step, rules in enumerate([(a, b), (b, a)], start=1):
            guidance = Guidance({"p": Policy("p", rules)})
            memory.record(Rollout(f"r{step}", step, {}, {"a": "!"}, guidance=guidance))
        history = History(memory)

    assert history.as_plain(history.find("p@2"))["added"] == []


def test_a_source_that_the_run_never_saw_is_shown_by_its_name() -> None:
    rule = Rule("Use cents.", author="person:kim", sources=("ticket-7",))
    with closing(SQLiteMemory(":memory:", None)) as memory:
        guidance = Guidance({"p": Policy("p", (rule,))})
        memory.record(Rollout("r", 1, {}, {"a": "!"}, guidance=guidance))
        history = History(memory)

    assert "ticket-7" in history.in_full(history.find("p"))


def test_a_version_shows_each_rule_with_its_cases(memory: SQLiteMemory) -> None:
    history = History(memory)
    shown = history.in_full(history.find("p@2"))

    assert "- Skip cancelled orders." in shown
    assert "✗ step 2" in shown
    assert "said b" in shown


def test_a_route_alone_is_its_newest_version(memory: SQLiteMemory) -> None:
    assert History(memory).find("p").version == 2


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("slef@1", "Did you mean 'self'?"),
        ("self@one", "Expected ROUTE@VERSION"),
        ("self@9", "it has 1."),
    ],
)
def test_an_unknown_version_names_what_there_is(drpg: Drpg, version: str, said: str) -> None:
    assert said in drpg("policy", "show", "first", version, exit_code=2).stderr


@pytest.mark.usefixtures("finished")
def test_log_and_show_print_json_alone(as_json: Callable[..., Any]) -> None:
    (entry,) = as_json("policy", "log", "first")
    shown = as_json("policy", "show", "first", "self@1")

    assert entry == shown
    assert entry["rules"][0]["cases"][0]["step"] == 1


@pytest.mark.usefixtures("finished")
def test_an_unknown_route_is_wrong_usage(drpg: Drpg) -> None:
    result = drpg("policy", "log", "first", "--route", "slef", exit_code=2)

    assert "Did you mean 'self'?" in result.stderr


def test_a_run_without_policies_says_so(run: Drpg, drpg: Drpg, as_json: Callable[..., Any]) -> None:
    run("--optimizer", "zero_shot", "--limit", "2")

    assert "has no policies" in drpg("policy", "log", "first").stdout
    assert as_json("policy", "log", "first") == []


def test_one_rule_from_one_case_is_said_in_the_singular(drpg: Drpg, run: Drpg) -> None:
    run("--limit", "3", "--overwrite")

    said = drpg("policy", "log", "first").stdout

    assert "1 rule from 1 case" in said
    assert "1 rules" not in said
