"""``drpg constraints`` and ``drpg run --constraint``: people's rules from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from drpg_dspy.memory import SQLiteMemory

Drpg = Callable[..., Result]
LENGTH = "Length=Keep the answer under 200 words."


def served(workdir: Path, step: int) -> tuple[str, dict[str, int]]:
    """Return the policy of a step of run ``first``, and its counts."""
    memory = SQLiteMemory(workdir / ".drpg/runs/first/memory.sqlite", read_only=True)
    rollout = next(r for r, _ in memory.rollouts(after_step=step - 1))
    memory.close()
    policy = rollout.guidance.policies.get("self")
    return "" if policy is None else policy.text, dict(rollout.guidance.counts)


def test_constraints_of_a_run_are_changed_from_another_process_and_hold_from_then_on(
    workdir: Path, drpg: Drpg, run: Drpg
) -> None:
    run("--optimizer", "constraints", "--constraint", LENGTH, "--limit", "2")
    drpg("constraints", "edit", "first", "Length", "Keep it under 9 words.", "--author", "anna")
    drpg("constraints", "add", "first", "No_Commas", "Use no commas.", "--author", "ben")
    drpg("resume", "first", "--limit", "3")
    drpg("constraints", "delete", "first", "length")
    drpg("resume", "first", "--limit", "4")

    assert served(workdir, 2)[0] == "- Keep the answer under 200 words."
    assert served(workdir, 3)[0] == "- Keep it under 9 words.\n- Use no commas."
    assert served(workdir, 4)[0] == "- Use no commas."


def test_the_versions_and_the_log_name_who_changed_what(
    drpg: Drpg, run: Drpg, as_json: Callable[..., Any]
) -> None:
    run("--optimizer", "constraints", "--constraint", LENGTH, "--limit", "1")
    drpg("constraints", "edit", "first", "Length", "Keep it under 9 words.", "--author", "anna")

    changes = as_json("constraints", "log", "first")
    assert [(c["operation"], c["author"]) for c in changes] == [
        ("add", "person"), ("edit", "person:anna"),
    ]  # fmt: skip
    assert changes[1]["before"]["text"] == "Keep the answer under 200 words."
    versions = as_json("policy", "log", "first")
    assert versions[-1]["author"] == "person:anna"
    assert "before: Keep the answer under 200 words." in drpg("constraints", "log", "first").stdout


def test_a_method_that_learns_runs_under_constraints(workdir: Path, run: Drpg, drpg: Drpg) -> None:
    run("--optimizer", "drpg", "--constraint", LENGTH, "--limit", "4")

    policy, _ = served(workdir, 4)
    assert policy.startswith("- Keep the answer under 200 words.\n- ")
    assert "Length  Keep the answer under 200 words." in drpg("constraints", "list", "first").stdout


def test_a_contradiction_is_reported_to_whoever_made_it_or_refused(drpg: Drpg, run: Drpg) -> None:
    run("--optimizer", "constraints", "--constraint", "No_Commas=Use no commas.", "--limit", "1")
    start = ("constraints", "add", "first", "Start_With", "Start with 'Dear Anna, dear Ben'.")

    refused = drpg(*start, "--refuse", exit_code=1)
    assert "contradicts what is in force" in refused.stderr
    assert "no commas and 'Dear Anna, dear Ben'" in refused.stderr
    won = drpg(*start)
    assert "overrides No_Commas" in won.stdout
    assert "It contradicts, and overrides: No_Commas" in won.stderr
    listed = drpg("constraints", "list", "first").stdout
    assert "NOT in force: overridden by Start_With" in listed


def test_an_lm_looks_for_what_no_rule_can_tell(workdir: Path, drpg: Drpg, run: Drpg) -> None:
    run("--optimizer", "constraints", "--constraint", "Tone=Be formal.", "--limit", "1")
    (workdir / "judge.py").write_text(
        "from drpg_dspy.testing import ScriptedLM\n"
        "def lm():\n"
        '    return ScriptedLM([\'{"contradicted": [1], "reason": "Opposites."}\'])\n'
    )
    add = ("constraints", "add", "first", "Style", "Write like a teenager.")

    assert "Nobody compared it with: Tone" in drpg(*add).stderr
    drpg("constraints", "delete", "first", "Style")
    assert "lm: Opposites." in drpg(*add, "--lm", "scripted/judge:lm").stderr


def test_mistakes_are_named_with_what_was_meant(drpg: Drpg, run: Drpg) -> None:
    run("--optimizer", "constraints", "--constraint", LENGTH, "--limit", "1")

    for arguments, said in {
        ("add", "first", "Lenght", "x"): "no constraint type 'Lenght'",
        ("add", "first", "Length", "Be short."): "Length was added already",
        ("edit", "first", "Tone", "Be kind."): "No constraint of type Tone",
        ("delete", "first", "Tone"): "No constraint of type Tone",
        ("add", "first", "Tone", ""): "needs a text",
        ("add", "first", "Tone", "Be kind.", "--expires", "yesterday"): "'yesterday'",
        ("add", "first", "Tone", "Be kind.", "--route", "x"): "no route 'x'",
        ("list", "frist"): "Did you mean 'first'?",
    }.items():
        assert said in drpg("constraints", *arguments, exit_code=2).stderr
    for pair, said in {"Length": "TYPE=TEXT", "Lenght=x": "Lenght"}.items():
        assert said in run("--constraint", pair, "--overwrite", exit_code=2).stderr
    twice = run("--constraint", LENGTH, "--constraint", "length=x", "--overwrite", exit_code=2)
    assert "given twice" in twice.stderr


def test_a_memory_that_no_adapter_serves_is_said(workdir: Path, drpg: Drpg, run: Drpg) -> None:
    run("--optimizer", "zero_shot", "--limit", "1")

    said = drpg("constraints", "add", "first", "Tone", "Be kind.").stderr

    assert "No program that serves constraints has used this memory yet" in said


def test_a_learners_own_file_will_do(workdir: Path, drpg: Drpg) -> None:
    SQLiteMemory(workdir / "mine.sqlite").close()

    drpg("constraints", "add", "mine.sqlite", "Tone", "Be kind.", "--expires", "2w")

    assert "until 20" in drpg("constraints", "list", "mine.sqlite").stdout


def test_constraints_stand_in_a_file_of_settings(workdir: Path, run: Drpg) -> None:
    (workdir / "run.toml").write_text(
        'optimizer = "constraints"\nlimit = 1\n[constraints]\nTone = "Be kind."\n'
        f"Length = {json.dumps(LENGTH.partition('=')[2])}\n"
    )
    run("--config", "run.toml", "--constraint", "Length=Keep it under 9 words.")

    assert served(workdir, 1)[0] == "- Keep it under 9 words.\n- Be kind."


def test_repairing_is_set_by_an_option_and_needs_constraints(run: Drpg, workdir: Path) -> None:
    pair = ("--constraint", "Length=Answer in exactly 7 words.", "--limit", "1")
    run(*pair, "--optimizer", "zero_shot")
    repaired = served(workdir, 1)[1]
    run(*pair, "--optimizer", "zero_shot", "--repair", "0", "--overwrite")
    left = served(workdir, 1)[1]
    alone = run("--repair", "2", "--overwrite", exit_code=2)
    twice = run(
        "--optimizer", "constraints", "--repair", "0", "--set", "repair=1", "--overwrite",
        exit_code=2,
    )  # fmt: skip

    assert repaired["constraint_repairs"] == 1
    assert left == {}
    assert "--repair needs a --constraint" in alone.stderr
    assert "repair was given twice" in twice.stderr
