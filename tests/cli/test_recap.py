"""``drpg recap`` and ``drpg recap-report``: a run, its resume, and the comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Drpg = Callable[..., Result]

MODEL = '''
from pathlib import Path

from drpg_dspy.testing import ScriptedLM, fields


def stubborn():
    """Never begins as asked, and is at times long."""

    def reply(messages):
        prompt = messages[-1]["content"]
        return fields(response="Well it is " + "very " * (len(prompt) % 9) + "good")

    return ScriptedLM(reply)


def away():
    def reply(messages):
        raise ConnectionError("no route to host")

    return ScriptedLM(reply)


def at_times():
    """A judge that says yes while no file of the name "away" is there."""

    def reply(messages):
        if Path("away").exists():
            raise ConnectionError("no route to host")
        return "yes"

    return ScriptedLM(reply)


def mute():
    return ScriptedLM(lambda messages: "")


def approving():
    """A judge that says yes to everything."""
    return ScriptedLM(["yes"])
'''
PLAN = """
name: short
steps:
  - {op: add, type: Start_With, text: 'Start with the word "Note".'}
  - {op: add, type: Length, text: Under 7 words.}
  - {op: delete, type: Start_With}
"""
TEXTS = ["What is tea made of?", "Why is the sea salty?", "How does a lock work?"]
COMMON = (
    "--lm", "scripted/model:stubborn", "--schedule", "short.yaml", "--data", ".",
    "--prompts-per-step", "2",
)  # fmt: skip


@pytest.fixture(autouse=True)
def here(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DRPG_RECAP", raising=False)
    monkeypatch.delenv("DRPG_JUDGE_LM", raising=False)
    (workdir / "model.py").write_text(MODEL)
    (workdir / "short.yaml").write_text(PLAN)
    rows = [
        {
            "id": str(number),
            "conversations": [{"role": "user", "content": text}],
            "constraint_pattern": "Listing",
        }
        for number, text in enumerate(TEXTS)
    ]
    (workdir / "muldimif_test.json").write_text(json.dumps(rows))
    return workdir


def lines(here: Path, name: str) -> list[dict[str, Any]]:
    path = here / ".drpg" / "recap" / name / "run.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_adapts_answers_and_tells_how_it_goes(drpg: Drpg, here: Path) -> None:
    result = drpg("recap", *COMMON, "--name", "one")

    assert [line["kind"] for line in lines(here, "one")] == ["adapt", "answer", "answer"] * 3
    assert "one: step 2: adapted to delete Start_With" in result.stderr
    assert result.stdout == "one is finished: drpg recap-report one\n"


def test_the_same_command_goes_on_and_another_setting_is_refused(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--name", "one")
    path = here / ".drpg" / "recap" / "one" / "run.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"\n".join(whole.split(b"\n")[:5]) + b'\n{"half')
    drpg("recap", *COMMON, "--name", "one")

    assert [line["kind"] for line in lines(here, "one")] == ["adapt", "answer", "answer"] * 3
    result = drpg("recap", *COMMON, "--name", "one", "--seed", "1", exit_code=1)
    assert "seed: 0 stored, 1 given" in result.stderr
    drpg("recap", *COMMON, "--name", "one", "--seed", "1", "--overwrite")


def test_the_default_name_tells_runs_apart(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--optimizer", "constraints", "--set", "repair=0")

    (folder,) = [path.parent.name for path in (here / ".drpg/recap").glob("*/config.json")]
    assert folder == "recap-short-constraints-repair-0-model-stubborn-0"


def test_the_report_compares_methods_on_every_metric(drpg: Drpg, here: Path) -> None:
    for seed in ("0", "1"):
        drpg("recap", *COMMON, "--seed", seed, "--name", f"base-{seed}")
        drpg(
            "recap", *COMMON, "--seed", seed, "--optimizer", "constraints", "--name", f"fix-{seed}"
        )
    out = drpg("recap-report", "base-*", "fix-*", "--out", "report", "--resamples", "20").stdout
    report = json.loads((here / "report" / "report.json").read_text())

    assert "## short, scripted/model:stubborn, 2 prompts a step" in out
    assert "paired by prompt" in out
    assert (here / "report" / "report.md").read_text() == out.rstrip("\n") + "\n"
    base, fixed = report[0]["methods"]
    assert (base["method"], base["seeds"], base["finished"]) == ("base", [0, 1], True)
    assert fixed["metrics"]["sat"]["difference"]["value"] > 0
    assert fixed["efficiency"]["answer_calls"] >= base["efficiency"]["answer_calls"] == 2.0
    assert base["failures"]["refusal"] == {"found": 0, "looked": 12, "example": ""}
    assert base["by_type"].keys() == {"Start_With", "Length"}
    assert "drpg recap --schedule short.yaml --optimizer base --lm scripted/model:stubborn" in out
    assert set(base["metrics"]) >= {
        "sat",
        "forgetting",
        "collateral",
        "switch",
        "unlearning",
        "bwt",
    }


def test_a_run_that_is_not_finished_is_marked_and_not_compared(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--name", "base-0")
    drpg("recap", *COMMON, "--optimizer", "icl", "--name", "icl-0")
    path = here / ".drpg" / "recap" / "icl-0" / "run.jsonl"
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:5]) + b"\n")
    out = drpg("recap-report", "base-0", "icl-0", "--resamples", "10").stdout

    assert "icl (not finished)" in out
    assert "paired by prompt" not in out


def test_constraints_that_nobody_can_judge_are_counted(drpg: Drpg, here: Path) -> None:
    (here / "kind.yaml").write_text("steps: [{op: add, type: Tone, text: Be kind.}]")
    result = drpg("recap", *COMMON, "--schedule", "kind.yaml", "--name", "kind")

    assert "2 of 2 checks were not judged: no judge." in result.stderr
    assert "2 of 2" in drpg("recap-report", "kind", "--resamples", "10").stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--optimizer", "bse"), "There is no method 'bse'. Did you mean 'base'?"),
        (
            ("--optimizer", "icl", "--set", "demo=2"),
            "icl takes no argument 'demo'. It takes: demos",
        ),
        (("--optimizer", "icl", "--set", "demos=0"), "demos must be a whole number"),
        (("--schedule", "nothing"), "There is no schedule 'nothing'"),
        (("--prompts-per-step", "4"), "There are 3 prompts; got a wish for 4"),
        (("--data", "elsewhere"), "MulDimIF"),
        (("--name", "a/b"), "is no name for a run"),
        (("--optimizer", "base", "--set", "x"), "Expected KEY=VALUE"),
    ],
)
def test_what_cannot_be_used_is_named(drpg: Drpg, arguments: tuple[str, ...], why: str) -> None:
    assert why in " ".join(drpg("recap", *COMMON, *arguments, exit_code=2).stderr.split())


def test_a_schedule_with_a_forward_reference_is_named(drpg: Drpg, here: Path) -> None:
    (here / "bad.yaml").write_text("steps: [{op: edit, type: Tone, text: Be kind.}]")
    result = drpg("recap", *COMMON, "--schedule", "bad.yaml", exit_code=2)

    assert "bad.yaml: Step 0 of 'unnamed' would edit Tone" in " ".join(result.stderr.split())


def test_an_unknown_run_is_named_with_those_there_are(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--name", "one")

    assert "Did you mean 'one'?" in drpg("recap-report", "ona", exit_code=2).stderr


def test_a_judge_that_approves_of_everything_fails_its_check(drpg: Drpg) -> None:
    result = drpg("recap-judge", "--judge-lm", "scripted/model:approving", exit_code=1)

    assert "agrees on 13 of 26, kappa 0.00, 0 not judged" in result.stdout
    assert "less than 85%" in result.stderr


def test_judged_constraints_go_to_the_judge_and_its_name_belongs_to_the_run(
    drpg: Drpg, here: Path
) -> None:
    (here / "kind.yaml").write_text(
        "steps: [{op: add, type: Tone, text: Be kind.}, {op: delete, type: Tone}]"
    )
    drpg("recap", *COMMON, "--schedule", "kind.yaml", "--name", "kind", "--judge-lm",
         "scripted/model:approving")  # fmt: skip

    said = [line for line in lines(here, "kind") if line["kind"] == "answer"]
    assert {one["checks"][0]["by"] for one in said} == {"judge"}
    settings = json.loads((here / ".drpg/recap/kind/config.json").read_text())
    assert settings["judge"] == "1 scripted/lm"
    # The judge has also seen the answers without any constraint: all is as it was by default.
    drpg("recap-report", "kind", "--out", "report", "--resamples", "10")
    report = json.loads((here / "report" / "report.json").read_text())
    assert report[0]["methods"][0]["metrics"]["unlearning"]["value"] == 1.0


def test_settings_come_from_a_file_and_the_command_line_wins(drpg: Drpg, here: Path) -> None:
    (here / "icl.toml").write_text('optimizer = "icl"\n[set]\ndemos = 2\npool = 5\n')
    drpg("recap", *COMMON, "--config", "icl.toml", "--set", "demos=1", "--name", "filed")
    settings = json.loads((here / ".drpg/recap/filed/config.json").read_text())

    assert (settings["optimizer"], settings["options"]) == ("icl", {"pool": 5, "demos": 1})


def test_prompts_side_by_side_are_said_beside_the_seconds(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--name", "base")
    both = drpg("recap", *COMMON, "--threads", "2", "--name", "both", "--optimizer", "icl")
    assert both.exit_code == 0

    mixed = drpg("recap-report", "base", "both").stdout
    same = drpg("recap-report", "both").stdout

    assert "Runs had --threads 1, 2: compare no seconds across them." in mixed
    assert "Answers were asked for 2 at a time; seconds include the waiting." in same
    assert "--threads 2 --data . --name both" in same
    assert "threads" not in drpg("recap-report", "base").stdout

    other = drpg("recap", *COMMON, "--name", "both", "--optimizer", "icl", exit_code=1)
    assert "threads: 2 stored, 1 given" in other.stderr


def test_a_baseline_that_no_run_has_is_refused(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--name", "one")

    said = drpg("recap-report", "one", "--baseline", "bse", exit_code=2).stderr

    assert "There is no method among these runs 'bse'. Did you mean 'base'?" in " ".join(
        said.split()
    )


def test_a_model_out_of_reach_is_said_in_a_line(drpg: Drpg, here: Path) -> None:
    away = [part.replace("stubborn", "away") for part in COMMON]

    said = drpg("recap", *away, "--name", "one", exit_code=1).stderr

    assert "no route to host" in said
    assert "the same command goes on from here" in said
    assert "Traceback" not in said


def test_a_judge_out_of_reach_stops_the_run_and_its_answers_are_checked_later(
    drpg: Drpg, here: Path
) -> None:
    (here / "kind.yaml").write_text("steps: [{op: add, type: Tone, text: Be kind.}]")
    judged = (*COMMON, "--schedule", "kind.yaml", "--name", "kind")
    (here / "away").touch()
    judged = (*judged, "--judge-lm", "scripted/model:at_times")
    first = drpg("recap", *judged, exit_code=1)
    (answer,) = [line for line in lines(here, "kind") if line["kind"] == "answer"]
    (here / "away").unlink()
    second = drpg("recap", *judged)

    assert "out of reach" in first.stderr
    assert (answer["unchecked"], answer["checks"]) == (True, [])
    assert "not judged" not in second.stderr
    kinds = [line["kind"] for line in lines(here, "kind")]
    assert kinds == ["adapt", "answer", "checks", "answer"]
    out = drpg("recap-report", "kind", "--resamples", "10").stdout
    assert "0 of 2" in out
    assert "not finished" not in out


def test_answers_that_failed_are_told(drpg: Drpg, here: Path) -> None:
    result = drpg("recap", *COMMON, "--lm", "scripted/model:mute", "--name", "mute")
    out = drpg("recap-report", "mute", "--resamples", "10").stdout

    assert "6 of 6 answers failed and meet nothing; the first: AdapterParseError" in result.stderr
    assert "mute: step 0: 0 of 2 checks met, 2 of 2 answers failed" in result.stderr
    assert "**mute: 6 of 6 answers failed**" in out


def test_a_line_that_is_there_twice_is_named(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--name", "one")
    path = here / ".drpg" / "recap" / "one" / "run.jsonl"
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*rows, rows[1]]))
    result = drpg("recap-report", "one", exit_code=1)

    assert "run.jsonl, line 10 is a second 'answer' of prompt" in " ".join(result.stderr.split())


def test_runs_on_other_prompts_are_not_pooled(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--name", "base-a")
    drpg("recap", *COMMON, "--prompts-per-step", "3", "--name", "base-b")
    texts = json.loads((here / "muldimif_test.json").read_text())
    for row in texts:
        row["conversations"][0]["content"] += " Tell me."
    (here / "muldimif_test.json").write_text(json.dumps(texts))
    drpg("recap", *COMMON, "--name", "base-c")
    drpg("recap", *COMMON, "--optimizer", "icl", "--seed", "1", "--name", "icl-1")
    out = drpg("recap-report", "*", "--resamples", "10").stdout

    titles = [line for line in out.splitlines() if line.startswith("## ")]
    assert len(titles) == 3
    assert sum("3 prompts a step" in title for title in titles) == 1
    assert sum(title.endswith("prompt set 2") for title in titles) == 1
    assert "icl: no run with a finished run of base on the same prompts" in out


def test_a_report_without_its_baseline_says_so(drpg: Drpg, here: Path) -> None:
    drpg("recap", *COMMON, "--optimizer", "icl", "--name", "icl-0")

    out = drpg("recap-report", "icl-0", "--resamples", "10").stdout
    assert "No run of base is here: there are no differences to show." in out
