"""The protocol: adapt without seeing a test prompt, be tested on everything, go on after a kill."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMAuthError

from drpg_dspy.constraints import Constraint, RuleCheck, Schedule
from drpg_dspy.continual import (
    Answer,
    BaseLM,
    DefaultAnswers,
    Prompt,
    Protocol,
    RunLog,
    StepContext,
    run_protocol,
    with_requirements,
)
from drpg_dspy.exceptions import ResumeMismatch, RunInUse, StorageError
from drpg_dspy.streaming.attempts import Retry
from drpg_dspy.testing.scripted import ScriptedLM

SETTINGS = {"optimizer": "base", "seed": 0}


class Recorder:
    """Notes what it is told; answers with the constraints' texts."""

    name = "recorder"

    def __init__(self) -> None:
        self.told: list[StepContext] = []
        self.kept = ""

    def adapt(self, context: StepContext) -> None:
        self.told.append(context)
        self.kept += str(context.step)

    def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
        return Answer(f"Note {self.kept}", policy=self.kept)

    def save(self, folder: Path) -> None:
        (folder / "kept").write_text(self.kept)

    def load(self, folder: Path) -> None:
        self.kept = (folder / "kept").read_text()


def log(tmp_path: Path, **settings: Any) -> RunLog:
    return RunLog(tmp_path / "run", {**SETTINGS, **settings})


def answers(run: RunLog) -> list[dict[str, Any]]:
    return [line for line in run.lines() if line["kind"] == "answer"]


def test_each_step_is_adapted_to_first_and_then_tested_on_every_prompt(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    run = log(tmp_path)
    run_protocol(Recorder, protocol, run, lm)
    lines = list(run.lines())

    assert [(line["kind"], line["step"], line.get("prompt")) for line in lines[:3]] == [
        ("adapt", 0, None), ("answer", 0, "p"), ("answer", 0, "q"),
    ]  # fmt: skip
    assert len(lines) == 4 * 3
    assert [line["policy"] for line in answers(run)][::2] == ["0", "01", "012", "0123"]


def test_shadows_go_on_being_checked_beside_what_is_in_force(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    run = log(tmp_path)
    run_protocol(Recorder, protocol, run, lm)
    last = answers(run)[-1]["checks"]

    assert [(one["text"], one.get("shadow"), one["satisfied"]) for one in last] == [
        ('Start with the word "First".', None, False),
        ('Start with the word "Note".', "edit", True),
        ("Under 6 words.", "delete", True),
    ]


def test_a_method_is_told_the_operation_and_names_of_types_and_nothing_else(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    made = Recorder()
    run_protocol(lambda: made, protocol, log(tmp_path), lm)
    third = made.told[2]

    assert (third.step, third.schedule, third.samples) == (2, "short", 2)
    assert (third.edited, third.new, third.removed) == (("Start_With",), (), ())
    assert (third.retained, third.active_types) == (("Length",), ("Start_With", "Length"))
    assert made.told[3].ever_deleted == ("Length",)
    assert third.active == ()
    assert "What is tea?" not in repr(made.told)
    assert "Under 6 words." not in repr(third)


def test_full_information_tells_every_text_in_force(
    tmp_path: Path, plan: Schedule, lm: ScriptedLM
) -> None:
    made = Recorder()
    prompts = (Prompt("p", "What is tea?"),)
    run_protocol(lambda: made, Protocol(plan, prompts, RuleCheck(), True), log(tmp_path), lm)

    assert [one.text for one in made.told[1].active] == [
        'Start with the word "Note".', "Under 6 words.",
    ]  # fmt: skip


class Killed(BaseException):
    """What a kill looks like from inside."""


def killing(after: int) -> type[Recorder]:
    class Doomed(Recorder):
        calls = 0

        def adapt(self, context: StepContext) -> None:
            self.tick()
            super().adapt(context)

        def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
            self.tick()
            return super().answer(prompt, active)

        def tick(self) -> None:
            type(self).calls += 1
            if type(self).calls > after:
                raise Killed

    return Doomed


@pytest.mark.parametrize("after", range(12))
def test_a_run_that_is_killed_anywhere_ends_as_if_it_had_not_been(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM, after: int
) -> None:
    whole, broken = RunLog(tmp_path / "whole", SETTINGS), RunLog(tmp_path / "broken", SETTINGS)
    run_protocol(Recorder, protocol, whole, lm)
    with pytest.raises(Killed):
        run_protocol(killing(after), protocol, broken, lm)
    with (broken.folder / "run.jsonl").open("ab") as file:
        file.write(b'{"kind": "ans')  # the line that was being written
    run_protocol(Recorder, protocol, broken, lm)

    def content(run: RunLog) -> list[Any]:
        shown = ("kind", "step", "prompt", "answer", "checks", "policy")
        return [{name: line.get(name) for name in shown} for line in run.lines()]

    assert content(broken) == content(whole)


def test_a_finished_run_asks_nothing_again(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM, program: dspy.Module
) -> None:
    run = log(tmp_path)
    run_protocol(lambda: BaseLM(program), protocol, run, lm)
    asked = len(lm.prompts)
    run_protocol(lambda: BaseLM(program), protocol, run, lm)

    assert asked == len(lm.prompts) == 8


def test_costs_of_adapting_and_answering_are_metered_apart(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM, program: dspy.Module
) -> None:
    run = log(tmp_path)
    run_protocol(lambda: BaseLM(program), protocol, run, lm)
    lines = list(run.lines())

    assert {line["usage"]["calls"] for line in lines if line["kind"] == "adapt"} == {0}
    assert {line["usage"]["calls"] for line in lines if line["kind"] == "answer"} == {1}


def test_an_adaptation_that_fails_is_noted_and_the_method_goes_on(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    class Clumsy(Recorder):
        def adapt(self, context: StepContext) -> None:
            raise RuntimeError("no idea")

    run = log(tmp_path)
    run_protocol(Clumsy, protocol, run, lm)
    adapts = [line for line in run.lines() if line["kind"] == "adapt"]

    assert [line["error"] for line in adapts] == ["RuntimeError: no idea"] * 4
    assert len(answers(run)) == 8


def test_an_answer_that_fails_meets_nothing(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    class Mute(Recorder):
        def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
            raise ValueError("no parse")

    run = log(tmp_path)
    run_protocol(Mute, protocol, run, lm)

    assert {one["error"] for one in answers(run)} == {"ValueError: no parse"}
    assert {check["satisfied"] for one in answers(run) for check in one["checks"]} == {False}


def test_a_model_that_refuses_every_request_stops_the_run_at_once(
    tmp_path: Path, protocol: Protocol, program: dspy.Module
) -> None:
    def shut(messages: Any) -> str:
        raise LMAuthError("wrong key", model="openai/x")

    run = log(tmp_path)
    with pytest.raises(LMAuthError):
        run_protocol(lambda: BaseLM(program), protocol, run, ScriptedLM(shut))
    assert answers(run) == []


def test_a_model_out_of_reach_is_asked_again_and_then_stops_the_run(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    class Away(Recorder):
        tries = 0

        def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
            type(self).tries += 1
            raise ConnectionError("gone")

    run = log(tmp_path)
    waits: list[float] = []
    with pytest.raises(ConnectionError):
        run_protocol(Away, protocol, run, lm, retry=Retry(2, pause=0.5, sleep=waits.append))

    assert (Away.tries, waits, answers(run)) == (3, [0.5, 1.0], [])
    run_protocol(Recorder, protocol, run, lm)  # and can go on
    assert len(answers(run)) == 8


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    log(tmp_path)
    with pytest.raises(ResumeMismatch, match="seed: 0 stored, 1 given"):
        log(tmp_path, seed=1)


def test_a_run_that_another_holds_is_refused(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    run = log(tmp_path)
    errors: list[BaseException] = []

    def second() -> None:
        try:
            run_protocol(Recorder, protocol, run, lm)
        except RunInUse as error:
            errors.append(error)

    with run.lock():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(errors) == 1


def test_a_damaged_line_before_the_last_is_named(
    tmp_path: Path, protocol: Protocol, lm: ScriptedLM
) -> None:
    run = log(tmp_path)
    (run.folder / "run.jsonl").write_text('{"kind": "adapt", "step": 0}\nrubbish\n')
    with pytest.raises(StorageError, match=r"run\.jsonl, line 2 is damaged"):
        run_protocol(Recorder, protocol, run, lm)


def test_a_folder_without_a_run_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds no run of drpg recap"):
        RunLog(tmp_path / "none")


def test_a_protocol_without_prompts_or_with_two_of_one_name_is_refused(plan: Schedule) -> None:
    twice = (Prompt("p", "a"), Prompt("p", "b"))
    for prompts, why in (((), "at least one prompt"), (twice, "same id")):
        with pytest.raises(ValueError, match=why):
            Protocol(plan, prompts, RuleCheck())


def test_default_answers_are_asked_once_and_shared(
    tmp_path: Path, lm: ScriptedLM, program: dspy.Module
) -> None:
    prompts = [Prompt("p", "What is tea?"), Prompt("q", "What is salt?")]
    first = DefaultAnswers(tmp_path, lm, {"max_tokens": 9}).answers(program, prompts)
    with next(tmp_path.glob("*.jsonl")).open("a") as file:
        file.write('{"prompt": "half')
    again = DefaultAnswers(tmp_path, lm, {"max_tokens": 9}).answers(program, prompts)

    assert first == again == {"p": "Well it is good", "q": "Well it is good"}
    assert len(lm.prompts) == 2
    DefaultAnswers(tmp_path, lm, {"max_tokens": 5}).answers(program, prompts)
    assert len(lm.prompts) == 4


def test_default_answers_that_failed_are_not_kept(tmp_path: Path, program: dspy.Module) -> None:
    prompts = [Prompt("p", "What is tea?"), Prompt("q", "What is salt?")]
    whole = "[[ ## response ## ]]\nTea.\n\n[[ ## completed ## ]]"

    def away(messages: Any) -> str:
        if "salt" in messages[-1]["content"]:
            raise ConnectionError("no route to host")
        return whole

    answers_of = DefaultAnswers(tmp_path, ScriptedLM(away), {})
    with pytest.raises(Exception, match="no route to host"):
        answers_of.answers(program, prompts)
    assert answers_of.known() == {"What is tea?": "Tea."}

    found = DefaultAnswers(tmp_path, ScriptedLM(["nonsense"]), {}).answers(program, prompts)
    assert found == {"p": "Tea.", "q": ""}
    again = DefaultAnswers(tmp_path, ScriptedLM([whole]), {}).answers(program, prompts)
    assert again == {"p": "Tea.", "q": "Tea."}


def test_a_prompt_without_constraints_is_left_as_it_is() -> None:
    assert with_requirements("What is tea?", []) == "What is tea?"


def test_prompts_answered_side_by_side_come_to_the_same(
    tmp_path: Path, program: dspy.Module, protocol: Protocol, lm: ScriptedLM
) -> None:
    together = threading.Barrier(2, timeout=10)

    class Both(BaseLM):
        def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
            together.wait()  # passes only where two are answered at once
            return super().answer(prompt, active)

    alone, abreast = RunLog(tmp_path / "alone", SETTINGS), RunLog(tmp_path / "abreast", SETTINGS)
    run_protocol(lambda: BaseLM(program), protocol, alone, lm)
    run_protocol(lambda: Both(program), protocol, abreast, lm, threads=2)

    def kept(run: RunLog) -> list[Any]:
        rows = [(one["step"], one["prompt"], one["answer"], one["checks"]) for one in answers(run)]
        return sorted(rows, key=lambda row: row[:2])

    assert kept(abreast) == kept(alone)
    assert {one["usage"]["calls"] for one in answers(abreast)} == {1}


def test_answers_beside_one_that_ends_the_run_are_kept(
    tmp_path: Path, program: dspy.Module, protocol: Protocol
) -> None:
    answered = threading.Event()

    class Refused(BaseLM):
        def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
            if prompt.id == "p":
                answered.wait(10)
                raise LMAuthError("no key")
            answered.set()
            return Answer("Note this")

    run = log(tmp_path)
    with pytest.raises(LMAuthError):
        run_protocol(lambda: Refused(program), protocol, run, ScriptedLM(str), threads=2)

    assert [one["prompt"] for one in answers(run)] == ["q"]
