from __future__ import annotations

import pytest

from evaluators.code import extract_code
from evaluators.code.extract import official_code
from evaluators.code.frame import test_frame as frame_of

FRAME = "import pandas as pd\ndf = test_input\n[insert]\nresult = out"
PROBLEM = (
    "How do I turn it?\nA:\n<code>\nimport pandas as pd\ndf = pd.DataFrame({'a': [1]})\n</code>\n"
    "out = ... # put solution in this variable\nBEGIN SOLUTION\n<code>\n"
)
INSIDE = "import pandas as pd\ndef f(df):\n[insert]\ndf = test_input\nresult = f(df)"
FUNCTION = (
    "How?\nA:\n<code>\nimport pandas as pd\ndef f(df):\n"
    "    # return the solution in this function\n"
    "    # result = f(df)\n    ### BEGIN SOLUTION\n"
)
PLOT = "x = [1]\n\n# Plot x\n# SOLUTION START\n"


@pytest.mark.parametrize(
    "reply",
    [
        "out = df.T",
        "```python\nout = df.T\n```",
        "```\nout = df.T\n```",
        "~~~py\nout = df.T\n~~~",
        "````python\nout = df.T\n````",
        "Sure, here it is:\n\n```Python\nout = df.T\n```\n\nThis turns it, as `df.T` does.",
        "```python\nout = df.T",
        "out = df.T\n```\nThis turns it.",
        "First:\n```bash\npip install pandas\n```\nThen:\n```py\nout = df.T\n```",
        "```python\nout = df.T\n```\nor\n```python\nout = df.transpose()\n```",
        "```python\nout = df.?\n```\nor rather\n```python\nout = df.T\n```",
        "<code>\nout = df.T\n</code>",
        "<code>out = df.T</code> turns it",
        "out = df.T\n</code>\nEND SOLUTION\nmore words",
        "BEGIN SOLUTION\n<code>\nout = df.T\n</code>\nEND SOLUTION",
        PROBLEM + "out = df.T\n</code>\nEND SOLUTION",
        "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\nout = df.T",
        "```python\nimport pandas as pd\n\ndf = pd.DataFrame({'a': [1]})\n\nout = df.T\n```",
        "You can turn it so:\n\nout = df.T\n\nHope this helps!",
        "`out = df.T`",
        "[insert]\nout = df.T",
        "    out = df.T",
        "out = df.T\n\n[[ ## completed ## ]]",
        "out = df.T\r\n",
    ],
)
def test_the_lines_are_found_in_any_dress(reply: str) -> None:
    assert extract_code(reply, FRAME, PROBLEM).strip() == "out = df.T"


@pytest.mark.parametrize(
    "reply",
    [
        "    out = df.T\n    return out",
        "out = df.T\nreturn out",
        "out = df.T\n    return out",  # stripped by whoever parsed the reply
        "```python\n    out = df.T\n    return out\n```",
        "def f(df):\n    out = df.T\n    return out",
        "```python\ndef f(df):\n    out = df.T\n    return out\n\ndf = 1\nprint(f(df))\n```",
        FUNCTION.rpartition("<code>\n")[2] + "    out = df.T\n    return out",
    ],
)
def test_lines_for_a_function_are_indented_as_it_is(reply: str) -> None:
    assert extract_code(reply, INSIDE, FUNCTION) == "    out = df.T\n    return out"


def test_a_block_whose_first_line_was_stripped_keeps_its_shape() -> None:
    reply = "for v in df:\n        out = v\n    return out"
    assert extract_code(reply, INSIDE) == "    for v in df:\n        out = v\n    return out"


def test_code_that_fits_is_left_alone() -> None:
    code = "import os\n\n# about </code>-free things\nout = '''\n a\n'''\n"
    assert extract_code(code, FRAME, PROBLEM) == code
    marked = (
        "# def f(df):\n    ### BEGIN SOLUTION\n    r = df\n    ### END SOLUTION\n    return r\n"
    )
    assert extract_code(marked, INSIDE, FUNCTION) == marked


def test_a_plot_whose_given_lines_are_repeated_keeps_the_new_ones() -> None:
    reply = "x = [1]\n\nplt.plot(x)"
    assert extract_code(reply, "x = [1]\n[insert]", PLOT).strip() == "plt.plot(x)"


@pytest.mark.parametrize("reply", ["", "```python\n```", "<code>\n</code>"])
def test_no_code_gives_none(reply: str) -> None:
    assert extract_code(reply, FRAME, PROBLEM).strip() == ""


def test_words_without_code_stay_what_they_are() -> None:
    assert extract_code("I do not know.", FRAME, PROBLEM) == "I do not know."


def test_odd_text_does_no_harm() -> None:
    for reply in ("\x00", "(" * 500, "[" * 10_000, "\ud800 = 1", "a\n" * 3_000, "`" * 50):
        assert isinstance(extract_code(reply, FRAME, PROBLEM), str)


def test_the_official_way_takes_what_precedes_the_first_end() -> None:
    assert official_code("```python\nx\n```\nmore") == "\nx\n"
    assert official_code("x\nEND SOLUTION\ny") == "x"


def test_a_context_without_one_place_for_the_answer_is_refused() -> None:
    for context in ("x = 1", 'exec_context = "no place"', 'exec_context = "[insert][insert]"'):
        with pytest.raises(ValueError, match="no exec_context with one"):
            frame_of(context)
