"""The program that an answer's lines are put into, without anything that gives the answer away."""

from __future__ import annotations

import ast
import warnings

__all__ = ["INSERT", "test_frame"]

INSERT = "[insert]"
"""Where the answer's lines go."""


def test_frame(context: str) -> str:
    r"""Return the program of a row's ``code_context``: what stands around ``[insert]``.

    The rest of the context, which makes the inputs, computes the expected result with the
    reference and compares, is no part of it.

    Raises:
        ValueError: The context holds no such program.

    >>> test_frame('exec_context = "x = test_input\\n[insert]\\nresult = y"')
    'x = test_input\n[insert]\nresult = y'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in a row's strings
        tree = ast.parse(context)
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "exec_context" for target in node.targets
        ):
            frame = ast.literal_eval(node.value)
            if isinstance(frame, str) and frame.count(INSERT) == 1:
                return frame.strip("\n")
    raise ValueError(f"This code_context assigns no exec_context with one {INSERT} in it.")


test_frame.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test
