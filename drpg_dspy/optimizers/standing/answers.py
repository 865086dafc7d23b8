"""Which text of a program's answer constraints speak of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dspy

from drpg_dspy.types import ProgramCard

__all__ = ["AnswerText", "answer_field"]


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The text of an answer.

    Attributes:
        text: The text.
        field: Where it stands in a prediction; ``""`` = the answer is the text itself.
        route: Who wrote it; ``""`` = not known.
    """

    text: str
    field: str
    route: str

    @classmethod
    def of(cls, answer: Any, card: ProgramCard, field: str = "") -> AnswerText | None:
        """Find the text in what a program returned; ``None`` = there is none.

        Args:
            answer: A prediction, or a text.
            card: The program.
            field: The output field that is meant; ``""`` = the last text among the outputs of
                the last predictor that wrote one of the prediction's fields.

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
            return cls(given[field], field, _writer(field, card))
        texts = {name: value for name, value in given.items() if isinstance(value, str)}
        for route in reversed(card.routes):
            for name in reversed(route.outputs):
                if name in texts:
                    return cls(texts[name], name, route.name)
        last = next(reversed(texts), None)
        return None if last is None else cls(texts[last], last, "")

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


def _writer(field: str, card: ProgramCard) -> str:
    return next((one.name for one in reversed(card.routes) if field in one.outputs), "")
