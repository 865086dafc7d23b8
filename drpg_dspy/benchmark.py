"""What a file of ``programs/`` offers to the command line and to ``drpg_dspy.scoring``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Benchmark"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One file of ``programs/``, as the command line sees it.

    Attributes:
        name: Its name on the command line, the file's name.
        title, paper, licence: For ``drpg list``.
        metric: The figure reported, e.g. ``"execution accuracy"``.
        k: The paper's number of retrieved experiences.
        load: ``load(data, **options) -> list[dspy.Example]``: examples with a unique ``id``,
            inputs marked by ``with_inputs``. ``data`` is a folder (``None`` = look in the
            places the file documents). Raises ``BenchmarkDataMissing`` or ``ValueError``.
        program: ``program() -> dspy.Module``: an ordinary DSPy program.
        evaluator: ``evaluator(data, compare=…)``: a metric of five arguments that returns a
            ``dspy.Prediction`` with ``score``, ``feedback`` and, where it matters,
            ``informative``. It may have a mapping ``row``: further fields, ready for JSON, of
            its line in the rows of ``drpg score``.
        key: The text embedded for a call's inputs.
        compares: Names of the scorings that ``evaluator`` knows, the default first.
        read_predictions: ``read_predictions(path, examples)`` for ``drpg score``: a list of one
            ``dspy.Prediction`` for each example, in their order; or a list of pairs of an example
            and its prediction, for those that the file answers, in its order. ``None`` = not
            scored from files.
        category: Of a call's inputs, without any label: what corrections are sorted by. A
            function of its module's; ``None`` = all inputs are of one kind.
        note: What is needed beside the data, for ``drpg list``.
    """

    name: str
    title: str
    paper: str
    licence: str
    metric: str
    k: int
    load: Callable[..., list[Any]]
    program: Callable[[], Any]
    evaluator: Callable[..., Callable[..., Any]]
    key: Callable[[Mapping[str, Any]], str]
    compares: tuple[str, ...] = ()
    read_predictions: Callable[..., list[Any]] | None = None
    category: Callable[[Mapping[str, Any]], str] | None = None
    note: str = ""
