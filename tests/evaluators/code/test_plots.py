"""Plots: drawn by the answer's process, judged by another, without a display."""

from __future__ import annotations

from collections.abc import Callable

import dspy
import pytest

from evaluators.judgement import Judgement

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

Judge = Callable[..., Judgement]

# A row in the form of DS-1000's Matplotlib rows, of our own.
CONTEXT = '''
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image


def skip_plt_cmds(l):
    return all(p not in l for p in ["plt.show()", "plt.clf()", "plt.close()", "savefig"])


def generate_test_case(test_case_id):
    x = np.random.randn(5)
    plt.plot(x, label="line")
    plt.legend()
    plt.savefig("ans.png", bbox_inches="tight")
    plt.close()
    return None, None


def exec_test(result, ans):
    code_img = np.array(Image.open("output.png"))
    oracle_img = np.array(Image.open("ans.png"))
    same = code_img.shape == oracle_img.shape and np.allclose(code_img, oracle_img)
    if not same:
        ax = plt.gca()
        assert ax.get_legend().get_texts()[0].get_text() == "line"
        assert len(ax.lines) == 1
    return 1


exec_context = r"""
import matplotlib.pyplot as plt
import numpy as np
x = np.random.randn(5)
[insert]
plt.savefig('output.png', bbox_inches='tight')
result = None
"""


def test_execution(solution: str):
    solution = "\\n".join(filter(skip_plt_cmds, solution.split("\\n")))
    code = exec_context.replace("[insert]", solution)
    for i in range(1):
        test_input, expected_result = generate_test_case(i + 1)
        test_env = {"test_input": test_input}
        exec(code, test_env)
        assert exec_test(test_env["result"], expected_result)
'''
RIGHT = 'plt.plot(x, label="line")\nplt.legend()'


@pytest.fixture
def plot(new_row: Callable[..., dspy.Example]) -> dspy.Example:
    return new_row(context=CONTEXT, reference=RIGHT, library="Matplotlib")


def test_a_right_plot_passes_every_time(judge: Judge, plot: dspy.Example) -> None:
    for _ in range(5):
        verdict = judge("fig, ax = plt.subplots()\nax.plot(x, label='line')\nax.legend()", plot)
        assert (verdict.score, verdict.processes) == (1.0, 2), verdict.feedback


@pytest.mark.parametrize(
    ("code", "feedback"),
    [
        ("plt.plot(x)", "'NoneType' object has no attribute 'get_texts'"),
        ("plt.plot(x, label='other')\nplt.legend()", "Not so: ax.get_legend()"),
        ("plt.plot(x, label='line')\nplt.plot(x)\nplt.legend()", "Not so: len(ax.lines) == 1"),
        ("pass", "Wrong result"),
        ("plt.plot(x, label='line'); plt.legend(); plt.show()", "Lines that the tests drop"),
        ("plt.plot(x, label='line')\nplt.legend()\nplt.close('all')", "Wrong result"),
    ],
)
def test_a_wrong_plot_fails_and_says_why(
    judge: Judge, plot: dspy.Example, code: str, feedback: str
) -> None:
    verdict = judge(code, plot)
    assert verdict.score == 0.0
    assert feedback in verdict.feedback


@pytest.mark.parametrize(
    "code",
    [
        "import shutil\nshutil.copy('ans.png', 'output.png')\nplt.savefig = print",
        "import os\nos.path.exists('ans.png') or open('ans.png', 'wb').write(b'')",
        "class Fake:\n    def __getattr__(self, name): return self\n"
        "    def __call__(self, *a): return self\n    def __eq__(self, other): return True\n"
        "plt.gca = lambda: Fake()",
        "from matplotlib.axes import Axes\nAxes.get_legend = lambda self: None",
        "ax = plt.gca()\nax.get_legend = lambda: None\nax.lines_ = [1]",
        "plt.gca().plot(x)[0].get_label = lambda: 'line'",
        "import matplotlib.figure as f\nf.Figure.__reduce__ = lambda self: (print, ())",
        "import matplotlib.figure as f\n"
        "f.Figure.__reduce__ = lambda self: (exec, ('import os; os._exit(0)',))\nplt.figure()",
    ],
)
def test_a_plot_cannot_pretend(judge: Judge, plot: dspy.Example, code: str) -> None:
    assert judge(code, plot).score == 0.0
    assert judge(RIGHT.replace('"', "'"), plot).score == 1.0


def test_figures_with_functions_of_their_own_are_judged(
    judge: Judge, new_row: Callable[..., dspy.Example]
) -> None:
    context = CONTEXT.replace(
        "        assert len(ax.lines) == 1\n",
        "        texts = [t.get_text() for t in ax.get_xticklabels()]\n"
        "        assert texts and all(t.startswith('<') for t in texts)\n",
    )
    formatter = "plt.gca().xaxis.set_major_formatter(FuncFormatter(lambda v, p: f'<{v:g}>'))"
    code = f"from matplotlib.ticker import FuncFormatter\n{RIGHT}\n{formatter}"
    row = new_row(context=context, reference=code, library="Matplotlib")
    verdict = judge(code + "\nplt.gca().secondary_xaxis('top', functions=(lambda x: x, abs))", row)
    assert (verdict.score, verdict.processes) == (1.0, 2), verdict.feedback
    assert judge(RIGHT, row).score == 0.0
