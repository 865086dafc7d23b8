"""Help that teaches, exit codes, and one message for a user's mistake."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from drpg_dspy.cli import cli
from drpg_dspy.cli.app import Command, Group

DOCS = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def commands(group: click.Group = cli, path: str = "drpg") -> Iterator[tuple[str, click.Command]]:
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


ALL = dict(commands())


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_help_with_an_example_and_what_comes_next(path: str) -> None:
    result = CliRunner().invoke(cli, [*path.split()[1:], "--help"], terminal_width=100)

    assert result.exit_code == 0
    assert "Example:" in result.output
    assert "Next:" in result.output


def documented(path: str) -> str:
    """Return the section on a command, with the introduction that goes for all."""
    introduction, *sections = re.split(r"^## ", DOCS.read_text(), flags=re.MULTILINE)
    (own,) = (s for s in sections if re.search(rf"`{path}[` ]", s.partition("\n")[0]))
    return introduction + own


@pytest.mark.parametrize("path", [path for path, c in ALL.items() if isinstance(c, Command)])
def test_every_command_is_documented_with_all_its_options(path: str) -> None:
    options = [p for p in ALL[path].params if isinstance(p, click.Option)]

    said = documented(path)

    for option in options:
        names = [*option.opts, *option.secondary_opts]
        assert option.help, f"{path} {names} has no help"
        assert any(re.search(rf"{name}\b", said) for name in names), f"{path} {names}"


def test_every_exit_code_is_documented() -> None:
    docs = DOCS.read_text()

    for code in (0, 1, 2, 130, 141):
        assert f"\n| {code} |" in docs


def test_examples_in_help_name_existing_commands_and_options() -> None:
    for path, command in ALL.items():
        for line in re.findall(r"^ +drpg (.+)$", command.help or "", re.MULTILINE):
            words = line.split()
            if words[0] == "feedback" and words[1] not in {"give", "pull"}:
                words.insert(1, "give")
            named = "drpg " + " ".join(
                words[:2] if isinstance(ALL.get(f"drpg {words[0]}"), click.Group) else words[:1]
            )
            assert named in ALL, f"{path}: {line}"
            known = {name for param in ALL[named].params for name in param.opts}
            given = {word for word in words if word.startswith("--")} - {"--help"}
            assert given <= known, f"{path}: {line}"


@pytest.mark.parametrize("path", [path for path, c in ALL.items() if isinstance(c, click.Group)])
def test_a_group_alone_shows_its_help_and_succeeds(path: str) -> None:
    result = CliRunner().invoke(cli, path.split()[1:])

    assert result.exit_code == 0
    assert "Commands:" in result.output


def broken(error: BaseException) -> click.Group:
    group = Group("broken")

    @group.command()
    def fail() -> None:
        raise error

    return group


@pytest.mark.parametrize(
    "error", [ValueError("k is 0"), ImportError("needs x"), FileNotFoundError("no file")]
)
def test_a_users_mistake_is_one_message_without_a_traceback(error: Exception) -> None:
    result = CliRunner().invoke(broken(error), ["fail"])

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {error}")
    assert "Traceback" not in result.stderr


def test_debug_raises_the_error_itself() -> None:
    result = CliRunner().invoke(broken(ValueError("k is 0")), ["fail", "--debug"])

    assert isinstance(result.exception, ValueError)


def test_a_fault_of_ours_is_not_dressed_up_as_the_users_mistake() -> None:
    result = CliRunner().invoke(broken(AttributeError("oops")), ["fail"])

    assert isinstance(result.exception, AttributeError)


def test_ctrl_c_exits_with_130_and_says_how_to_go_on() -> None:
    result = CliRunner().invoke(broken(KeyboardInterrupt("to go on: drpg resume x")), ["fail"])

    assert result.exit_code == 130
    assert "drpg resume x" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runn"], "Did you mean 'run'?"),
        (["run", "house_rule", "--lm", "x"], "Did you mean 'house_rules'?"),
        (["run", "house_rules", "--lm", "x", "--optimizer", "drgp"], "Did you mean 'drpg'?"),
        (["run", "house_rules", "--lm", "x", "--set", "contrst=wrong"], "Did you mean 'contrast'?"),
        (["run", "house_rules", "--lm", "x", "--set", "contrast"], "Expected KEY=VALUE"),
        (["run", "house_rules", "--lm", "x", "--set", "writer=cas"], "Did you mean 'case'?"),
        (["run", "house_rules", "--lm", "x", "--set", "policy_lm=y"], "--policy-lm"),
        (["run", "house_rules", "--lm", "x", "--k", "3", "--set", "k=4"], "not both"),
        (["run", "house_rules", "--lm", "x", "--compare", "repaird"], "Did you mean 'repaired'?"),
        (["run", "nowhere:THING", "--lm", "x"], "no module 'nowhere'"),
        (["run", "tiny_bench:NOTHING", "--lm", "x"], "has no 'NOTHING'"),
        (["run", "house_rules", "--lm", "x", "--limit", "0"], "--limit"),
        (["run", "house_rules"], "--lm"),
        (["show", "frist"], "There is no run or learner 'frist'"),
        (["feedback", "first", "1", "--score", "1"], "There is no run 'first'"),
        (["lm", "pull", "qwen2.5-coder-15b"], "Did you mean 'qwen2.5-coder-1.5b'?"),
        (["score", "house_rules", "--predictions", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_value_and_remedy(
    workdir: Path, arguments: list[str], said: str
) -> None:
    result = CliRunner().invoke(cli, arguments)

    assert result.exit_code == 2, result.output
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert not (workdir / ".drpg").exists()


def test_python_m_drpg_dspy_is_drpg() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "drpg_dspy", "--version"], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith("drpg, version ")
