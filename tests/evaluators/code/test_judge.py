from __future__ import annotations

import copy
import math
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.code import PassAtOne
from evaluators.judgement import Judgement

Judge = Callable[..., Judgement]
NewRow = Callable[..., dspy.Example]

RIGHT = "y = x * 2 + 4242"


@pytest.mark.parametrize("compare", ["repaired", "faithful"])
def test_the_reference_passes_and_a_corrupted_one_fails(judge: Judge, compare: str) -> None:
    assert judge("y = x * 2 + 4242\n", compare=compare).score == 1.0
    assert judge("y = x * 2 + 4243\n", compare=compare).score == 0.0


@pytest.mark.parametrize(
    ("code", "kind", "feedback"),
    [
        ("y = 2 * x + 4242", "match", "Correct: passes every test."),
        ("y = x * 2 + 4242 - (len(x) == 1)", "difference",
         "Wrong result in test 2. Expected 4256.0, got 4255.0."),
        ("y = x[:2]", "difference", "Wrong result in test 1. At shape: expected (4,), got (2,)."),
        ("y = None", "difference",
         "Wrong result in test 1. Expected ndarray of shape (4,), got NoneType None."),
        ("z = x", "error", "NameError: name 'y' is not defined. In the line: result = y"),
        ("y = x['a']", "error",
         "IndexError: only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
         "integer or boolean arrays are valid indices. In the line: y = x['a']"),
        ("y = x\ndel x\ny = x", "error", "NameError: name 'x' is not defined. In the line: y = x"),
        ("y = (", "error", "SyntaxError: '(' was never closed. In the line: y = ("),
        ("y = lambda: 1", "lost", None),
        ("y = x; raise KeyboardInterrupt", "error",
         "KeyboardInterrupt. In the line: y = x; raise KeyboardInterrupt"),
        ("", "no code", "The answer holds no code."),
        ("```python\n```", "no code", "The answer holds no code."),
    ],
)  # fmt: skip
def test_feedback_says_what_is_wrong(
    judge: Judge, code: str, kind: str, feedback: str | None
) -> None:
    verdict = judge(code)
    assert verdict.kind == kind
    assert feedback is None or verdict.feedback == feedback
    assert verdict.score == float(kind == "match")
    assert verdict.informative
    assert (verdict.compare, verdict.compare_version, verdict.processes) == ("repaired", "1", 2)


def test_code_is_taken_out_of_a_reply(judge: Judge) -> None:
    reply = f"Double it:\n```python\nimport numpy as np\n{RIGHT}\n```\nThis works."
    assert judge(reply).score == 1.0
    assert judge(f"{reply}\n[[ ## completed ## ]]").score == 1.0
    # The official script drops the fences, and runs the words before them.
    assert judge(reply, compare="faithful").kind == "error"
    assert judge(f"```python\n{RIGHT}\n```\nThis works.", compare="faithful").score == 1.0


def test_a_correct_answer_of_another_kind_passes_like_in_the_official_script(judge: Judge) -> None:
    for code in (
        "y = [int(v) * 2 + 4242 for v in x]",
        "y = tuple((x * 2 + 4242).tolist())",
        "import collections\nP = collections.namedtuple('P', [f'f{i}' for i in range(len(x))])\n"
        "y = P(*(x * 2 + 4242))",
        "y = list(map(lambda v: v * 2 + 4242, x))",
    ):
        assert judge(code).score == 1.0, code
        assert judge(code, compare="faithful").score == 1.0, code


def test_a_reference_that_fails_here_is_not_judged_whatever_the_answer(
    judge: Judge, new_row: NewRow
) -> None:
    broken = new_row(("data * 2 + the", "data * 3 + the"))
    for code in (RIGHT, "y = x * 3 + 4242", "y = x"):
        verdict = judge(code, broken)
        assert math.isnan(verdict.score)
        assert verdict.kind == "not judged"
        assert "the row's own reference fails here" in verdict.feedback
        assert not verdict.informative
    assert judge("y = x * 3 + 4242", broken, compare="faithful").score == 1.0


def test_a_package_that_the_tests_need_and_do_not_find_is_named(
    judge: Judge, new_row: NewRow
) -> None:
    row = new_row(("import copy", "import copy, no_such_package"))
    verdict = judge(RIGHT, row)
    assert math.isnan(verdict.score)
    assert "'no_such_package', which is missing" in verdict.feedback
    assert "no_such_package" in judge(RIGHT, row, compare="faithful").feedback


def test_a_library_that_is_absent_makes_its_rows_not_judged(
    new_row: NewRow, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare = tmp_path / "bare" / "bin" / "python"
    with PassAtOne(python=bare) as judge:
        verdict = judge(new_row(), RIGHT)
    assert math.isnan(verdict.score)
    assert "Numpy rows need the package 'numpy'" in verdict.feedback
    pinned = re.search(r"pip install -r (\S+)\)", verdict.feedback)
    assert pinned is not None
    assert "pandas==1.5" in Path(pinned[1]).read_text()
    assert "make ds1000" in verdict.feedback
    assert "DRPG_DS1000_PYTHON=" in verdict.feedback


def test_an_interpreter_that_does_not_start_is_named(
    new_row: NewRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRPG_DS1000_PYTHON", "/nowhere/python")
    with PassAtOne() as judge:
        assert "/nowhere/python cannot be started" in judge(new_row(), RIGHT).feedback
    with PassAtOne(raises=True, python="/bin/false") as judge:
        with pytest.raises(EvaluationFailed, match="/bin/false does not start as a judge"):
            judge(new_row(), RIGHT)


def test_a_condition_on_the_text_of_the_answer_is_part_of_the_test(
    judge: Judge, new_row: NewRow
) -> None:
    context = new_row().code_context + (
        '\n\ndef test_string(solution: str):\n    assert "for" not in solution.split()\n'
    )
    row = new_row(context=context)
    assert judge(RIGHT, row).score == 1.0
    verdict = judge("y = np.array([v * 2 + 4242 for v in x])", row)
    assert verdict.kind == "string"
    assert verdict.feedback == (
        "The result is right, but the code is not as asked. Not so: 'for' not in solution.split()."
    )


def test_feedback_never_quotes_the_reference(judge: Judge, new_row: NewRow) -> None:
    context = new_row().code_context.replace(
        "    np.testing.assert_allclose(result, ans)",
        "    assert np.allclose(result, (y := ans)) and (lambda x: x * 2 + 4242)(0) == 4242",
    )
    row = new_row(context=context, reference="y = x * 2 + 4242")
    verdict = judge("y = x * 1.5", row)
    assert verdict.kind == "difference"
    assert "x * 2 + 4242" not in verdict.feedback


def test_inputs_of_the_rows_own_classes_arrive_and_such_results_are_judged_in_one_process(
    judge: Judge, new_row: NewRow
) -> None:
    row = new_row(
        ("            x = np.arange(4)\n",
         "            class Box:\n                def __init__(self): self.v = np.arange(4)\n"
         "            x = Box()\n"),
        ("            x = np.array([7.0])\n", "            return define_test_input(1)\n"),
        ("return data * 2 + the_reference_secret", "data.v = data.v + 1; return data"),
        ("np.testing.assert_allclose(result, ans)",
         "np.testing.assert_array_equal(result.v, ans.v)"),
        reference="x.v = x.v + 1\ny = x",
    )  # fmt: skip
    verdict = judge("x.v += 1\ny = x", row)
    assert (verdict.score, verdict.processes) == (1.0, 1)
    assert judge("y = x", row).score == 0.0
    by_value = new_row(
        ("            x = np.arange(4)\n",
         "            class Box:\n                def __init__(self): self.v = np.arange(4)\n"
         "            x = Box()\n"),
        ("            x = np.array([7.0])\n", "            return define_test_input(1)\n"),
        ("return data * 2 + the_reference_secret", "return data.v + 1"),
        reference="y = x.v + 1",
    )  # fmt: skip
    verdict = judge("y = 1 + x.v", by_value)
    assert (verdict.score, verdict.processes) == (1.0, 2)


def test_random_numbers_go_on_where_the_tests_left_off(judge: Judge, new_row: NewRow) -> None:
    row = new_row(
        ("            x = np.arange(4)\n", "            x = np.random.rand(3)\n"),
        ("return data * 2 + the_reference_secret",
         "np.random.seed(3); return data + np.random.rand(), np.random.seed(3)"),
        ("assert_allclose(result, ans)", "assert_allclose(result, ans[0])"),
        reference="y = x + np.random.rand()",
    )  # fmt: skip
    for _ in range(3):
        assert judge("y = x + np.random.rand(1)[0]", row).score == 1.0


def test_files_travel_both_ways_but_not_those_of_the_expected_result(
    judge: Judge, new_row: NewRow
) -> None:
    row = new_row(
        ("    code = exec_context.replace",
         '    open("given.txt", "w").write("abc")\n    code = exec_context.replace'),
        ("        return data * 2 + the_reference_secret",
         '        open("ans.txt", "w").write("expected")\n        return data'),
        ("    np.testing.assert_allclose(result, ans)",
         '    assert open("ans.txt").read() == "expected"\n'
         '    assert open("made.txt").read() == "abcd"'),
        reference='y = open("made.txt", "w").write(open("given.txt").read() + "d")',
    )  # fmt: skip
    assert judge('open("made.txt", "w").write(open("given.txt").read() + "d")\ny = 1', row).score
    peek = 'import os\nassert not os.path.exists("ans.txt")\ny = 1\n'
    made = 'open("made.txt", "w").write("abcd")\n'
    assert judge(peek + made, row).score == 1.0
    assert judge(made + 'open("ans.txt", "w").write("mine")\ny = 1', row).score == 1.0


def test_a_file_that_the_rows_program_reads_is_given_to_it(judge: Judge, new_row: NewRow) -> None:
    row = new_row(
        ("            x = np.arange(4)\n",
         '            x = np.arange(4)\n            np.save("model.npy", x * 2 + 4242)\n'),
        ("x = test_input\n", 'x = test_input\nmodel = np.load("model.npy")\n'),
        ("for i in range(2)", "for i in range(1)"),
        reference="y = model",
    )  # fmt: skip
    assert judge("y = model + 0", row).score == 1.0


def test_inputs_behave_as_if_they_had_never_been_pickled(judge: Judge, new_row: NewRow) -> None:
    pytest.importorskip("pandas")
    row = new_row(
        ("import copy", "import copy\nimport pandas as pd"),
        ("            x = np.arange(4)\n", '            x = pd.Series([1.5, 2, "a"])\n'),
        ("return data * 2 + the_reference_secret", "return [1.5, 'a']"),
        ("np.testing.assert_allclose(result, ans)", "assert result == ans"),
        ("for i in range(2)", "for i in range(1)"),
        reference="y = x[~x.astype(str).str.isdigit()].tolist()",
    )  # fmt: skip
    assert judge("y = [v for v in x[~x.astype(str).str.isdigit()]]", row).score == 1.0


def test_time_on_a_busy_machine_is_not_counted(new_row: NewRow) -> None:
    code = "import time\nstart = time.process_time()\n"
    code += "while time.process_time() - start < 0.3: pass\n" + RIGHT
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        with PassAtOne(timeout=1.5) as judge:
            verdict = judge(new_row(), code)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert verdict.score == 1.0, verdict.feedback


def test_threads_may_share_a_judge_and_get_their_own_verdicts(judge: Judge) -> None:
    codes = [RIGHT if n % 3 else f"y = x + {n}" for n in range(12)]
    with ThreadPoolExecutor(6) as pool:
        scores = list(pool.map(lambda code: judge(code).score, codes))
    assert scores == [float(n % 3 > 0) for n in range(12)]


def test_a_judge_that_lost_its_process_goes_on(new_row: NewRow) -> None:
    with PassAtOne(timeout=2, workers=1) as judge:
        assert judge(new_row(), RIGHT).score == 1.0
        for _ in range(2):
            (zygote,) = judge._runner._idle["Numpy"]
            zygote.process.kill()
            zygote.process.wait()
            assert judge(new_row(), "y = x * 2 + 4242 + 0").score == 1.0


def test_copies_and_pickles_are_fresh_judges(judges: dict[str, PassAtOne], new_row: NewRow) -> None:
    original = judges["repaired"]
    for twin in (copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        with twin:
            assert repr(twin) == repr(original)
            assert twin(new_row(), RIGHT).score == 1.0


def test_a_closed_judge_opens_again(new_row: NewRow) -> None:
    judge = PassAtOne()
    assert judge(new_row(), RIGHT).score == 1.0
    judge.close()
    judge.close()
    assert judge(new_row(), RIGHT).score == 1.0
    judge.close()
    assert threading.active_count() < 20


def test_what_confines_answers_is_said(judges: dict[str, PassAtOne]) -> None:
    guards = judges["repaired"].isolation("Numpy")
    assert "limits" in guards
    assert {"landlock", "seccomp"} <= set(guards) or "audit hook" in guards


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compare": "odd"}, "repaired, faithful; got 'odd'"),
        ({"timeout": 0}, "timeout must be more than 0, got 0"),
        ({"workers": -1}, "workers must be more than 0, got -1"),
        ({"memory_mb": "much"}, "memory_mb must be more than 0, got 'much'"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PassAtOne(**options)  # type: ignore[arg-type]


def test_a_missing_field_or_an_unknown_library_is_named(judge: Judge, new_row: NewRow) -> None:
    with pytest.raises(ValueError, match="code_context"):
        judge(RIGHT, dspy.Example(library="Numpy"))
    with pytest.raises(ValueError, match=r"Pandas, Numpy.*got 'Polars'"):
        judge(RIGHT, new_row(library="Polars"))
