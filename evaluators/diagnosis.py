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
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from drpg_dspy.exceptions import EvaluationFailed
from evaluators._fields import label, output, shown
from evaluators.judgement import Judge, Judgement
from evaluators.qa import answer_text

__all__ = ["SCORINGS", "DiagnosisAccuracy", "Reading"]

SCORINGS = {"repaired": "1", "faithful": "1"}
"""The scorings with their versions, the default first."""

# A number of the list: no part of a word, a decimal, a negative number, an age or a duration.
_NUMBER = re.compile(
    r"(?<![\w.,\-])\d{1,9}(?!\w|[.,]\d|\s*[%°]|\s*-?\s*"
    r"(?:years?|y/?o|ans|months?|weeks?|days?|hours?|degrees?|celsius|mg|cm|mm|bpm)\b)"
)
# It is meant as the answer where it opens a line as in "35." or follows a word like "answer".
_OPENING = " \t*#<([{\"'>-"
_WINDOW = 80  # characters before a number that are looked at
_ASKED_FOR = re.compile(
    r"\b(?:answer|option|choice|number|diagnosis|diagnostic|numero|no|n)\b[^\w\n]*(?:is\b[^\w\n]*)?$"
)
_CLOSES = re.compile(r"[*\"'\]}]*(?:[.):>]|\s*(?:\n|$))")
_JOINED = re.compile(r"[\W\d_]*(?:[,;/&+]|\b(?:or|and|ou|et|vs|versus)\b)[\W\d_]*")
_HEADS = re.compile(r"[*\"'\]}>]*[.):\-][\s*\"'<(\[]*")  # between a number and its name
_RELEASED = re.compile(r"(\d+)\.")


class _Mention(NamedTuple):
    """A place in a text that names an option.

    Attributes:
        start, end: Where it stands.
        number: The number of the option named; one outside the list is kept as it is.
        how: ``"pair"`` (a number followed by its own name), ``"clash"`` (by another one's),
            ``"name"``, ``"marked"`` (a number given as the answer) or ``"number"`` (any other).
    """

    start: int
    end: int
    number: int
    how: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says.

    Attributes:
        number: The one option that it names; ``None`` = no or more than one.
        kind: ``"one"``, ``"no answer"``, ``"unknown"``, ``"out of range"``,
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

    1. A number followed by its own name (``35. Pneumonia``) is the answer, whatever else the
       text discusses.
    2. A number followed by the name of another option, or given as the answer (``35.`` at the
       start of a line, ``answer: 35``) beside the names of others only, contradicts: wrong.
    3. Names without such a number: the one option named, anywhere in a sentence.
    4. Numbers without names: the first that is in the list. Ages, durations and decimals are
       no numbers of the list.
    5. Two options joined as equals (``A or B``, ``A / B``, ``12, 35``), or several names where
       nothing above decides, are no diagnosis: wrong, whichever of them is right.

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
        numbers = _numbers_by_name(self.options)
        self._pattern = _any_of(numbers)
        self._numbers = {"".join(words): number for words, number in numbers.items()}

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
        """
        text = _folded(answer_text(value) or "")
        if not text.strip():
            return Reading(None, "no answer")
        found = self._mentions(text)
        if not found:
            return Reading(None, "unknown")
        chosen, kind = self._chosen(found)
        if kind != "one":
            return Reading(None, kind, chosen)
        rivals = (*chosen, *self._rivals(text, found, chosen[0]))
        if len(rivals) > 1:
            return Reading(None, "several", tuple(dict.fromkeys(rivals)))
        return Reading(chosen[0], "one", chosen)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"DiagnosisAccuracy({len(self.options)} options, compare={self.compare!r})"

    def _mentions(self, text: str) -> list[_Mention]:
        names = [
            _Mention(m.start(), m.end(), self._numbers[_squashed(m.group())], "name")
            for m in self._pattern.finditer(text)
        ]
        found: list[_Mention] = []
        for match in _NUMBER.finditer(text):
            number, start, end = int(match.group()), match.start(), match.end()
            if any(name.start <= start < name.end for name in names):
                continue  # part of a name
            after = next((name for name in names if name.start >= end), None)
            between = text[end : after.start] if after else "?"
            if after and after.number == number and not re.search(r"[^\W_]", between):
                names.remove(after)
                found.append(_Mention(start, after.end, number, "pair"))
            elif after and number in self._names and _HEADS.fullmatch(between):
                found.append(_Mention(start, end, number, "clash"))
            else:
                how = "marked" if _is_answer(text, start, end) else "number"
                found.append(_Mention(start, end, number, how))
        return sorted([*found, *names])

    def _chosen(self, found: list[_Mention]) -> tuple[tuple[int, ...], str]:
        """Return the options that the text commits itself to, and what is wrong with them."""
        by_kind = {
            how: tuple(dict.fromkeys(m.number for m in found if m.how == how))
            for how in ("pair", "clash", "name", "marked", "number")
        }
        if by_kind["clash"]:
            return by_kind["clash"], "contradiction"
        pairs, names, marked = by_kind["pair"], by_kind["name"], by_kind["marked"]
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

    def _rivals(self, text: str, found: list[_Mention], chosen: int) -> Iterable[int]:
        """Yield options that stand beside the chosen one as its equals."""
        listed = [m for m in found if m.number in self._names]
        for left, right in itertools.pairwise(listed):
            between = text[left.end : right.start]
            if chosen in (left.number, right.number) and _JOINED.fullmatch(between):
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
        if got.kind == "out of range":
            return f"The numbers of the list are 1 to {len(self._names)}, not {got.numbers[0]}."
        if got.kind == "contradiction":
            number = got.numbers[0]
            return f"Number and name do not agree: {number} is {self._names[number]}."
        return "It names several diagnoses; give one."

    def _read_as(self, score: float, kind: str, feedback: str, *, readable: bool) -> Judgement:
        subscores = {"readable": float(readable)}
        return self._verdict(score, kind, feedback, subscores, not math.isnan(score))


def _folded(text: str) -> str:
    """Return a text without case and accents, other characters in their places."""
    spelled = text.replace("œ", "oe").replace("Œ", "Oe")
    apart = unicodedata.normalize("NFKD", spelled)
    return "".join(c for c in apart if not unicodedata.combining(c)).casefold()


def _squashed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


def _numbers_by_name(options: Mapping[str, Iterable[str]]) -> dict[tuple[str, ...], int]:
    """Return the number of every name; names are taken as their words."""
    numbers: dict[tuple[str, ...], int] = {}
    for number, (name, others) in enumerate(options.items(), 1):
        for written in (name, *others):
            words = _words(written)
            if not words:
                raise ValueError(f"{written!r} is no name of a diagnosis: it has no letter.")
            if numbers.setdefault(words, number) != number:
                raise ValueError(f"Two diagnoses share the name {written!r}; one is {name!r}.")
    return numbers


def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", _folded(name)))


def _any_of(names: Iterable[tuple[str, ...]]) -> re.Pattern[str]:
    # Longest first: of two names that begin alike, the longer one is meant.
    longest_first = sorted(names, key=lambda words: len("".join(words)), reverse=True)
    spaced = (r"[\W_]*".join(words) for words in longest_first)
    return re.compile(rf"(?<![^\W\d])(?<![^\W\d]-)(?:{'|'.join(spaced)})(?![^\W_]|-[^\W\d])")


def _is_answer(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - _WINDOW) : start]
    line = before.rpartition("\n")[2]
    opens_line = not line.strip(_OPENING) and (len(line) < len(before) or start < _WINDOW)
    closes = _CLOSES.match(text, end)
    return bool((opens_line and closes) or _ASKED_FOR.search(before) or before.endswith("<"))
