"""A method of one's own on the command line: ``MODULE:CLASS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

Drpg = Callable[..., Result]

OWN = '''
from drpg_dspy import Guidance, OnlineOptimizer, Policy, Rule

class Remarks(OnlineOptimizer):
    """The last remark is the policy."""

    name = "remarks"
    writes_policies = True

    def __init__(self, k=1, ending="units"):
        self.rule, self.ending = "", ending

    def propose(self, inputs, memory):
        rules = (Rule(self.rule, author=self.name),) if self.rule else ()
        routes = self.require_card().route_names if rules else ()
        return Guidance({route: Policy(route, rules, author=self.name) for route in routes})

    def update(self, experience, memory):
        if not experience.correct:
            self.rule = f"End every answer with the word {self.ending}."

    def state_dict(self):
        return {"rule": self.rule}

    def load_state_dict(self, state):
        self.rule = state["rule"]


class Nameless(Remarks):
    name = None


class Unfinished(OnlineOptimizer):
    name = "unfinished"


class Other:
    pass
'''


@pytest.fixture
def own(workdir: Path) -> Iterator[str]:
    """A module of one's own in the working directory."""
    (workdir / "my_methods.py").write_text(OWN)
    sys.modules.pop("my_methods", None)
    yield "my_methods:Remarks"
    sys.modules.pop("my_methods", None)


def test_a_method_of_ones_own_runs_with_its_arguments_and_is_resumed(
    own: str, run: Drpg, drpg: Drpg
) -> None:
    Path("crash_after").write_text("4")
    run("--optimizer", own, "--set", "ending=units", "--delay", "1", exit_code=130)
    Path("crash_after").unlink()

    done = json.loads(drpg("resume", "first", "--json").stdout)

    config = json.loads(Path(".drpg/runs/first/config.json").read_text())
    assert config["optimizer"] == own
    assert config["options"] == {"ending": "units", "k": 2}
    assert (done["n"], done["correct"]) == (12, 10)  # learned after the second answer
    log = drpg("policy", "log", "first").stdout
    assert "End every answer with the word units." in log
    assert "remarks" in log
    assert own in drpg("show", "first").stdout


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("my_methods:Missing", "has no 'Missing'"),
        ("no_such_module:X", "There is no module 'no_such_module'"),
        ("my_methods:Other", "is no method: expected a class derived from"),
        ("my_methods:OWN", "has no 'OWN'"),
        ("my_methods:Unfinished", "it must define propose"),
        ("my_methods:Nameless", "has no name for reports"),
        ("my_methods:", "Expected MODULE:ATTRIBUTE"),
        ("remarks", "One of your own is MODULE:CLASS."),
    ],
)
def test_what_is_no_method_is_refused(own: str, run: Drpg, named: str, said: str) -> None:
    refused = run("--optimizer", named, exit_code=2)

    assert said in " ".join(refused.stderr.split())
    assert not Path(".drpg").exists()


def test_an_argument_that_it_does_not_take_is_refused(own: str, run: Drpg) -> None:
    refused = run("--optimizer", own, "--set", "endings=x", exit_code=2)

    assert "'endings'" in refused.stderr
    assert "ending" in refused.stderr


def test_files_of_settings_and_sweeps_take_it(own: str, drpg: Drpg, workdir: Path) -> None:
    folder = workdir / "cells"
    folder.mkdir()
    for name, method in (("mine", own), ("wrong", "my_methods:Other")):
        (folder / f"{name}.toml").write_text(
            f'benchmark = "tiny_bench:BENCHMARK"\noptimizer = "{method}"\n'
            'embedder = "hashing"\nmlflow = false\nlimit = 3\n'
        )
    lm = "scripted/tiny_bench:calculator"

    refused = drpg("sweep", str(folder), "--lm", lm, "--dry-run", exit_code=2)
    assert "is no method" in refused.stderr
    (folder / "wrong.toml").unlink()

    announced = json.loads(drpg("sweep", str(folder), "--lm", lm, "--dry-run", "--json").stdout)
    assert [row["run"] for row in announced] == ["mine-tiny_bench-calculator"]


def test_it_can_be_held_out_compared_and_reported(own: str, run: Drpg, drpg: Drpg) -> None:
    run("--optimizer", own, "--holdout", "0.5", "--name", "held")
    assert "remarks" in drpg("policy", "log", "held").stdout
    drpg("report", "held", "--out", "report")
    assert own in Path("report/index.html").read_text()

    compared = drpg(
        "compare", "tiny_bench:BENCHMARK", "--optimizers", f"zero_shot,{own}",
        "--train", "4", "--test", "4", "--budget-calls", "40", "--embedder", "hashing",
        "--lm", "scripted/tiny_bench:calculator", "--no-mlflow", "--json", "--out", "compared",
    )  # fmt: skip
    scores = {row["name"]: row for row in json.loads(compared.stdout)["columns"]}
    assert set(scores) == {"zero_shot", "remarks"}
