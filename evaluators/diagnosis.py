"""One diagnosis out of a numbered list, read from free text and compared with the right one.

>>> judge = DiagnosisAccuracy({"Bronchitis": ["Bronchite"], "Pneumonia": ["Pneumonie"]})
>>> import dspy
>>> judge(dspy.Example(diagnosis="2. Pneumonia"), "The patient has (bacterial) pneumonia.").score
1.0
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators._fields import label, output, shown
from evaluators._mentions import Mention, Options, answer_places, folded, joined
from evaluators.judgement import Judge, Judgement
from evaluators.qa import answer_text

__all__ = ["SCORINGS", "DiagnosisAccuracy", "Reading"]

SCORINGS = {"repaired": "2", "faithful": "1"}
"""The scorings with their versions, the default first."""

_RELEASED = re.compile(r"(\d+)\.")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says.

    Attributes:
        number: The one option that it names; ``None`` = no or more than one.
        kind: ``"one"``, ``"no answer"``, ``"unknown"``, ``"ruled out"``, ``"out of range"``,
            ``"contradiction"`` or ``"several"``.
        numbers: All the options concerned, in the order of the text.
    """

    number: int | None
    kind: str = "one"
    numbers: tuple[int, ...] = ()


class DiagnosisAccuracy(Judge):
    """Judge a diagnosis given by number, by name, or by both.

    A metric for ``dspy.Evaluate``, MIPROv2, GEPA and the rest: call it with an example that has
    a ``diagnosis`` and a prediction that has a ``diagnosis`` (or is one).

    ``"repaired"``, the default, reads a text like this (:meth:`read`). Case, accents, spacing
    and punctuation of names do not matter, the longest name counts, and a name inside a longer
    word does not.

    1. Where the text announces its answer (``Answer: …``, ``the final diagnosis is …``, the
       last time it does), that line is read, and what comes before it is not.
    2. What is ruled out does not count: *not 35*, *no pneumonia*, *bronchitis is unlikely*,
       *X rather than Y*. Nor do the numbers 1, 2, … of a list's lines; where such a line is a
       number and nothing else (``1. 35``), that names an option.
    3. A number beside its own name (``35. Pneumonia``) is the answer, whatever else the text
       discusses.
    4. A number beside the name of another option (``35. Bronchitis``, ``Bronchitis (35)``), or
       given as the answer (``35.`` at the start of a line, ``answer: 35``) with the names of
       others only, contradicts: wrong.
    5. Names without such a number: the one option named, anywhere in a sentence.
    6. Numbers without names: the first that is in the list. Ages, durations and decimals are
       no numbers of the list (``35.0``, given as the answer, is).
    7. Two options joined as equals (``A or B``, ``A / B``, ``12, 35``), or several names where
       nothing above decides, are no diagnosis: wrong, whichever of them is right. *I considered
       12. Bronchiectasis, but 35. Pneumonia fits best* names two.

    ``"faithful"`` is StreamBench's released code: the first number followed by a full stop, and
    nothing else.

    A verdict is a :class:`~evaluators.judgement.Judgement` with

    * ``score``: 1.0, 0.0, or NaN when the example's own diagnosis is not in the list;
    * ``feedback``: the right diagnosis, what was read, and what kept it from being read;
    * ``kind``: ``"match"``, ``"different"``, ``"not judged"``, or why nothing could be read
      (:class:`Reading`);
    * ``subscores``: ``readable``, 1.0 when the text names exactly one option;
    * ``compare``, ``compare_version``: the scoring.

    Args:
        options: The diagnoses in the order of their numbers, from 1, each with further names.
        compare: ``"repaired"`` or ``"faithful"``.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN, for ``dspy.Evaluate`` and
            optimizers that average scores.

    Raises:
        ValueError: No options, two options share a name, or an unknown scoring; when called,
            the example or the prediction has no ``diagnosis``.
        EvaluationFailed: When called, with ``raises``: no verdict could be reached.
    """

    scorings = SCORINGS

    def __init__(
        self,
        options: Mapping[str, Iterable[str]],
        compare: str | None = None,
        *,
        raises: bool = False,
    ) -> None:
        super().__init__(compare, raises=raises)
        if not options:
            raise ValueError("options must name at least one diagnosis; got none.")
        self.options = {name: tuple(others) for name, others in options.items()}
        self._names = dict(enumerate(self.options, 1))
        self._options = Options(self.options)

    def _judged(self, example: Any, prediction: Any) -> Judgement:
        expected, given = label(example, "diagnosis"), output(prediction, "diagnosis")
        right = self.read(expected).number
        if right is None:
            raise EvaluationFailed(f"the example's diagnosis {expected!r} is none of the list.")
        got = self._released(given) if self.compare == "faithful" else self.read(given)
        if got.number == right:
            return self._read_as(1.0, "match", f"Correct: {self._named(right)}.", readable=True)
        kind = "different" if got.number else got.kind
        feedback = f"Expected: {self._named(right)}, got: {self._got(got, given)}"
        return self._read_as(0.0, kind, feedback, readable=got.number is not None)

    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        return self._read_as(math.nan, "not judged", feedback, readable=False)

    def read(self, value: Any) -> Reading:
        """Find the one diagnosis that a value names, as the class describes.

        >>> judge = DiagnosisAccuracy({"Bronchitis": [], "Pneumonia": []})
        >>> judge.read("2").number, judge.read("Bronchitis or pneumonia").kind
        (2, 'several')
        >>> judge.read("1. Fever.\\n2. Cough.\\nNot bronchitis. Answer: pneumonia").number
        2
        """
        text = folded(answer_text(value) or "")
        if not text.strip():
            return Reading(None, "no answer")
        found, denied = self._options.mentions(text)
        if not found:
            numbers = tuple(dict.fromkeys(mention.number for mention in denied))
            return Reading(None, "ruled out" if denied else "unknown", numbers)
        starts = [mention.start for mention in found]
        for begin, end, set_off in answer_places(text):
            inside = found[bisect_left(starts, begin) : bisect_left(starts, end)]
            # "The diagnosis is based on 3 findings" announces nothing.
            if inside and (set_off or any(mention.how != "number" for mention in inside)):
                return self._reading(text, inside, found[bisect_left(starts, end) :])
        return self._reading(text, found)

    def _reading(
        self, text: str, found: Sequence[Mention], later: Sequence[Mention] = ()
    ) -> Reading:
        chosen, kind = self._chosen(found)
        if kind != "one":
            return Reading(None, kind, chosen)
        rivals = (*chosen, *self._rivals(text, found, chosen[0]))
        if len(rivals) > 1:
            return Reading(None, "several", tuple(dict.fromkeys(rivals)))
        named = {m.number for m in later if m.how in ("pair", "name")}
        if named and chosen[0] not in named and all(m.how not in ("pair", "name") for m in found):
            return Reading(None, "contradiction", (chosen[0], *sorted(named)))
        return Reading(chosen[0], "one", chosen)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"DiagnosisAccuracy({len(self.options)} options, compare={self.compare!r})"

    def _chosen(self, found: Sequence[Mention]) -> tuple[tuple[int, ...], str]:
        """Return the options that the text commits itself to, and what is wrong with them."""
        by_kind = {
            how: tuple(dict.fromkeys(m.number for m in found if m.how == how))
            for how in ("pair", "clash", "name", "asked", "opened", "number")
        }
        if by_kind["clash"]:
            return by_kind["clash"], "contradiction"
        pairs, names = by_kind["pair"], by_kind["name"]
        marked = by_kind["asked"] or by_kind["opened"]
        if pairs:
            return pairs, "one" if len(pairs) == 1 else "several"
        if names and marked and marked[0] not in self._names:
            return marked[:1], "out of range"
        if names and marked:
            agrees = marked[0] in names
            return (marked[:1], "one") if agrees else ((marked[0], *names), "contradiction")
        if names:
            return names, "one" if len(names) == 1 else "several"
        numbers = marked or by_kind["number"]
        valid = tuple(number for number in numbers if number in self._names)
        return (valid[:1], "one") if valid else (numbers[:1], "out of range")

    def _rivals(self, text: str, found: Sequence[Mention], chosen: int) -> Iterable[int]:
        """Yield options that stand beside the chosen one as its equals."""
        listed = [m for m in found if m.number in self._names]
        for left, right in itertools.pairwise(listed):
            if chosen in (left.number, right.number) and joined(text, left, right):
                yield right.number if left.number == chosen else left.number

    def _released(self, value: Any) -> Reading:
        numbers = _RELEASED.findall((answer_text(value) or "").lower())
        if not numbers:
            return Reading(None, "unknown")
        number = int(numbers[0][:9])  # longer ones are out of range whatever they are
        if number not in self._names:
            return Reading(None, "out of range", (number,))
        return Reading(number, "one", (number,))

    def _named(self, number: int) -> str:
        return f"{number}. {self._names[number]}" if number in self._names else str(number)

    def _got(self, got: Reading, given: Any) -> str:
        if got.number is not None:
            return f"{self._named(got.number)}."
        text = shown(answer_text(given) or "")
        if got.kind == "no answer" or not text:
            return "no answer."
        return f"{text.rstrip('.')}. {self._reason(got)}"

    def _reason(self, got: Reading) -> str:
        if got.kind == "unknown":
            return f"It names none of the {len(self._names)} diagnoses by number or name."
        if got.kind == "ruled out":
            return "It says only what the diagnosis is not."
        if got.kind == "out of range":
            return f"The numbers of the list are 1 to {len(self._names)}, not {got.numbers[0]}."
        if got.kind == "contradiction":
            number = got.numbers[0]
            return f"Number and name do not agree: {number} is {self._names[number]}."
        return "It names several diagnoses; give one."

    def _read_as(self, score: float, kind: str, feedback: str, *, readable: bool) -> Judgement:
        subscores = {"readable": float(readable)}
        return self._verdict(score, kind, feedback, subscores, not math.isnan(score))
