"""How a policy and retrieved examples reach the predictors of a DSPy program.

::

    cards = attach(program)                                  # once, in place
    with use_policy({"predict": "Prefer INNER JOIN."}):
        program(question="…")                                # under this policy
    detach(program)                                          # the user's program again

An attached program without a policy sends exactly the prompts of the plain one. A policy is
shown verbatim, whatever it contains, with one exception: DSPy refuses to send lone surrogates,
which are replaced. See ``docs`` for how it behaves with each of DSPy's modules and optimizers.
"""

from __future__ import annotations

from drpg_dspy.injection.attaching import attach, detach, routes, set_policy
from drpg_dspy.injection.guidance import use_guidance, use_policy
from drpg_dspy.injection.tracing import record_trace

__all__ = [
    "attach",
    "detach",
    "record_trace",
    "routes",
    "set_policy",
    "use_guidance",
    "use_policy",
]
