"""How a policy and retrieved examples reach the predictors of a DSPy program.

::

    cards = attach(program)                                  # once, in place
    with use_policy({"predict": "Prefer INNER JOIN."}):
        program(question="…")                                # under this policy
    detach(program)                                          # the user's program again

An attached program without a policy sends exactly the prompts of the plain one. A policy is
shown verbatim, whatever it contains, with one exception: DSPy refuses to send lone surrogates,
which are replaced. It reaches every predictor that the program holds, in DSPy's workers, async
tasks and plain threads alike. It does not reach predictors made inside ``forward`` (a warning
names them), other processes, and threads that were started before the call; in these the
predictor's own policy (:func:`set_policy`) is in force.
"""

from __future__ import annotations

from drpg_dspy.injection.attaching import attach, attach_like, detach, routes, set_policy
from drpg_dspy.injection.declared import as_type, holds_media, named_media
from drpg_dspy.injection.guidance import use_guidance, use_policy
from drpg_dspy.injection.tracing import record_trace

__all__ = [
    "as_type",
    "attach",
    "attach_like",
    "detach",
    "holds_media",
    "named_media",
    "record_trace",
    "routes",
    "set_policy",
    "use_guidance",
    "use_policy",
]
