from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from drpg_dspy.testing.tracker_contract import AWKWARD_TEXTS, sample_records
from drpg_dspy.tracking import inspector
from drpg_dspy.types import Feedback

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def data(page: str) -> dict:
    """Return what the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def text(page: dict, index: int) -> str:
    return page["texts"][index]


def test_a_step_shows_its_input_answer_policy_and_verdict(memory, play) -> None:
    play(memory, 1, rules=("A.",))
    play(memory, 2, rules=("B.",), score=0.0)
    page = data(inspector.render(memory, "first"))
    step = page["steps"][1]
    assert text(page, step["in"]["question"]) == "question 2"
    assert text(page, step["out"]["answer"]) == "answer 2"
    version, policy, author = step["policies"]["predict"]
    assert (version, text(page, policy), author) == (2, "- B.", "drpg")
    assert step["feedback"]["score"] == 0.0
    assert text(page, step["feedback"]["text"]) == "verdict 2"
    assert step["cost"]["answer"] == [1, 100, 10]
    assert step["cost"]["policy"] == [1, 30, 5]


def test_retrieved_cases_point_to_their_steps() -> None:
    page = data(inspector.render(sample_records(4), "first"))
    assert page["steps"][3]["got"] == {"shots": [1, 2], "wrong": [2]}
    assert text(page, page["steps"][3]["shots"]["predict"][0]["answer"]) == "42"


def test_a_case_that_is_not_on_the_page_keeps_its_name() -> None:
    late = [r for r in sample_records(4) if r.rollout.step == 4]
    page = data(inspector.render(late, "first"))
    assert page["steps"][0]["got"]["wrong"] == ["rollout-0003"]


def test_the_verdict_shown_is_the_last_one(memory, play) -> None:
    play(memory, 1, score=1.0)
    memory.commit("r0001", Feedback(0.0, "looked again"))
    page = data(inspector.render(memory, "first"))
    assert page["steps"][0]["feedback"]["score"] == 0.0
    memory.retract("r0001")
    assert "feedback" not in data(inspector.render(memory, "first"))["steps"][0]


def test_a_failed_and_an_unjudged_step_are_told_apart() -> None:
    page = data(inspector.render(sample_records(5), "first"))
    assert page["steps"][3]["feedback"]["score"] is None
    assert page["steps"][4]["out"] is None
    assert text(page, page["steps"][4]["error"]) == "Boom: no"


def test_the_memorys_threshold_decides_what_is_wrong(memory) -> None:
    assert data(inspector.render(memory, "first"))["threshold"] == memory.threshold
    assert data(inspector.render(memory, "first", threshold=0.9))["threshold"] == 0.9


@pytest.mark.parametrize("awkward", AWKWARD_TEXTS[:5])
def test_no_content_can_leave_its_place(memory, play, awkward: str) -> None:
    play(memory, 1, rules=(awkward + " /*DATA*/ <!-- -->",))
    page = inspector.render(memory, awkward + " /*DATA*/ <!--TITLE-->")
    assert len(re.findall(r"<script", page)) == len(re.findall(r"</script>", page)) == 2
    found = data(page)
    assert found["title"].startswith(awkward)
    policy = text(found, found["steps"][0]["policies"]["predict"][1])
    assert policy == f"- {awkward} /*DATA*/ <!-- -->"


def test_a_page_asks_nothing_of_a_network_or_the_browsers_storage() -> None:
    page = inspector.render(sample_records(2), "first")
    assert not re.findall(r'(?:src|href)\s*=\s*"|@import|url\(|fetch\(|localStorage|cookie', page)


def test_a_text_that_recurs_stands_in_the_page_once(memory, play) -> None:
    rule = "the same long rule " * 50
    for n in range(1, 20):
        play(memory, n, rules=(rule,))
    assert inspector.render(memory, "first").count(rule) == 1


def test_long_values_are_cut_visibly_until_the_page_fits() -> None:
    records = sample_records(12)
    page = inspector.render(records, "first", max_bytes=60_000)
    assert len(page.encode()) <= 60_000
    assert any("characters cut …]" in value for value in data(page)["texts"])


def test_a_run_that_cannot_fit_says_so() -> None:
    with pytest.raises(ValueError, match="do not fit a page of 30,000 bytes"):
        inspector.render(sample_records(12), "first", max_bytes=30_000)


def test_a_run_without_steps_gives_a_page(memory) -> None:
    assert data(inspector.render(memory, "first"))["steps"] == []


def test_a_browser_shows_the_step_that_was_asked_for(memory, play, tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    for n, rules in enumerate([("A rule.",), ("A rule.", "</script><b id=hacked>B</b>")], 1):
        play(memory, n, rules=rules, score=float(n == 1))
    page = tmp_path / "page.html"
    page.write_text(inspector.render(memory, "A <i>run</i>"), encoding="utf-8")
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    command = [CHROMIUM, "--headless", *flags, f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", f"{page.as_uri()}#step=2"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    shown = done.stdout.partition('<script type="application/json"')[0]
    assert "✗ Wrong" in shown
    assert "question 2" in shown
    assert "against version 1 at step 1" in shown
    assert "&lt;/script&gt;&lt;b id=hacked&gt;" in shown
    assert "A &lt;i&gt;run&lt;/i&gt;" in shown
