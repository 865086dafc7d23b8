"""The embedded small model: a GGUF file served in process behind an OpenAI-compatible address.

:class:`LocalLM` is an ordinary ``dspy.LM``. Behind it llama.cpp runs inside this process
(package ``xllamacpp``) and listens on 127.0.0.1, on a port and with an API key of its own, so
that whatever speaks to an OpenAI-compatible server can speak to it and no other user of the
machine can.
"""

from __future__ import annotations

from drpg_dspy.local_lm.lm import LocalLM, resolve_lm

__all__ = ["LocalLM", "resolve_lm"]
