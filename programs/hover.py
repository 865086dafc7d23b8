"""HoVer: claims that take up to four Wikipedia articles to check; three searches, six modules.

Paper:      Jiang et al., "HoVer: A Dataset for Many-Hop Fact Extraction And Claim
            Verification", Findings of EMNLP 2020. As a program of several modules: Tan et al.,
            "LangProBe", 2025 (``HoverMultiHop``); Agrawal et al., "GEPA", 2025; Liu et al.,
            "NLPG", 2026.
Licence:    MIT (the repository; the data's own is not stated apart from it).
Source:     https://hover-nlp.github.io: ``hover_dev_release_v1.1.json`` (and ``train``). The
            corpus as in :mod:`programs.hotpotqa_two_hop`.
Sizes:      dev 4,000 claims, train 18,171. The corpus of ``../shared/data`` holds the evidence
            of 201 dev claims (126 of two hops, 71 of three, 4 of four); only such claims are
            loaded, unless ``covered=False``. NLPG: 150 to construct and select from, 300 to test.
Example:    claim    The song recorded by Fergie that was produced by Polow da Don and was
                     followed by Life Goes On was M.I.L.F.$.
            titles   Life Goes On (Fergie song); M.I.L.F. $
            label    SUPPORTED
            category 2 hops
Metric:     ``"retrieval"``: 1 when every article of the evidence was found, as in LangProBe and
            GEPA. NLPG's table repeats GEPA's figures (52.33 with Qwen3-8B), so its HoVer score
            is this one. Beside it, always: the share of the articles, label accuracy, and both
            together; ``"label"`` and ``"hover"`` (HoVer's own score, by article instead of
            sentence) make these the verdict (:mod:`evaluators.hover`).
Program:    ``summarise_1`` → ``query_2`` → ``summarise_2`` → ``query_3`` → ``summarise_3`` →
            ``verify``; k = 7 passages a hop, so 21 at most, as in LangProBe.
Deviations: ``hops`` is a number of the program, 3 by default and 2 to 4 by argument: how many a
            claim takes is a label. LangProBe's program returns the documents alone; here
            ``summarise_3`` and ``verify`` are added for the label. BM25 instead of ColBERTv2.
            LangProBe keeps the claims of three hops; here all are kept, hops are the category.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.retrieval import Retriever
from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.hover import LABELS, SCORINGS, ClaimVerdict
from programs._files import answers_by_id, find_file, read_json
from programs._passages import (
    CorpusSearch,
    corpus_titles,
    note_place,
    search,
    title_key,
    title_of,
)
from programs._splits import checked_limit, part_of

__all__ = [
    "BENCHMARK",
    "SIZES",
    "HoVer",
    "category",
    "evaluator",
    "key",
    "load",
    "program",
    "read_predictions",
]

SIZES = (100, 50, 300)
"""Claims for construction, selection and test: the source's 150 are the first two together."""

PASSAGES = 7
"""Passages a hop."""

_FILES = {
    "dev": ("hover_dev_release_v1.1.json",),
    "train": ("hover_train_release_v1.1.json",),
}
_GET_IT = (
    "Get it with: curl --create-dirs --output-dir data/hover -LO "
    "https://raw.githubusercontent.com/hover-nlp/hover/main/data/hover/{file}; pass the folder "
    "as --data, or set DRPG_DATA to it."
)


class Summarise(dspy.Signature):
    """You gather evidence for or against a claim that takes several documents. Write down what
    the passages of this search add, and what about the claim is still open."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    claim: str = dspy.InputField()
    known: str = dspy.InputField(desc="What earlier searches gave; empty at the first.")
    passages: str = dspy.InputField(desc="One a line: title | text. Most may not matter.")
    summary: str = dspy.OutputField(desc="A few sentences with exact names, dates and numbers.")


class WriteQuery(dspy.Signature):
    """You write the next search query for a claim that takes several documents: for one that is
    needed and was not found yet."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    claim: str = dspy.InputField()
    known: str = dspy.InputField(desc="What earlier searches gave.")
    query: str = dspy.OutputField(desc="Names and words of the document looked for; no sentence.")


class Verify(dspy.Signature):
    """You decide whether the evidence supports a claim in all its parts."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    claim: str = dspy.InputField()
    evidence: str = dspy.InputField(desc="What the searches gave.")
    label: str = dspy.OutputField(
        desc="SUPPORTED, or NOT_SUPPORTED where a part is wrong or unproven. Nothing else."
    )


class HoVer(dspy.Module):
    """As many searches as ``hops``: the first with the claim, the others with a written query.

    Args:
        retriever: Finds passages ``Title | text`` for a query; ``None`` = BM25 over the corpus
            on this machine, looked for at the first call.
        hops: Searches, 2 to 4.

    Raises:
        ValueError: ``hops`` is none of these.
    """

    def __init__(self, retriever: Retriever | None = None, hops: int = 3) -> None:
        super().__init__()
        if isinstance(hops, bool) or hops not in (2, 3, 4):
            raise ValueError(f"hops must be 2, 3 or 4, got {hops!r}.")
        self.retriever = CorpusSearch(PASSAGES) if retriever is None else retriever
        self.hops = hops
        for hop in range(1, hops + 1):
            if hop > 1:
                setattr(self, f"query_{hop}", dspy.Predict(WriteQuery))
            setattr(self, f"summarise_{hop}", dspy.Predict(Summarise))
        self.verify = dspy.Predict(Verify)

    def forward(self, claim: str) -> dspy.Prediction:
        """Check one claim.

        Returns:
            ``label``, ``titles`` (of everything found, in the order of the searches) and
            ``queries`` (from the second search on).

        Raises:
            BenchmarkDataMissing: No retriever was given and there is no corpus here.
        """
        known, query = "", claim
        titles: dict[str, None] = {}
        queries: list[str] = []
        for hop in range(1, self.hops + 1):
            if hop > 1:
                query = getattr(self, f"query_{hop}")(claim=claim, known=known).query
                queries.append(query)
            passages = search(self.retriever, query)
            titles.update(dict.fromkeys(map(title_of, passages)))
            summarise = getattr(self, f"summarise_{hop}")
            found = summarise(claim=claim, known=known, passages="\n".join(passages)).summary
            known = f"{known}\n{found}".strip()
        label = self.verify(claim=claim, evidence=known).label
        return dspy.Prediction(label=label, titles=list(titles), queries=queries)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "stream",
    limit: int | None = None,
    source: str = "dev",
    covered: bool = True,
    sizes: Sequence[int] = SIZES,
    seed: int = 1,
) -> list[dspy.Example]:
    """Read claims whose evidence the corpus holds, in the order of their file.

    Args:
        data: The folder of the files, or one that holds it as ``hover``; ``None`` = look in
            ``$DRPG_DATA``, ``../shared/data`` and ``data``. The corpus is looked for there (or
            beside it) too.
        split: ``"stream"`` (all), ``"construction"``, ``"selection"`` or ``"test"``.
        limit: Keep the first so many.
        source: ``"dev"`` or ``"train"``: the file. The test file has no labels.
        covered: False keeps claims whose evidence the corpus lacks, for a retriever of your own.
        sizes: Claims in the three parts. Fewer claims are shared out in proportion, with a
            warning.
        seed: Another one draws other parts.

    Returns:
        Examples with the input ``claim``, the labels ``label`` and ``titles`` (each once),
        ``category`` (``"2 hops"`` to ``"4 hops"``), ``id`` and ``group`` (both the uid).

    Raises:
        BenchmarkDataMissing: Claims or corpus are not there; the message says what gets them.
        ValueError: A wrong argument, or a row that cannot be used; the message names it.
    """
    if source not in _FILES:
        raise ValueError(f"source must be one of {', '.join(_FILES)}; got {source!r}.")
    limit = checked_limit(limit)
    note_place(data)
    get_it = _GET_IT.format(file=_FILES[source][0])
    path = find_file(data, "hover", _FILES[source], title=f"HoVer ({source})", get_it=get_it)
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} must hold a list of claims, got {type(rows).__name__}.")
    there = corpus_titles() if covered else frozenset()
    examples: dict[str, dspy.Example] = {}
    for number, row in enumerate(rows, 1):
        example = _example(row, f"{path}, row {number}")
        if example.id in examples:
            raise ValueError(f"{path}, row {number}: the uid {example.id!r} comes twice.")
        if not covered or there.issuperset(map(title_key, example.titles)):
            examples[example.id] = example
    return part_of(list(examples.values()), split, sizes, seed=seed, what="claims")[:limit]


def program(retriever: Retriever | None = None, hops: int = 3) -> dspy.Module:
    """Return the program; see :class:`HoVer` for the arguments."""
    return HoVer(retriever, hops)


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "retrieval", **options: Any
) -> ClaimVerdict:
    """Return the judge.

    Args:
        data: Not looked at: the judge needs none.
        compare: ``"retrieval"``, ``"label"`` or ``"hover"``.
        options: Passed on to :class:`evaluators.hover.ClaimVerdict`.
    """
    return ClaimVerdict(compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the claim."""
    return str(inputs["claim"])


def category(inputs: Mapping[str, Any]) -> str:
    """Guess from its words how many things a claim chains, without any label.

    Returns:
        ``"long claim"`` for one with more than 25 words or several sentences, else
        ``"short claim"``: what tells two hops from more without being told.

    >>> category({"claim": "The film was directed by a man born in Lyon."})
    'short claim'
    """
    claim = str(inputs["claim"])
    long = len(claim.split()) > 25 or len(re.findall(r"[.!?](?:\s|$)", claim)) > 1
    return "long claim" if long else "short claim"


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read JSON lines ``{"id": uid, "prediction": {"label": …, "titles": […]}}`` in any order.

    Titles may be pairs of a title and a sentence number. A bare text is the label, a bare list
    the titles; a claim without a prediction has neither, which is wrong.

    Raises:
        ValueError: The file cannot be read, a line has not this form, or an id is unknown or
            comes twice.
    """
    given = answers_by_id(path, [example.id for example in examples], empty=None)
    return [_prediction(given[example.id]) for example in examples]


BENCHMARK = Benchmark(
    name="hover",
    title="HoVer: claims over up to four articles; three searches, six modules",
    paper="Jiang et al., Findings of EMNLP 2020; as in GEPA and NLPG",
    licence="MIT (repository)",
    metric="all evidence retrieved",
    k=3,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    category=category,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run hover``."""


def _example(row: Any, where: str) -> dspy.Example:
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected an object, got {str(row)[:80]!r}.")
    for field in ("uid", "claim"):
        if not isinstance(row.get(field), str) or not row[field].strip():
            raise ValueError(f"{where}: {field} must be a text, got {row.get(field)!r}.")
    if row.get("label") not in LABELS:
        raise ValueError(
            f"{where}: label must be one of {', '.join(LABELS)}, got {row.get('label')!r}."
        )
    facts = row.get("supporting_facts")
    good = isinstance(facts, list) and facts
    if not good or not all(isinstance(f, list) and f and isinstance(f[0], str) for f in facts):
        raise ValueError(
            f"{where}: supporting_facts must hold pairs of title and sentence number, got "
            f"{str(facts)[:80]!r}."
        )
    titles = list(dict.fromkeys(fact[0] for fact in facts))
    return dspy.Example(
        id=row["uid"],
        group=row["uid"],
        claim=row["claim"].strip(),
        label=row["label"],
        titles=titles,
        category=f"{row.get('num_hops') or len(titles)} hops",
    ).with_inputs("claim")


def _prediction(given: Any) -> dspy.Prediction:
    if isinstance(given, Mapping):
        return dspy.Prediction(label=given.get("label"), titles=given.get("titles"))
    if isinstance(given, list):
        return dspy.Prediction(label=None, titles=given)
    return dspy.Prediction(label=given, titles=None)
