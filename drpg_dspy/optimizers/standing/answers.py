"""Which text of a program's answer constraints speak of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import dspy

from drpg_dspy.types import ProgramCard, RouteCard

__all__ = ["AnswerText", "answer_field"]


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The text of an answer.

    Attributes:
        text: The text.
        field: Where it stands in a prediction; ``""`` = the answer is the text itself.
        route: Who wrote it; ``""`` = not known.
        free: False where its type leaves no choice of words (a ``Literal``, an enumeration).
    """

    text: str
    field: str
    route: str
    free: bool = True

    @classmethod
    def of(cls, answer: Any, card: ProgramCard, field: str = "") -> AnswerText | None:
        """Find the text in what a program returned; ``None`` = there is none.

        Args:
            answer: A prediction, or a text.
            card: The program.
            field: The output field that is meant; ``""`` = the last text among the outputs of
                the last predictor that wrote one of the prediction's fields; free text, where
                any of them has that.

        Raises:
            ValueError: The field is named, and the answer has no text there.
        """
        if isinstance(answer, str) and not field:
            return cls(answer, "", card.routes[-1].name)
        given = dict(answer.items()) if isinstance(answer, dspy.Prediction) else {}
        if field:
            if not isinstance(given.get(field), str):
                raise ValueError(
                    f"field={field!r}: the answer has no text there; it has "
                    f"{', '.join(given) or 'no fields'}."
                )
            writer = _writer(field, card)
            return cls(given[field], field, writer.name if writer else "", _free(field, writer))
        texts = {name: value for name, value in given.items() if isinstance(value, str)}
        written = [
            cls(texts[name], name, route.name, _free(name, route))
            for route in reversed(card.routes)
            for name in reversed(route.outputs)
            if name in texts
        ]
        last = [cls(text, name, "") for name, text in reversed(texts.items())]
        return next((one for one in written if one.free), next(iter([*written, *last]), None))

    def replaced(self, answer: Any, text: str) -> Any:
        """Return the answer with another text; with the same one, the very same object."""
        if text == self.text:
            return answer
        if not self.field:
            return text
        revised = answer.copy(**{self.field: text})
        revised.set_lm_usage(answer.get_lm_usage())
        return revised


def answer_field(card: ProgramCard, route: str, field: str = "") -> str:
    """Return the output field of a route that constraints speak of; ``""`` = none.

    >>> from drpg_dspy.types import RouteCard
    >>> card = ProgramCard("qa", "", (RouteCard("a", "", ("q",), ("reasoning", "answer")),), str)
    >>> answer_field(card, "a")
    'answer'
    """
    outputs = next((one.outputs for one in card.routes if one.name == route), ())
    if field:
        return field if field in outputs else ""
    return outputs[-1] if outputs else ""


def _writer(field: str, card: ProgramCard) -> RouteCard | None:
    return next((one for one in reversed(card.routes) if field in one.outputs), None)


def _free(field: str, route: RouteCard | None) -> bool:
    fields = getattr(route.signature, "output_fields", {}) if route is not None else {}
    kind = fields[field].annotation if field in fields else str
    return kind is str or str in get_args(kind)
