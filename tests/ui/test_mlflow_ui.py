"""What people see and do in MLflow's own pages, in a real Chromium.

``DRPG_SCREENSHOTS=folder`` keeps pictures of what the tests see, as those in ``docs/images``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("mlflow")
pytest.importorskip("playwright")

import scripted_shop as shop

from drpg_dspy.governance import Governance
from drpg_dspy.memory import SQLiteMemory

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

PROMPT_PAGE = f"experiments/1/prompts/{shop.PROMPT}"


def test_from_the_experiment_to_the_run_and_its_curves(site: Any) -> None:
    page = site.open("experiments/1/runs")
    page.get_by_role("link", name=shop.NAME, exact=True).first.click()
    page.get_by_text("mean score over 45 judged steps").wait_for()
    listed = page.get_by_role("link", name=re.compile(r"^shop\.self\.policy \(v\d+\)$"))
    listed.first.wait_for()
    links = listed.all_inner_texts()
    site.picture("run")
    page.get_by_role("tab", name="Model metrics").click()
    charts = page.locator("main").get_by_role("heading", level=4)
    charts.filter(has_text="prequential_score").wait_for()
    page.get_by_text(f"{shop.NAME} (scores/rolling_score)").wait_for()
    page.locator(".scatterlayer .js-line").nth(2).wait_for(state="attached")  # three are drawn
    site.picture("curves", height=620)

    assert len(links) == len(set(links)) > 3
    assert charts.all_inner_texts()[:3] == ["prequential_score", "rolling_score", "score"]


def test_from_the_prompts_to_a_version_and_to_its_run(site: Any, server: Any) -> None:
    page = site.open("experiments/1/prompts")
    page.get_by_role("link", name=shop.PROMPT, exact=True).click()
    page.get_by_text("Viewing version").wait_for()
    page.get_by_text("Version 1", exact=True).click()
    page.get_by_role("heading", name="Viewing version 1", exact=True).wait_for()
    page.get_by_text("parent_version").first.wait_for()
    page.get_by_text(re.compile(r"Step 2 of shop · \+\d −0 rules")).wait_for()
    page.get_by_text("@ current").first.wait_for()
    site.picture("version", height=760)
    page.locator("main").get_by_role("link", name=shop.NAME, exact=True).click()
    page.get_by_role("heading", name="About this run").wait_for()

    assert server.run_id in page.url


def test_two_versions_are_compared(site: Any) -> None:
    page = site.open(f"{PROMPT_PAGE}?promptVersion=2")
    page.get_by_role("heading", name="Viewing version 2", exact=True).wait_for()
    page.get_by_text("Compare", exact=True).click()
    rows = page.get_by_role("row")
    for version, side in (("Version 1", "baseline"), ("Version 2", "compared")):
        row = rows.filter(has=page.get_by_text(version, exact=True))
        row.get_by_role("radio", name=f"Select as {side} version").click()
    page.get_by_text("Text", exact=True).click()
    page.get_by_role("heading", name="Comparing version 1 with version 2").wait_for()
    added = page.get_by_text("Months up to 202401").last
    added.wait_for()
    site.picture("compare", height=760)

    painted = added.evaluate("node => getComputedStyle(node).backgroundColor")
    assert painted not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 255)")


def test_from_a_trace_to_its_policy_version_and_back(site: Any) -> None:
    page = site.open("experiments/1/traces?startTime=ALL")
    page.get_by_text("SELECT first_name").first.click()
    page.get_by_text(re.compile(r"^\d tags$")).hover()
    page.get_by_text("policy.self.version", exact=True).wait_for()
    page.get_by_role("button", name="1 linked prompt").click()
    link = page.get_by_role("link", name=shop.PROMPT)
    place = link.get_attribute("href")
    site.picture("trace", height=640, left=0)
    page.goto(f"{site.uri}/{place}")  # the link itself opens another tab
    page.get_by_text("Viewing version").wait_for()
    page.get_by_text("Traces", exact=True).last.click()
    page.get_by_role("cell", name=re.compile("^tr-")).first.wait_for()
    site.picture("traces-of-a-version", height=640)


def test_the_inspector_opens_in_the_artifacts_and_steps(site: Any, server: Any) -> None:
    page = site.open(f"experiments/1/runs/{server.run_id}/artifacts")
    page.get_by_text("inspector.html").first.click()
    inspector = page.frame_locator("iframe")
    inspector.get_by_text("45 steps · mean score").wait_for()
    shown = inspector.locator("main").inner_text()
    inspector.get_by_title("Previous step").click()
    before = inspector.locator("main").inner_text()
    number = inspector.get_by_label("Step", exact=True).first.input_value()
    inspector.get_by_title("Next step").click()
    again = inspector.locator("main").inner_text()
    inspector.locator("body").press("w")
    inspector.get_by_text("✗ Wrong", exact=True).wait_for()
    site.picture("inspector")

    assert shop.question(44) in shown
    assert shop.question(43) in before
    assert number == "44"
    assert again == shown


def test_a_rule_written_in_the_page_is_in_the_next_answer_of_a_running_program(
    site: Any, server: Any, program: Any, until: Callable[[Callable[[], bool]], None]
) -> None:
    learned = program.prompt_for(shop.question(1))
    page = site.open(PROMPT_PAGE)
    page.get_by_role("button", name="Create prompt version").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Prompt:").fill("- Answer in one line.")
    form.get_by_label("Commit message").fill("brand voice")
    site.picture("edit", left=0)
    form.get_by_role("button", name="Create", exact=True).click()
    page.get_by_text("brand voice").wait_for()

    with closing(SQLiteMemory(server.memory)) as memory:
        governance = Governance(memory)
        until(lambda: len(governance.log()) == 1)
        (decision,) = governance.log()
        edited = program.prompt_for(shop.question(1))
        page.get_by_text("Version 1", exact=True).click()
        page.get_by_role("heading", name="Viewing version 1", exact=True).wait_for()
        page.get_by_text("Aliases:").locator("xpath=..").get_by_role("button", name="Add").click()
        form.get_by_role("combobox").fill("champion")
        form.get_by_role("combobox").press("Enter")
        form.get_by_role("button", name="Save aliases").click()
        form.wait_for(state="hidden")
        page.get_by_text("@ champion").first.wait_for()
        site.picture("champion")
        until(lambda: len(governance.log()) == 2)
        champion = memory.policy(shop.ROUTE, 1)
    crowned = program.prompt_for(shop.question(1))

    assert "Answer in one line." not in learned
    assert "Answer in one line." in edited
    assert (decision.action, decision.reason) == ("take up", "brand voice")
    assert decision.author.startswith("person")
    assert "Answer in one line." not in crowned
    assert all(rule.text in crowned for rule in champion.rules)


def test_an_assessment_left_in_the_page_teaches_the_program(site: Any, server: Any) -> None:
    from drpg_dspy.tracking import pull_feedback

    page = site.open("experiments/1/traces?startTime=ALL")
    page.get_by_text("SELECT first_name").last.click()
    panel = page.get_by_role("dialog").first
    page.get_by_role("button", name="Assess trace").click()
    page.get_by_role("button", name="Add feedback").click()
    page.get_by_role("menuitem", name="Human feedback").click()
    panel.get_by_placeholder("Enter a feedback name").fill("correct")
    panel.get_by_text("False", exact=True).click()
    panel.get_by_text("Rationale").locator("xpath=following::textarea[1]").fill("Two are missing.")
    site.picture("assess", left=0, height=640)
    panel.get_by_role("button", name="Create", exact=True).click()
    panel.get_by_text("Feedback (1)").wait_for()
    asked = panel.get_by_text("Which customers have a number below").first.inner_text()

    def pull() -> tuple[Any, list[Any]]:
        online, _ = shop.learner(server.memory)
        with online:
            found = pull_feedback(online, shop.EXPERIMENT, tracking_uri=server.uri)
            given = [(one, said) for one, said in online.memory.rollouts() if said is not None]
            return found, [pair for pair in given if pair[1].author != "person:reviewer"]

    with ThreadPoolExecutor(1) as pool:  # Playwright keeps an event loop on this thread
        found, ((rollout, feedback),) = pool.submit(pull).result()

    assert (found.learned, found.unreadable) == (1, [])
    assert (feedback.score, feedback.text) == (0.0, "Two are missing.")
    assert feedback.author.startswith("person")
    assert rollout.inputs["question"] in asked


def test_the_pages_ask_for_nothing_outside(site: Any) -> None:
    assert site.outside == []
