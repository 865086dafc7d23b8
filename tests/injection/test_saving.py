"""Plain and attached programs read each other's files, with and without this package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest

import drpg_dspy
from drpg_dspy.injection import attach, set_policy, use_policy


def make() -> dspy.Module:
    program = dspy.ChainOfThought("question -> answer")
    program.predict.demos = [dspy.Example(question="dq", reasoning="dr", answer="da")]
    return program


def tuned() -> dspy.Module:
    program = make()
    signature = program.predict.signature.with_instructions("Tuned instructions.")
    program.predict.signature = signature.with_updated_fields("answer", desc="tuned answer")
    return program


def fields_of(program: dspy.Module) -> list[tuple[str, str]]:
    signature = program.predict.signature
    return [(name, info.json_schema_extra["desc"]) for name, info in signature.fields.items()]


@pytest.mark.parametrize("kind", ["json", "pkl"])
def test_an_attached_program_without_a_policy_saves_what_the_plain_one_saves(
    kind, tmp_path: Path
) -> None:
    plain, attached = tuned(), tuned()
    attach(attached)
    with use_policy({"predict": "- in force while saving"}):
        attached.save(tmp_path / f"attached.{kind}")
    plain.save(tmp_path / f"plain.{kind}")
    assert (tmp_path / f"attached.{kind}").read_bytes() == (tmp_path / f"plain.{kind}").read_bytes()


@pytest.mark.parametrize("kind", ["json", "pkl"])
@pytest.mark.parametrize("own", ["", "- own rule"])
@pytest.mark.parametrize("reads_attached", [True, False])
@pytest.mark.parametrize("writes_attached", [True, False])
def test_files_are_read_in_both_directions(
    kind, own, reads_attached, writes_attached, tmp_path: Path, lm
) -> None:
    writer, reader = tuned(), make()
    if writes_attached:
        set_policy(writer, {"predict": own})
    if reads_attached:
        set_policy(reader, {"predict": "- of the reader"})
    writer.save(tmp_path / f"p.{kind}")
    with use_policy({"predict": "- in force while loading"}):
        reader.load(tmp_path / f"p.{kind}", allow_pickle=True)
    expected = tuned()
    assert fields_of_plain(reader) == fields_of(expected)
    reader(question="q")
    wanted = own if writes_attached and reads_attached else ""
    assert ("[[ ## policy ## ]]" in lm.texts()[-1]) == bool(wanted)
    assert wanted in lm.texts()[-1]
    assert "- of the reader" not in lm.texts()[-1]
    assert "Tuned instructions." in lm.texts()[-1]
    assert "dr" in lm.texts()[-1]


def fields_of_plain(program: dspy.Module) -> list[tuple[str, str]]:
    with use_policy({"predict": ""}):
        return fields_of(program)


def test_a_policy_read_by_a_plain_program_is_in_force_once_it_is_attached(
    tmp_path: Path, lm
) -> None:
    writer, reader = make(), make()
    set_policy(writer, {"predict": "- travelled"})
    writer.save(tmp_path / "p.json")
    state = json.loads((tmp_path / "p.json").read_text())
    assert state["predict"]["drpg_policy"] == "- travelled"
    reader.load(tmp_path / "p.json")
    reader(question="q")
    attach(reader)
    reader(question="q")
    assert ["- travelled" in text for text in lm.texts()] == [False, True]


class Mine(dspy.Predict):
    def forward(self, question: str) -> Any:
        return super().forward(question=question)


@pytest.mark.parametrize("kind", [dspy.Predict, Mine])
def test_a_whole_program_keeps_class_policy_and_place(kind, tmp_path: Path, lm) -> None:
    program = kind("question -> answer")
    attach(program, placement="instructions")
    set_policy(program, {"self": "- own rule"})
    program(question="q")
    program.save(tmp_path / "whole", save_program=True)
    loaded = dspy.load(str(tmp_path / "whole"), allow_pickle=True)
    loaded(question="q")
    assert lm.prompts[0] == lm.prompts[1]
    assert isinstance(loaded, kind)
    with use_policy({"self": "- scoped"}):
        loaded(question="q")
    assert "- scoped" in lm.texts()[-1]


LOAD_ELSEWHERE = """
import sys
import dspy
program = dspy.load(sys.argv[1], allow_pickle=True)
try:
    import drpg_dspy
    raise SystemExit("the package is on the path: this proves nothing")
except ModuleNotFoundError:
    pass
lm = dspy.utils.DummyLM([{"reasoning": "r", "answer": "fine"}] * 2)
dspy.configure(lm=lm)
assert program(question="q").answer == "fine"
assert "- own rule" in lm.history[-1]["messages"][-1]["content"], lm.history[-1]["messages"]
program.deepcopy().save(sys.argv[1] + ".json")
print("ran")
"""


def test_a_whole_program_saved_by_value_runs_where_this_package_is_not_installed(
    tmp_path: Path, lm
) -> None:
    program = make()
    set_policy(program, {"predict": "- own rule"})
    program(question="q")
    program.save(tmp_path / "whole", save_program=True, modules_to_serialize=[drpg_dspy])
    block = tmp_path / "elsewhere"
    block.mkdir()
    # A finder that refuses the package, since an editable install is always on the path.
    (block / "sitecustomize.py").write_text(
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'drpg_dspy':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ELSEWHERE, str(tmp_path / "whole")],
        cwd=tmp_path, env={"PYTHONPATH": str(block), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("ran")
