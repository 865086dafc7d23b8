"""``drpg policy``: what people decide on a run's policies, and where rules came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Drpg = Callable[..., Result]
RULE = "End every answer with the word units."


@pytest.fixture(autouse=True)
def started(run: Drpg) -> None:
    """A run of five steps, which can go on."""
    run("--set", "writer=case", "--set", "feedback_text=true", "--limit", "5")


def test_the_list_says_what_calls_get_and_what_is_pinned(drpg: Drpg) -> None:
    drpg("policy", "pin", "first", "self", "Never guess.", "--author", "ada", "--reason", "audit")

    out = drpg("policy", "list", "first").stdout
    assert "as its optimizer proposes" in out
    assert RULE in out
    assert "Never guess." in out
    log = drpg("policy", "log", "first").stdout
    assert "person:ada  pin self@2 (decision 1)" in " ".join(log.split()).replace(
        "person:ada pin", "person:ada  pin"
    )
    assert "audit" in log


def test_a_pinned_rule_is_in_the_next_step_of_a_resumed_run(
    drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    drpg("policy", "pin", "first", "self", "Never guess.")
    drpg("resume", "first", "--limit", "6")

    step = as_json("show", "first", "--step", "6")
    assert "Never guess." in str(step)


def test_an_edit_stands_and_a_thaw_lets_the_optimizer_go_on(
    drpg: Drpg, as_json: Callable[..., Any], workdir: Path
) -> None:
    (workdir / "rules.md").write_text("- Count twice.\n- Say please.\n")
    drpg("policy", "edit", "first", "self", "--file", "rules.md", "--reason", "reviewed")
    drpg("resume", "first", "--limit", "6")
    drpg("policy", "thaw", "first")
    drpg("resume", "first", "--limit", "7")

    edited, thawed = (as_json("show", "first", "--step", n) for n in ("6", "7"))
    assert "Count twice." in str(edited)
    assert "Count twice." not in str(thawed)


def test_an_editor_that_saves_nothing_changes_nothing(
    drpg: Drpg, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.edit", lambda text: None)
    result = drpg("policy", "edit", "first", "self", exit_code=1)
    assert "stays as it was" in result.stderr

    monkeypatch.setattr("click.edit", lambda text: text.replace("units", "apples"))
    drpg("policy", "edit", "first", "self")
    (route,) = as_json("policy", "list", "first")["routes"]
    assert [rule["text"] for rule in route["standing"]["rules"]] == [
        "End every answer with the word apples."
    ]


def test_a_rollback_and_its_difference_are_shown(drpg: Drpg) -> None:
    drpg("policy", "edit", "first", "self", "--text", "Say please.")

    out = drpg("policy", "diff", "first", "self@1", "self").stdout
    assert f"- {RULE}" in out
    assert "+ Say please." in out
    said = drpg("policy", "rollback", "first", "self@1", "--reason", "worse").stdout
    assert "rollback self@1 (decision 2)" in said
    assert "held by a person's decision" in drpg("policy", "list", "first").stdout


def test_learned_versions_wait_and_an_outdated_one_is_refused(
    drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    drpg("policy", "edit", "first", "self", "--text", "Say please.")
    drpg("policy", "approval", "first", "--required")
    drpg("resume", "first", "--limit", "7")
    (route,) = as_json("policy", "list", "first")["routes"]
    (candidate,) = route["candidates"]
    name = f"self@{candidate['version']}"
    assert "waits for approval" in drpg("policy", "list", "first").stdout

    drpg("policy", "edit", "first", "self", "--text", "Say thanks.")
    result = drpg("policy", "approve", "first", name, exit_code=1)
    assert "- Say please." in result.stderr
    assert "+ Say thanks." in result.stderr

    drpg("policy", "rollback", "first", "self@2")
    drpg("policy", "approve", "first", name, "--reason", "fits")
    (route,) = as_json("policy", "list", "first")["routes"]
    assert route["standing"]["version"] == candidate["version"]


def test_why_leads_from_a_rule_to_its_cases_and_back(drpg: Drpg) -> None:
    out = drpg("policy", "why", "first", "End every").stdout
    assert "✗ step 1" in out
    assert "with the rule 4 4 100.0 %" in " ".join(out.split())
    assert "It was active at steps 2–5." in out

    back = drpg("policy", "why", "first", "--step", "1").stdout
    assert "Rules that came of it" in back
    assert RULE in back
    assert "no policy" in back


def test_a_freeze_saves_the_writing(drpg: Drpg, as_json: Callable[..., Any]) -> None:
    drpg("policy", "freeze", "first")
    drpg("resume", "first", "--limit", "8")

    (route,) = as_json("policy", "list", "first")["routes"]
    assert route["held"]
    assert [d["action"] for d in as_json("policy", "log", "first", "--decisions")] == ["freeze"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "frist"], "There is no run or learner 'frist'. Did you mean 'first'?"),
        (["rollback", "first", "self@9"], "9"),
        (["rollback", "first", "slef@1"], "Did you mean 'self'"),
        (["approve", "first", "self@1"], "does not wait for approval"),
        (["pin", "first", "self", "nothing such", "--off"], "has no pinned rule"),
        (["why", "first", "No such rule"], "No rule begins with"),
        (["why", "first"], "Give a RULE or --step"),
        (["why", "first", "--step", "99"], "99"),
        (["edit", "first", "self", "--text", "a", "--file", "tiny_bench.py"], "not both"),
    ],
)
def test_a_wrong_argument_is_named(drpg: Drpg, arguments: list[str], message: str) -> None:
    result = drpg("policy", *arguments, exit_code=2)

    assert message in " ".join(result.stderr.split())


def test_a_learner_of_a_program_is_found_by_its_name(drpg: Drpg, workdir: Path) -> None:
    (workdir / ".drpg" / "runs" / "first" / "memory.sqlite").rename(
        workdir / ".drpg" / "shop.sqlite"
    )

    assert RULE in drpg("policy", "list", "shop").stdout


def test_a_gated_run_uses_only_policies_that_have_won_a_trial(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    run(
        "--overwrite", "--gate", "replay", "--set", "writer=case", "--set", "feedback_text=true",
        "--limit", "12",
    )  # fmt: skip

    steps = as_json("show", "first")["steps"]
    assert all(not step["policy_texts"] for step in steps[:10])
    assert RULE in str(steps[-1]["policy_texts"])
    result = run("--overwrite", "--gate", "replay", "--optimizer", "zero_shot", exit_code=2)
    assert "writes no policy" in " ".join(result.stderr.split())


def test_rules_from_a_file_may_begin_with_a_byte_order_mark(
    drpg: Drpg, workdir: Path, as_json: Callable[..., Any]
) -> None:
    (workdir / "rules.md").write_bytes("- Trink Tee.\n- Iß Käse.\n".encode("utf-8-sig"))
    drpg("policy", "edit", "first", "self", "--file", "rules.md")
    (route,) = as_json("policy", "list", "first")["routes"]
    assert [rule["text"] for rule in route["standing"]["rules"]] == ["Trink Tee.", "Iß Käse."]

    (workdir / "rules.md").write_bytes("- Iß Käse.\n".encode("latin-1"))
    refused = drpg("policy", "edit", "first", "self", "--file", "rules.md", exit_code=2)
    assert "rules.md is not UTF-8" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("act", [("pin",), ("edit", "--text")])
def test_a_rule_that_is_too_long_is_wrong_usage(drpg: Drpg, act: tuple[str, ...]) -> None:
    command = ["policy", act[0], "first", "self", *act[1:], "a" * 2001]

    said = " ".join(drpg(*command, exit_code=2).stderr.split())
    assert "must have 1 to 2000 characters, got 2001" in said
