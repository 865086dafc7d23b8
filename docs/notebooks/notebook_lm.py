"""Who answers in the notebooks: a small model on this machine, unless you name another.

``DRPG_NOTEBOOK_LM`` names it:

* ``local/qwen2.5-coder-1.5b``, the default, runs in this process; it is fetched once, with
  ``drpg lm pull qwen2.5-coder-1.5b``;
* anything else that ``drpg run --lm`` takes, such as ``openai/gpt-4.1-mini``;
* ``scripted``: no model at all, a function that plays one. This is how tests run the notebooks.
"""

from __future__ import annotations

import os

import dspy

from drpg_dspy.local_lm import resolve_lm
from drpg_dspy.testing import ScriptedLM

# Similar questions are found by their words: no embedding model to fetch for a few examples.
os.environ.setdefault("DRPG_EMBEDDER", "hashing")


def notebook_lm() -> dspy.LM:
    """Return the model that answers in this notebook."""
    named = os.environ.get("DRPG_NOTEBOOK_LM", "local/qwen2.5-coder-1.5b")
    if named == "scripted":
        from scripted_answers import answer

        return ScriptedLM(answer)
    return resolve_lm(named, max_tokens=300)
