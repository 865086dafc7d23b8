"""From many corrections to few: those that say the same, together; those that contradict, apart."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from drpg_dspy.optimizers import rules
from drpg_dspy.optimizers.corrections.instructions import covers, shared_category

__all__ = ["Correction", "Gradient", "contradicts", "merge"]

_SAME = 0.75
_BLOCK = 512

# A window looks at each text several times: in its cluster, among its route's, and for rivals.
content_words = functools.lru_cache(maxsize=8_192)(rules.content_words)
literals = functools.lru_cache(maxsize=8_192)(rules.literals)


@dataclass(frozen=True, slots=True)
class Gradient:
    """What one failure says one route should do: a language gradient.

    Attributes:
        case: Id of the experience.
        route: Whom it is addressed to.
        category: Of the case.
        text: The correction.
        given: Ids of the instructions that the route had in that case.
    """

    case: str
    route: str
    category: str
    text: str
    given: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Correction:
    """Gradients that say the same, as one.

    Attributes:
        route, category: Where it belongs: to a category, a family of them, or with ``""`` to all
            of the route.
        text: The gradient nearest to all the others, word for word.
        gradients: What it came from, in order of arrival.
    """

    route: str
    category: str
    text: str
    gradients: tuple[Gradient, ...]

    @property
    def cases(self) -> tuple[str, ...]:
        """Ids of the failures that it came from, each once."""
        return tuple(dict.fromkeys(gradient.case for gradient in self.gradients))


def merge(gradients: Sequence[Gradient]) -> tuple[list[Correction], int]:
    """Cluster gradients by route and category, and merge what says the same.

    Two texts say the same as :func:`drpg_dspy.optimizers.rules.similar` has it. The text with
    the most like it becomes a centre, takes these along, and so on with the rest. A cluster's
    text is that of its member with the most words in common with the others; of equal ones the
    latest, because the last word corrects the ones before. What several categories of a route
    lead to becomes one correction for their family, or for the whole route. Of corrections that
    contradict each other (same words, other numbers or a negation) the one from more failures
    stays, of equal ones the later.

    Args:
        gradients: In order of arrival.

    Returns:
        Corrections, those from most failures first, and how many were dropped because they
        contradicted a better founded one.

    Source: ours; the paper says that gradients are aggregated, not how. The centres are those
    of star clustering (Aslam et al. 2004).

    >>> found, _ = merge([
    ...     Gradient("a", "answer", "", "Divide the amount by 100."),
    ...     Gradient("b", "answer", "", "Always divide amount by 100"),
    ...     Gradient("c", "query", "", "Name the year."),
    ... ])
    >>> [(correction.text, len(correction.cases)) for correction in found]
    [('Always divide amount by 100', 2), ('Name the year.', 1)]
    """
    places: dict[tuple[str, str], list[Gradient]] = defaultdict(list)
    for gradient in gradients:
        places[gradient.route, gradient.category].append(gradient)
    local = [
        _as_correction(route, category, members)
        for (route, category), own in places.items()
        for members in _clusters(own)
    ]
    order = {id(gradient): i for i, gradient in enumerate(gradients)}
    corrections = _joined(local)
    last = {id(c): max(order[id(g)] for g in c.gradients) for c in corrections}
    corrections.sort(key=lambda c: (-len(c.cases), -last[id(c)]))
    kept = _without_rivals(corrections)
    return kept, len(corrections) - len(kept)


def contradicts(a: str, b: str) -> bool:
    """Tell whether two texts say different things about the same: one word for word, but for
    numbers, names or a negation.

    >>> contradicts("Give dates as 12 digits.", "Give dates as 8 digits.")
    True
    >>> contradicts("Use LEFT JOIN.", "Never use LEFT JOIN.")
    True
    >>> contradicts("Name the year.", "Name the town.")
    False
    """
    if literals(a) == literals(b):
        return False
    words_a, words_b = _plain_words(a), _plain_words(b)
    shorter = min(len(words_a), len(words_b))
    return shorter > 0 and len(words_a & words_b) / max(len(words_a), len(words_b)) >= _SAME


def _without_rivals(corrections: Sequence[Correction]) -> list[Correction]:
    """Leave out what contradicts one before it in the same place, as :func:`contradicts` has it."""
    by_route: dict[str, list[int]] = defaultdict(list)
    for place, correction in enumerate(corrections):
        by_route[correction.route].append(place)
    kept: list[int] = []
    for places in by_route.values():
        own = [corrections[place] for place in places]
        words = _Words([c.text for c in own], [_plain_words(c.text) for c in own])
        kinds = list(dict.fromkeys(c.category for c in own))
        near = np.array([[covers(a, b) or covers(b, a) for b in kinds] for a in kinds])
        category = np.array([kinds.index(c.category) for c in own])
        standing = np.zeros(len(own), dtype=bool)
        for i in range(len(own)):
            here = near[category, category[i]]
            opposed = words.literal != words.literal[i]
            rivals = standing & here & opposed
            if rivals.any():
                large = np.maximum(words.sizes[i], words.sizes[rivals])
                shared = words.matrix[rivals] @ words.matrix[i]
                standing[i] = not ((shared > 0) & (shared >= _SAME * large)).any()
            else:
                standing[i] = True
        kept += [place for place, stands in zip(places, standing, strict=True) if stands]
    return [corrections[place] for place in sorted(kept)]


_NEGATIONS = frozenset("not never no without except exclude do don t".split())


def _plain_words(text: str) -> frozenset[str]:
    return content_words(text) - literals(text) - _NEGATIONS


def _joined(corrections: Sequence[Correction]) -> list[Correction]:
    """Join what several categories of a route lead to."""
    by_route: dict[str, list[Correction]] = defaultdict(list)
    for correction in corrections:
        by_route[correction.route].append(correction)
    joined: list[Correction] = []
    for route, own in by_route.items():
        if len({correction.category for correction in own}) == 1:
            joined += own
            continue
        for group in _groups([correction.text for correction in own]):
            members = [gradient for i in group for gradient in own[i].gradients]
            category = shared_category(own[i].category for i in group)
            joined.append(_as_correction(route, category, members))
    return joined


def _as_correction(route: str, category: str, members: Sequence[Gradient]) -> Correction:
    texts = [gradient.text for gradient in members]
    best = 0
    if len(texts) > 1:
        words = _Words(texts)
        common = words.matrix @ words.matrix.sum(axis=0)
        best = max(range(len(texts)), key=lambda i: (common[i], i))
    return Correction(route, category, texts[best], tuple(members))


def _clusters(gradients: Sequence[Gradient]) -> list[list[Gradient]]:
    return [[gradients[i] for i in group] for group in _groups([g.text for g in gradients])]


def _groups(texts: Sequence[str]) -> list[list[int]]:
    """Return the places of texts that say the same, by star clustering."""
    like = _Words(texts).alike()
    free = np.ones(len(texts), dtype=bool)
    degree = like.sum(axis=1)
    groups = []
    while free.any():
        centre = int(np.argmax(np.where(free, degree, -1)))
        members = np.flatnonzero(like[centre] & free)
        groups.append(members.tolist())
        free[members] = False
        degree = degree - like[:, members].sum(axis=1)
    return groups


class _Words:
    """Texts as rows of a matrix of content words."""

    def __init__(self, texts: Sequence[str], words: Sequence[frozenset[str]] | None = None) -> None:
        self.texts = texts
        words = [content_words(text) for text in texts] if words is None else words
        kinds = [literals(text) for text in texts]
        number = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
        self.literal = np.array([number[kind] for kind in kinds])
        places = {word: i for i, word in enumerate(dict.fromkeys(_ordered(words)))}
        self.matrix = np.zeros((len(texts), len(places)), dtype=np.float32)
        for row, own in enumerate(words):
            self.matrix[row, [places[word] for word in own]] = 1.0
        self.sizes = self.matrix.sum(axis=1)

    def common(self, rows: Iterable[int]) -> np.ndarray:
        """Return how many words some texts have in common with each of all."""
        shared: np.ndarray = self.matrix[list(rows)] @ self.matrix.T
        return shared

    def alike(self) -> np.ndarray:
        """Return which texts say the same, as :func:`similar` does for two."""
        n = len(self.texts)
        folded = [text.casefold() for text in self.texts]
        spelled = {text: i for i, text in enumerate(dict.fromkeys(folded))}
        spelling = np.array([spelled[text] for text in folded])
        like = np.zeros((n, n), dtype=bool)
        for start in range(0, n, _BLOCK):
            rows = np.arange(start, min(n, start + _BLOCK))
            shared, own = self.common(rows), self.sizes[rows, None]
            small, large = np.minimum(own, self.sizes), np.maximum(own, self.sizes)
            same = (small > 0) & (shared >= _SAME * small) & (shared >= _SAME / 2 * large)
            same &= self.literal[rows, None] == self.literal
            like[rows] = same | (spelling[rows, None] == spelling)
        return like


def _ordered(words: Sequence[frozenset[str]]) -> Iterable[str]:
    for own in words:
        yield from sorted(own)
