"""Code judged by running it: pass@1 of DS-1000, in confined processes.

The names are loaded on first use, because half of this package runs in another interpreter,
which has the data science libraries and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluators.code.extract import extract_code
    from evaluators.code.frame import test_frame
    from evaluators.code.judge import SCORINGS, PassAtOne

__all__ = ["SCORINGS", "PassAtOne", "extract_code", "test_frame"]

_HOMES = {
    "SCORINGS": "judge", "PassAtOne": "judge", "extract_code": "extract", "test_frame": "frame",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
