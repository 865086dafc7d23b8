"""What ``drpg policy`` shows of decisions and provenance, and how it decides."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from drpg_dspy.analysis.statistics import wilson
from drpg_dspy.cli.app import Stopped, wrong, wrong_if
from drpg_dspy.cli.layout import clean, clip, columns, heading, plural, share
from drpg_dspy.cli.memory_names import memory_file
from drpg_dspy.cli.steps import find_step
from drpg_dspy.governance import Activity, Case, Decision, Governance, Provenance, case_of
from drpg_dspy.governance.following import STATUS_KEY
from drpg_dspy.memory import SQLiteMemory

__all__ = [
    "decide",
    "decisions_as_text",
    "diff_as_text",
    "edited",
    "find_case",
    "find_rule",
    "list_as_plain",
    "list_as_text",
    "opened",
    "provenance_as_text",
    "rules_of",
]

_MARKS = {"correct": "✓", "wrong": "✗", "failed": "!"}


@contextmanager
def opened(name: str, *, writing: bool = False) -> Iterator[Governance]:
    """Open the memory that a name stands for, also while a program uses it."""
    with closing(SQLiteMemory(memory_file(name), read_only=not writing)) as memory:
        yield Governance(memory)


def decide(name: str, act: str, *what: Any, author: str | None, reason: str) -> None:
    """Carry out a decision and say what it was.

    Args:
        name: Whose policies.
        act: A method of :class:`~drpg_dspy.governance.governing.Governance`.
        *what: Its arguments.
        author: Who decides; ``None`` = this account.
        reason: Why.
    """
    with opened(name, writing=True) as governance, wrong_if(["ARGUMENTS"], ValueError):
        made: Decision = getattr(governance, act)(*what, author=_person(author), reason=reason)
    click.echo(f"{name}: {_said(made)}")


def edited(name: str, route: str) -> str:
    """Let the user write a route's policy in an editor; return the text."""
    with opened(name) as governance, wrong_if("ROUTE", ValueError):
        current = governance.current(route)
    before = current.text if current is not None else ""
    hint = "\n# One rule a line. Lines that begin with # are left out. Nothing else = no policy.\n"
    after = click.edit(f"{before}\n{hint}")
    if after is None:
        raise Stopped("Nothing was saved in the editor: the policy stays as it was.")
    return "\n".join(line for line in after.splitlines() if not line.startswith("#"))


def rules_of(file: Path) -> str:
    """Return the text of a file with rules, without a byte order mark."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise wrong(
            "--file",
            f"{file} is not UTF-8: {error.reason} at byte {error.start}. Convert it, e.g. "
            f"iconv -f latin-1 -t UTF-8 {file} > {file}.utf8",
        ) from error


def list_as_text(name: str, governance: Governance) -> str:
    """Say how each route stands."""
    state, routes = governance.state(), governance.status()
    approval = ", learned versions wait for approval" if state.approval else ""
    lines = [heading(f"{name}: {plural(len(routes), 'route')}{approval}")]
    for status in routes:
        lines.append(f"\n{heading(status.route)}  {plural(status.versions, 'version')}")
        if status.held:
            stands = f"@{status.standing.version}" if status.standing else "no policy"
            lines.append(f"  every call gets {stands}, held by a person's decision")
        elif state.approval:
            lines.append("  calls get no policy: none is approved yet")
        elif status.last is not None:
            lines.append(f"  as its optimizer proposes; the last was @{status.last.version}")
        else:
            lines.append("  no policy so far")
        shown = status.standing if status.held else None if state.approval else status.last
        lines += [f"    - {clean(rule.text)}" for rule in shown.rules] if shown else []
        lines += [f"  pinned {rule.id}: {clean(rule.text)}" for rule in status.pinned]
        lines += [
            f"  waits for approval: {status.route}@{one.version}, step {one.step}, "
            f"{plural(len(one.rules), 'rule')}"
            for one in status.candidates[-10:]
        ]
    return "\n".join([*lines, *_registry(governance)])


def list_as_plain(governance: Governance) -> dict[str, Any]:
    """Return how each route stands, for ``--json``."""
    return {"approval": governance.state().approval, "routes": governance.status()}


def decisions_as_text(decisions: Sequence[Decision]) -> str:
    """Say who decided what, newest first."""
    rows = [
        (f"  {one.number}", one.author, _said(one), clip(one.reason, 60))
        for one in reversed(decisions)
    ]
    return f"{heading('Decisions')}\n{columns(rows)}\n\n"


def diff_as_text(governance: Governance, before: str, after: str) -> str:
    """Say what two versions do not share."""
    with wrong_if("ROUTE@VERSION", ValueError):
        change = governance.diff(before, after)
    colours = {"+": "green", "-": "red"}
    lines = []
    for sign, text in change.lines:
        line = f"  {sign} {clean(text)}"
        lines.append(click.style(line, fg=colours[sign]) if sign in colours else line)
    return "\n".join([heading(f"{before} → {after}"), *lines])


def find_rule(governance: Governance, rule: str, route: str | None) -> Provenance:
    """Return a rule's provenance, in the one route that has it."""
    names = [route] if route else [status.route for status in governance.status()]
    found, problems = [], []
    for name in names:
        try:
            found.append(governance.why(name, rule))
        except ValueError as error:
            problems.append(str(error))
    if not found:
        raise wrong("RULE", " ".join(problems) or "There are no policies yet.")
    texts = {(one.rule.text, one.versions[-1].version) for one in found}
    if len(found) > 1 and len(texts) > 1:
        routes = ", ".join(one.route for one in found)
        raise wrong("--route", f"Several routes have it ({routes}); say which one.")
    return found[0]


def find_case(governance: Governance, step: int) -> Case:
    """Return what the call at a step was given and what came of it."""
    with wrong_if("--step", ValueError):
        rollout, _ = find_step(governance.memory, step)
    return case_of(governance.memory, rollout.id)


def provenance_as_text(found: Provenance | Case) -> str:
    """Say where a rule came from and how it did, or what a call was given."""
    return _case(found) if isinstance(found, Case) else _rule(found)


def _rule(found: Provenance) -> str:
    numbers = [policy.version for policy in found.versions]
    shown = ", ".join(f"@{number}" for number in numbers[:8]) + (", …" if len(numbers) > 8 else "")
    lines = [
        heading(clean(found.rule.text)),
        f"  {found.rule.id}, by {found.rule.author}, in {found.route}: "
        f"{plural(len(numbers), 'version')} ({shown})",
        f"\n{heading('It came from')}",
    ]
    lines += [
        f"  {_MARKS.get(one.verdict, '?')} step {one.step}  {clip(one.key, 60)}  {clip(one.text)}"
        for one in found.sources
    ] or ["  no case: a person wrote it, or its method names none"]
    lines.append(f"\n{heading('Calls')}")
    rows = [
        ("  with the rule", *_activity(found.active)),
        ("  as many before it", *_activity(found.before)),
        ("  all without it", *_activity(found.without)),
    ]
    lines.append(columns(rows, ("", "calls", "judged", "score", "95 % interval")))
    lines.append("  Other things changed between these calls as well: this is no proof.")
    if found.active.steps:
        lines.append(f"  It was active at steps {_ranges(found.active.steps)}.")
    return "\n".join(lines)


def _case(found: Case) -> str:
    lines = [
        heading(f"Step {found.rollout.step}, {found.verdict}: {clip(found.rollout.key, 90)}"),
        f"\n{heading('It was given')}",
    ]
    for policy in found.active:
        lines.append(f"  {policy.route}@{policy.version}, by {policy.author}")
        lines += [f"    {rule.id}  {clip(rule.text, 90)}" for rule in policy.rules]
    if not found.active:
        lines.append("  no policy")
    lines.append(f"\n{heading('Rules that came of it')}")
    lines += [
        f"  {policy.route}@{policy.version}  {rule.id}  {clip(rule.text, 90)}"
        for policy, rule in found.led_to
    ] or ["  none"]
    return "\n".join(lines)


def _activity(activity: Activity) -> tuple[str, ...]:
    calls, judged = str(len(activity.steps)), str(activity.judged)
    if not activity.judged:
        return calls, judged, "–", "–"
    low, high = wilson(activity.score, activity.judged)
    interval = f"{100 * float(low):.1f} to {100 * float(high):.1f}"
    return calls, judged, share(activity.score), interval


def _ranges(steps: Sequence[int], most: int = 8) -> str:
    """Return step numbers with runs of them joined.

    >>> _ranges([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9–10'
    """
    groups: list[list[int]] = []
    for step in steps:
        if groups and step == groups[-1][-1] + 1:
            groups[-1].append(step)
        else:
            groups.append([step])
    parts = [f"{g[0]}–{g[-1]}" if len(g) > 1 else str(g[0]) for g in groups]
    return ", ".join(parts[:most]) + (", …" if len(parts) > most else "")


def _registry(governance: Governance) -> list[str]:
    text = governance.memory.get_meta(STATUS_KEY)
    status = json.loads(text) if text else {}
    lines = []
    if status.get("error"):
        n, why = plural(status["failures"], "look"), clip(status["error"], 200)
        lines.append(f"\nThe prompt registry cannot be read ({n} failed): {why}")
    if status.get("refused"):
        lines.append(f"\nIn the prompt registry {clip(status['refused'], 300)}")
    return lines


def _said(made: Decision) -> str:
    where = made.route or "every route"
    version = f"@{made.version}" if made.version else ""
    if made.action in ("edit", "take up") and not made.version:
        version = " (no policy)"
    number = f"decision {made.number}"
    return f"{made.action} {where}{version} ({number})"


def _person(author: str | None) -> str:
    try:
        name = author or getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        name = "unknown"
    return name if name.startswith("person:") else f"person:{name}"
