"""The report of small runs: numbers by hand, texts as data, nothing compared unfairly."""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.exceptions import StorageError
from drpg_dspy.report import ReportFiles, ReportOptions, write_report
from drpg_dspy.report.content import TABLE_NAMES
from drpg_dspy.streaming import RunFolder

MakeRun = Callable[..., RunFolder]
Parse = Callable[[Path], Any]
NAN = math.nan


def rows(files: ReportFiles, table: str) -> list[dict[str, str]]:
    """Read a table from its CSV file."""
    path = files.page.parent / "tables" / f"{table}.csv"
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "report"


@pytest.fixture
def three(make_run: MakeRun) -> list[RunFolder]:
    """Return three methods on one benchmark with one model."""
    return [
        make_run("zero", [0, 0, 0, 1], optimizer="zero_shot", tokens=5),
        make_run("new", [1, 1, 1, 0], rules=["one", "two"], tokens=20),
        make_run("icl", [0, 0, 1, 1], optimizer="self_stream_icl", tokens=5),
    ]


def test_the_page_holds_every_table_and_figure(
    three: list[RunFolder], out: Path, parse: Parse
) -> None:
    files = write_report(three, out)

    page = parse(files.page)
    sections = [attrs["id"] for tag, attrs in page.tags if tag == "section"]
    assert sections == [
        "accuracy", "wins", "deltas", "tests", "mcnemar", "cost", "tokens", "curves", "runs",
        "settings", "standing", "policies", "changes",
    ]  # fmt: skip
    targets = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert targets == [f"#{section}" for section in sections]
    plots = [attrs for tag, attrs in page.tags if tag == "svg" and attrs["class"] == "plot"]
    assert len(plots) == 3
    assert files.notes == ()


def test_accuracy_stands_in_the_papers_order_with_the_best_in_bold(
    three: list[RunFolder], out: Path
) -> None:
    files = write_report(three, out, ReportOptions(metrics={"bench": "exact match"}))

    (column,) = [name for name in rows(files, "accuracy")[0] if name.startswith("bench")]
    assert column == "bench (n = 4): exact match %"
    assert [(row["method"], row[column]) for row in rows(files, "accuracy")] == [
        ("zero_shot", "25.0"), ("self_stream_icl", "50.0"), ("drpg", "75.0"),
    ]  # fmt: skip
    bold = re.findall(r"<strong>([\d.]+)</strong>", files.page.read_text())
    assert bold == ["75.0"]


def test_differences_wins_and_tests_are_against_self_stream_icl(
    three: list[RunFolder], out: Path
) -> None:
    files = write_report(three, out)

    assert [(row["method"], row["bench"]) for row in rows(files, "deltas")] == [
        ("zero_shot", "-25.0"), ("drpg", "+25.0"),
    ]  # fmt: skip
    wins = [(row["method"], row["against"], row["all"]) for row in rows(files, "wins")]
    assert wins == [
        ("self_stream_icl", "zero_shot", "1–0–0"),
        ("drpg", "zero_shot", "1–0–0"),
        ("drpg", "self_stream_icl", "1–0–0"),
    ]
    # Two questions only DRPG got right, one only the baseline: 4 of 8 ways to toss three coins.
    sign = rows(files, "mcnemar")[1]
    assert (sign["only the method right"], sign["only the baseline right"]) == ("2", "1")
    assert (sign["p better (one-sided)"], sign["p different (two-sided)"]) == ("0.5000", "1.0000")
    ranks = rows(files, "tests")[1]
    assert (ranks["pairs"], ranks["differ"]) == ("4", "3")
    assert (ranks["p better (one-sided)"], ranks["p by"]) == ("0.5000", "exact")


def test_cost_is_per_question(three: list[RunFolder], out: Path) -> None:
    files = write_report(three, out)

    cost = {row["method"]: row for row in rows(files, "cost")}
    assert cost["drpg"]["tokens in"] == "100"
    assert cost["drpg"]["tokens out"] == "20"
    assert cost["drpg"]["LM calls"] == "1.00"
    assert cost["drpg"]["seconds (median)"] == cost["drpg"]["seconds (mean)"] == "2.50"
    assert cost["drpg"]["dollars"] == ""


def test_csv_and_markdown_say_what_the_page_says(
    three: list[RunFolder], out: Path, parse: Parse
) -> None:
    files = write_report(three, out)

    page = parse(files.page)
    written = {path.stem for path in files.tables}
    assert written == set(page.tables) == set(TABLE_NAMES) - {"subscores"}
    for name, table in page.tables.items():
        text = (out / "tables" / f"{name}.csv").read_text(encoding="utf-8")
        assert list(csv.reader(text.splitlines())) == [
            ["" if cell == "–" else cell for cell in row] for row in table
        ]
        lines = (out / "tables" / f"{name}.md").read_text(encoding="utf-8").splitlines()
        cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        del cells[1]  # the rule under the header
        plain = [[re.sub(r"\\(.)|\*\*", r"\1", cell) for cell in row] for row in cells]
        assert plain == table


def test_the_same_runs_give_the_same_files(three: list[RunFolder], out: Path) -> None:
    first = write_report(three, out).page.read_bytes()

    assert write_report(three, out).page.read_bytes() == first


def test_a_single_run_has_a_report_without_comparisons(make_run: MakeRun, out: Path) -> None:
    files = write_report([make_run("only", [1, 0])], out)

    assert {path.stem for path in files.tables} == {
        "accuracy", "cost", "runs", "settings", "standing",
    }  # fmt: skip
    assert rows(files, "runs")[0]["score %"] == "50.0"
    assert "<strong>50.0" not in files.page.read_text()


def test_tables_of_an_earlier_report_do_not_stay(
    three: list[RunFolder], make_run: MakeRun, out: Path
) -> None:
    write_report(three, out)
    kept = out / "tables" / "mine.csv"
    kept.write_text("a")

    write_report(three[:1], out)

    assert not (out / "tables" / "tests.csv").exists()
    assert kept.exists()


def test_a_run_without_judged_steps_is_shown_and_has_no_curve(make_run: MakeRun, out: Path) -> None:
    files = write_report(
        [
            make_run("blind", [NAN, NAN], optimizer="zero_shot"),
            make_run("new", [1, 0]),
            make_run("late", [None, None], optimizer="self_refine"),
        ],
        out,
    )

    standing = {row["method"]: row for row in rows(files, "standing")}
    assert standing["zero_shot"]["not judged %"] == "100.0"
    assert standing["self_refine"]["waiting %"] == "100.0"
    runs = {row["method"]: row["score %"] for row in rows(files, "runs")}
    assert runs == {"zero_shot": "0.0", "self_refine": "", "drpg": "50.0"}


def test_texts_of_a_run_are_data_and_never_markup(
    make_run: MakeRun, out: Path, parse: Parse
) -> None:
    nasty = '</li><script>alert("x")</script>\x00\ud800\u202e & {{ 7 * 7 }}'
    odd = make_run(
        "odd", [1, 0], rules=[nasty], lm='lab/<img src=x onerror="alert(1)">|*a*',
        benchmark="<b>bench</b>", options={"k": '"><i>'},
    )  # fmt: skip
    other = make_run("other", [1, 1], lm=odd.config.lm, benchmark=odd.config.benchmark)

    files = write_report([odd, other], out, ReportOptions(title="<script>"))

    page = parse(files.page)
    assert {tag for tag, _ in page.tags} & {"script", "img", "i", "b"} == set()
    text = files.page.read_text(encoding="utf-8")
    assert "{{ 7 * 7 }}" in text
    assert "\\x00\\ud800" in text
    methods = [row["method"] for row in rows(files, "accuracy")]
    assert methods == ['drpg (k="><i>)', "drpg"]
    for path in files.tables:
        if path.suffix == ".md":
            table = [line for line in path.read_text().splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
            assert not re.search(r"(?<!\\)<", path.read_text())


def test_the_page_needs_nothing_from_outside(
    three: list[RunFolder], out: Path, parse: Parse
) -> None:
    page = parse(write_report(three, out).page)

    for tag, attrs in page.tags:
        assert tag not in ("script", "link", "img", "iframe", "object")
        assert not {"src", "srcset", "data"} & attrs.keys()
        if tag == "a":
            assert str(attrs["href"]).startswith("#")


def test_names_of_svg_parts_are_unique(three: list[RunFolder], out: Path, parse: Parse) -> None:
    ids = [attrs["id"] for _, attrs in parse(write_report(three, out).page).tags if "id" in attrs]

    assert len(ids) == len(set(ids))


def test_a_long_policy_is_cut_visibly(make_run: MakeRun, out: Path) -> None:
    text = write_report([make_run("long", [1], rules=["x" * 5000])], out).page.read_text()

    assert "4,400 characters cut" in text
    assert "x" * 601 not in text


def test_different_streams_are_refused_with_what_differs(make_run: MakeRun, out: Path) -> None:
    runs = [
        make_run("a", [1, 0]),
        make_run("b", [1, 0], optimizer="zero_shot"),
        make_run("c", [1, 0, 1], optimizer="self_refine", limit=3),
    ]

    with pytest.raises(ValueError, match="--common") as refusal:
        write_report(runs, out)

    message = str(refusal.value)
    assert "They differ in: questions, data fingerprint, limit" in message
    assert "  a, b: questions 2, data fingerprint question-2, limit None" in message
    assert "  c: questions 3, data fingerprint question-3, limit 3" in message
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"compare": "loose"}, "scoring loose"),
        ({"settings": {"judge": "other"}}, "judge other"),
        ({"settings": {"threshold": 0.9}}, "threshold 0.9"),
        ({"settings": {"data": "reordered"}, "seed": 7}, "data fingerprint reordered, seed 7"),
    ],
)
def test_other_scoring_or_order_is_refused(
    make_run: MakeRun, out: Path, change: dict[str, Any], said: str
) -> None:
    runs = [make_run("a", [1, 0]), make_run("b", [1, 0], optimizer="zero_shot", **change)]

    with pytest.raises(ValueError, match=re.escape(said)) as refusal:
        write_report(runs, out)

    # The first questions of two orders may be the same; two scorings are never.
    assert ("--common" in str(refusal.value)) == (said.startswith("data"))


def test_other_versions_of_a_scoring_are_refused_where_both_are_known(
    make_run: MakeRun, out: Path
) -> None:
    old = make_run("old", [1, 0])
    second = make_run("second", [1, 0], optimizer="zero_shot", versions={"scoring": "2"})
    third = make_run("third", [1, 0], optimizer="self_refine", versions={"scoring": "3"})

    write_report([old, second], out)
    with pytest.raises(ValueError, match="scoring version 3"):
        write_report([old, second, third], out)


def test_other_benchmarks_may_have_other_streams(make_run: MakeRun, out: Path) -> None:
    files = write_report(
        [make_run("a", [1, 0]), make_run("b", [1], benchmark="other", compare="loose")], out
    )

    assert [row["benchmark"] for row in rows(files, "runs")] == ["bench", "other"]


def test_common_cuts_to_the_questions_that_all_have_met(make_run: MakeRun, out: Path) -> None:
    runs = [
        make_run("long", [1, 0, 0, 1], rules=["a", "b", "c", "d"]),
        make_run("short", [0, 0, 1], optimizer="zero_shot"),
        make_run("begun", [1, 1, None], optimizer="self_refine", total=9, state="running"),
    ]

    files = write_report(runs, out, ReportOptions(common=True, baseline="zero_shot"))

    assert files.notes == (
        "bench: cut to the first 2 questions, which all its runs have met (the longest met 4).",
    )
    scores = {row["method"]: row["score %"] for row in rows(files, "runs")}
    assert scores == {"zero_shot": "0.0", "self_refine": "100.0", "drpg": "50.0"}
    assert [row["bench"] for row in rows(files, "deltas")] == ["+100.0", "+50.0"]
    text = files.page.read_text()
    assert "†" not in text
    assert "2 versions of predict" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"asked": "riddle"}, "different questions at step 1"),
        ({"compare": "loose"}, "No common part can mend that"),
    ],
)
def test_common_does_not_mend_what_was_asked_or_scored_differently(
    make_run: MakeRun, out: Path, change: dict[str, Any], said: str
) -> None:
    runs = [make_run("a", [1, 0]), make_run("b", [1, 0, 1], optimizer="zero_shot", **change)]

    with pytest.raises(ValueError, match=said):
        write_report(runs, out, ReportOptions(common=True))


def test_common_needs_a_verdict_on_the_first_question(make_run: MakeRun, out: Path) -> None:
    runs = [make_run("a", [1, 0]), make_run("b", [None], optimizer="zero_shot")]

    with pytest.raises(ValueError, match="first question of b is not judged yet"):
        write_report(runs, out, ReportOptions(common=True))


def test_an_unfinished_run_is_marked_and_takes_no_part(make_run: MakeRun, out: Path) -> None:
    runs = [
        make_run("done", [0, 1, 0], optimizer="zero_shot"),
        make_run("half", [1, 1], total=3, state="stopped", settings={"data": "question-3"}),
    ]

    files = write_report(runs, out)

    assert files.notes == (
        "† half is unfinished (stopped: budget spent): it met 2 of 3 questions, and takes no "
        "part in best, wins, differences and tests.",
    )
    column = "bench (n = 3): score %"
    assert [row[column] for row in rows(files, "accuracy")] == ["33.3", "100.0 (n = 2)†"]
    assert not (out / "tables" / "wins.csv").exists()
    assert not (out / "tables" / "tests.csv").exists()


def test_a_run_without_steps_is_left_out_aloud(make_run: MakeRun, out: Path) -> None:
    files = write_report([make_run("a", [1]), make_run("b", [], state="running")], out)

    assert files.notes == ("Left out, because it has no step yet: b.",)
    assert [row["run"] for row in rows(files, "runs")] == ["a"]


def test_no_steps_at_all_is_an_error(make_run: MakeRun, out: Path) -> None:
    with pytest.raises(ValueError, match="None of the runs has a step"):
        write_report([make_run("a", [])], out)


def test_variants_of_a_method_are_named_by_the_settings_that_vary(
    make_run: MakeRun, out: Path
) -> None:
    runs = [
        make_run("plain", [1, 0], options={"k": 4}),
        make_run("wrong", [1, 0], options={"k": 4, "contrast": "wrong"}),
        make_run("cross", [1, 0], options={"k": 4}, policy_lm="lab/large"),
        make_run("elsewhere", [1, 0], options={"k": 16}, benchmark="other"),
    ]

    files = write_report(runs, out)

    assert {row["run"]: row["method"] for row in rows(files, "runs")} == {
        "plain": "drpg",
        "wrong": "drpg (contrast=wrong)",
        "cross": "drpg (policy_lm=large)",
        "elsewhere": "drpg",
    }


def test_the_default_k_of_each_benchmark_bears_the_plain_name(make_run: MakeRun, out: Path) -> None:
    runs = [
        make_run("sql", [1, 0], options={"k": 16}, benchmark="sql"),
        make_run("qa", [1, 0], options={"k": 4}, benchmark="qa"),
        make_run("qa-more", [1, 1], options={"k": 16}, benchmark="qa"),
        make_run("sql-zero", [0, 0], optimizer="zero_shot", benchmark="sql"),
        make_run("qa-zero", [0, 0], optimizer="zero_shot", benchmark="qa"),
    ]

    files = write_report(runs, out, ReportOptions(ks={"sql": 16, "qa": 4}))

    assert {row["run"]: row["method"] for row in rows(files, "runs")} == {
        "sql-zero": "zero_shot",
        "qa-zero": "zero_shot",
        "sql": "drpg",
        "qa": "drpg",
        "qa-more": "drpg (k=16)",
    }
    wins = {(row["method"], row["against"]): row["all"] for row in rows(files, "wins")}
    assert wins["drpg", "zero_shot"] == "2–0–0"
    assert wins["drpg (k=16)", "zero_shot"] == "1–0–0"


def test_where_the_default_k_is_not_known_it_is_that_of_most_runs(
    make_run: MakeRun, out: Path
) -> None:
    runs = [
        make_run("usual", [1, 0], options={"k": 4}),
        make_run("icl", [1, 0], options={"k": 4}, optimizer="self_stream_icl"),
        make_run("more", [1, 1], options={"k": 8}),
    ]

    files = write_report(runs, out)

    assert {row["run"]: row["method"] for row in rows(files, "runs")} == {
        "icl": "self_stream_icl", "usual": "drpg", "more": "drpg (k=8)",
    }  # fmt: skip


def test_a_default_that_was_given_aloud_is_the_default(make_run: MakeRun, out: Path) -> None:
    runs = [
        make_run("both", [1, 0], options={"k": 4, "contrast": "both"}),
        make_run("wrong", [1, 0], options={"k": 4, "contrast": "wrong"}),
    ]

    files = write_report(runs, out)

    methods = {row["run"]: row["method"] for row in rows(files, "runs")}
    assert methods == {"both": "drpg", "wrong": "drpg (contrast=wrong)"}


def test_pairs_of_methods_that_never_met_are_left_out(make_run: MakeRun, out: Path) -> None:
    runs = [
        make_run("a", [1, 0], optimizer="zero_shot"),
        make_run("b", [1, 1]),
        make_run("c", [1, 1], optimizer="self_refine", benchmark="other"),
    ]

    files = write_report(runs, out)

    assert [(row["method"], row["against"]) for row in rows(files, "wins")] == [
        ("drpg", "zero_shot")
    ]


def test_how_a_run_was_made_stands_in_page_and_tables(make_run: MakeRun, out: Path) -> None:
    run = make_run(
        "first", [1, 0], compare="faithful", embedder="minilm", limit=2, delay=3, seed=7,
        exclude_db=("wta_1",), options={"k": 5, "contrast": "wrong"}, policy_lm="lab/large",
        versions={"scoring": "2", "drpg-dspy": "0.1.0"},
        extra={"split": "dev", "load": {"evidence": False}, "temperature": 0.0, "max_tokens": 64},
    )  # fmt: skip

    files = write_report([run], out)

    (row,) = rows(files, "settings")
    assert row == {
        "benchmark": "bench", "model": "small", "method": "drpg", "run": "first",
        "scoring": "faithful (version 2)", "embedder": "minilm",
        "arguments": "k=5, contrast=wrong, policy_lm=large",
        "data": "split dev, without wta_1, evidence=false", "seed": "7", "limit": "2",
        "delay": "3", "temperature": "0.0", "max tokens": "64", "drpg-dspy": "0.1.0",
    }  # fmt: skip
    page = files.page.read_text(encoding="utf-8")
    assert "Scoring: bench faithful (version 2)." in page
    assert "How the runs were made" in (out / "tables" / "settings.md").read_text(encoding="utf-8")


def test_a_benchmark_with_one_scoring_is_shown_with_its_judge(make_run: MakeRun, out: Path) -> None:
    run = make_run("first", [1, 0], settings={"judge": "lab.judges.Exact 3"})

    (row,) = rows(write_report([run], out), "settings")

    assert (row["scoring"], row["limit"], row["delay"]) == ("Exact 3", "all", "0")


@pytest.mark.parametrize(
    ("steps", "said"),
    [((3, 3), "Policies at step 3<"), ((3, 2), "Policies at steps 2 to 3<")],
)
def test_the_heading_names_the_step_whose_policies_are_shown(
    make_run: MakeRun, out: Path, steps: tuple[int, int], said: str
) -> None:
    runs = [
        make_run(name, [1] * n, rules=["one"], benchmark=name)
        for name, n in zip(("a", "b"), steps, strict=True)
    ]

    page = write_report(runs, out).page.read_text(encoding="utf-8")

    assert page.count(said) == 2
    assert "step 100" not in page
    assert "a, small: drpg, step 3" in page


def test_runs_with_the_same_settings_are_told_apart_by_name(make_run: MakeRun, out: Path) -> None:
    files = write_report([make_run("one", [1]), make_run("two", [0])], out)

    assert [row["method"] for row in rows(files, "accuracy")] == ["drpg [one]", "drpg [two]"]


def test_a_run_given_twice_counts_once(make_run: MakeRun, out: Path) -> None:
    run = make_run("one", [1])

    assert len(rows(write_report([run, run], out), "runs")) == 1


def test_an_unknown_baseline_names_those_there_are(three: list[RunFolder], out: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'zero_shot'"):
        write_report(three, out, ReportOptions(baseline="zero-shot"))


def test_without_the_usual_baselines_the_first_method_is_one(make_run: MakeRun, out: Path) -> None:
    runs = [make_run("a", [1, 0], optimizer="ace"), make_run("b", [1, 1])]

    assert "Difference to ace" in write_report(runs, out).page.read_text()


def test_a_damaged_run_is_named(make_run: MakeRun, out: Path) -> None:
    run = make_run("broken", [1])
    run.memory_path.write_bytes(b"nothing")

    with pytest.raises(StorageError, match="'broken' cannot be read"):
        write_report([run], out)


def test_a_file_in_place_of_the_folder_is_an_error(make_run: MakeRun, out: Path) -> None:
    out.write_text("mine")

    with pytest.raises(ValueError, match="is a file"):
        write_report([make_run("a", [1])], out)


def test_without_jinja2_the_extra_is_named(
    make_run: MakeRun, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)

    with pytest.raises(ImportError, match=r"drpg-dspy\[report\]"):
        write_report([make_run("a", [1])], out)


@pytest.mark.parametrize("wrong", [{"window": 0}, {"policy_step": 0}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ReportOptions(**wrong)  # type: ignore[arg-type]
