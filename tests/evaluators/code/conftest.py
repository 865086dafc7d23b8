from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from evaluators.code import PassAtOne
from evaluators.judgement import Judgement

# A row in DS-1000's form, of our own: the answer sets ``y`` from ``x``, ``4242`` is the secret.
CONTEXT = '''
import numpy as np
import copy


def generate_test_case(test_case_id):
    def define_test_input(test_case_id):
        if test_case_id == 1:
            x = np.arange(4)
        elif test_case_id == 2:
            x = np.array([7.0])
        return x

    def generate_ans(data):
        the_reference_secret = 4242
        return data * 2 + the_reference_secret

    test_input = define_test_input(test_case_id)
    expected_result = generate_ans(copy.deepcopy(test_input))
    return test_input, expected_result


def exec_test(result, ans):
    np.testing.assert_allclose(result, ans)
    return 1


exec_context = r"""
import numpy as np
x = test_input
[insert]
result = y
"""


def test_execution(solution: str):
    code = exec_context.replace("[insert]", solution)
    for i in range(2):
        test_input, expected_result = generate_test_case(i + 1)
        test_env = {"test_input": test_input}
        exec(code, test_env)
        assert exec_test(test_env["result"], expected_result)
'''
REFERENCE = "y = x * 2 + 4242\n"

if not sys.platform.startswith("linux"):
    collect_ignore_glob = ["test_judge.py", "test_attacks.py", "test_plots.py"]

Judge = Callable[..., Judgement]


def _row(
    context: str = CONTEXT, reference: str = REFERENCE, library: str = "Numpy", **more: Any
) -> dspy.Example:
    return dspy.Example(
        library=library, code_context=context, reference_code=reference, **more
    ).with_inputs()


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PassAtOne]]:
    made = {
        name: PassAtOne(compare=name, python=sys.executable, timeout=2, memory_mb=256)
        for name in ("repaired", "faithful")
    }
    yield made
    for judge in made.values():
        judge.close()


@pytest.fixture
def judge(judges: dict[str, PassAtOne]) -> Judge:
    """Judge code on the row above: ``judge(code, row=…, compare=…)``."""

    def run(code: str, example: dspy.Example | None = None, compare: str = "repaired") -> Judgement:
        prediction = dspy.Prediction(code=textwrap.dedent(code))
        return judges[compare](_row() if example is None else example, prediction)

    return run


@pytest.fixture
def new_row() -> Callable[..., dspy.Example]:
    """Make a row of the one above: ``new_row((old, new), …, reference=…, library=…)``."""

    def make(*changes: tuple[str, str], **options: Any) -> dspy.Example:
        context = options.pop("context", CONTEXT)
        for old, new in changes:
            assert old in context
            context = context.replace(old, new)
        return _row(context, **options)

    return make


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that an answer must not read: it holds the reference."""
    path = tmp_path / "rows.jsonl"
    path.write_text(CONTEXT + REFERENCE)
    return path
