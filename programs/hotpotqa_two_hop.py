"""HotpotQA, fullwiki setting: two searches in a corpus, then a short answer; four modules.

Paper:      Yang et al., "HotpotQA", EMNLP 2018. As a program of several modules: Tan et al.,
            "LangProBe", 2025; Agrawal et al., "GEPA", 2025 (its HotpotQA program is LangProBe's
            HoVer program with the last hop replaced by an answer); Liu et al., "NLPG", 2026.
Licence:    CC BY-SA 4.0 (data).
Source:     the questions of :mod:`programs.hotpotqa`, their paragraphs left out. The corpus is
            ``wiki_corpus/wiki_paragraphs.jsonl``, or where that is missing the paragraphs of
            HotpotQA's official dev file (:mod:`programs._passages`).
Sizes:      questions as there; NLPG takes 150 to construct policies from, 300 to select by, 300
            to test. The 591 questions in ``../shared/data`` are shared out in that proportion.
            The corpus there has 22,534 paragraphs and all the evidence; the papers search the
            five million abstracts of Wikipedia, so figures here are higher than theirs.
Example:    question What government position was held by the woman who portrayed Corliss Archer
                     in the film Kiss and Tell?
            answer   Chief of Protocol
            category bridge
Metric:     exact match (:class:`evaluators.multi_hop.MultiHopAnswer`), scorings as in
            :mod:`programs.hotpotqa`; beside it F1 and the recall of the supporting documents.
Program:    ``summarise_1`` (of what the question itself finds) → ``query_2`` → ``summarise_2``
            (of what that query finds) → ``answer_question``; k = 5 passages a hop.
Deviations: BM25 instead of ColBERTv2. Any retriever of DSPy takes its place:
            ``program(retriever=dspy.Embeddings(…))``, or the library's ``DenseRetriever``; it
            returns passages ``Title | text`` and brings its own k. NLPG's split is GEPA's
            (40 % test, 40 % selection, 20 % construction, seed 1); which rows these are is not
            published, so they are drawn here by the hash of the id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.retrieval import Retriever
from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.multi_hop import MultiHopAnswer
from evaluators.qa import SCORINGS
from programs import hotpotqa
from programs._passages import CorpusSearch, note_place, search, title_of
from programs._splits import checked_limit, part_of

__all__ = [
    "BENCHMARK",
    "SIZES",
    "HotpotTwoHop",
    "category",
    "evaluator",
    "key",
    "load",
    "program",
    "read_predictions",
]

SIZES = (150, 300, 300)
"""Questions for construction, selection and test."""

PASSAGES = 5
"""Passages a hop."""

_YES_NO = re.compile(r"^(?:are|is|was|were|do|does|did|has|have|had|can|could)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\b(?:who|which|what|whose)\b.*\bor\b|\bor\b.*\b(?:who|which|what)\b", re.I)
_SHARED = re.compile(r"\b(?:both|in common|same)\b", re.IGNORECASE)


class SummariseFirst(dspy.Signature):
    """You prepare the answer to a question that takes two documents. Write down what these
    passages, found by a first search, say towards it, and which name still has to be looked up."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    question: str = dspy.InputField()
    passages: str = dspy.InputField(desc="One a line: title | text. Most may not matter.")
    summary: str = dspy.OutputField(desc="A few sentences with exact names, dates and numbers.")


class WriteQuery(dspy.Signature):
    """You write the second search query for a question that takes two documents: for the one
    that the first search did not find."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    question: str = dspy.InputField()
    summary: str = dspy.InputField(desc="What the first search gave.")
    query: str = dspy.OutputField(desc="Names and words of the document looked for; no sentence.")


class SummariseSecond(dspy.Signature):
    """You prepare the answer to a question that takes two documents. Write down what the
    passages of the second search add to what is known already."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    question: str = dspy.InputField()
    known: str = dspy.InputField(desc="What the first search gave.")
    passages: str = dspy.InputField(desc="One a line: title | text. Most may not matter.")
    summary: str = dspy.OutputField(desc="A few sentences with exact names, dates and numbers.")


class AnswerQuestion(dspy.Signature):
    """You answer a question from the notes that two searches gave."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    question: str = dspy.InputField()
    summary_1: str = dspy.InputField()
    summary_2: str = dspy.InputField()
    answer: str = dspy.OutputField(
        desc="The shortest text that answers: a name, a number, a date, yes or no. "
        "No sentence, no explanation."
    )


class HotpotTwoHop(dspy.Module):
    """Two searches and four predictors.

    Args:
        retriever: Finds passages ``Title | text`` for a query; ``None`` = BM25 over the corpus
            on this machine, looked for at the first call.
    """

    def __init__(self, retriever: Retriever | None = None) -> None:
        super().__init__()
        self.retriever = CorpusSearch(PASSAGES) if retriever is None else retriever
        self.summarise_1 = dspy.Predict(SummariseFirst)
        self.query_2 = dspy.Predict(WriteQuery)
        self.summarise_2 = dspy.Predict(SummariseSecond)
        self.answer_question = dspy.Predict(AnswerQuestion)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer one question.

        Returns:
            ``answer``, the ``query`` of the second hop, and ``retrieved``: the titles found, in
            the order of the searches.

        Raises:
            BenchmarkDataMissing: No retriever was given and there is no corpus here.
        """
        first = search(self.retriever, question)
        known = self.summarise_1(question=question, passages="\n".join(first)).summary
        query = self.query_2(question=question, summary=known).query
        second = search(self.retriever, query)
        added = self.summarise_2(question=question, known=known, passages="\n".join(second))
        final = self.answer_question(question=question, summary_1=known, summary_2=added.summary)
        titles = dict.fromkeys(title_of(passage) for passage in (*first, *second))
        return dspy.Prediction(answer=final.answer, query=query, retrieved=list(titles))


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "stream",
    limit: int | None = None,
    sizes: Sequence[int] = SIZES,
    seed: int = 1,
) -> list[dspy.Example]:
    """Read the questions of HotpotQA's dev split, without their paragraphs.

    Args:
        data: As for :func:`programs.hotpotqa.load`. The program looks for its corpus there (or
            beside it) before it looks in the usual places.
        split: ``"stream"`` (all), ``"construction"``, ``"selection"`` or ``"test"``: parts that
            share no question.
        limit: Keep the first so many.
        sizes: Questions in the three parts. Fewer questions are shared out in proportion, with
            a warning.
        seed: Another one draws other parts.

    Returns:
        Examples with the input ``question``, the labels ``answer`` and ``supporting_facts``,
        and ``category`` (``"bridge"`` or ``"comparison"``, as the data says), ``level``, ``id``
        and ``group`` (the id: no two examples share one).

    Raises:
        BenchmarkDataMissing: The questions are not there; the message says what gets them.
        ValueError: As for :func:`programs.hotpotqa.load`, or sizes that are no three numbers.
    """
    limit = checked_limit(limit)
    note_place(data)
    rows = hotpotqa.load(data, split="dev", limit=limit if split == "stream" else None)
    examples = [
        dspy.Example(
            id=row.id,
            group=row.id,
            question=row.question,
            answer=row.answer,
            supporting_facts=row.supporting_facts,
            category=row.type,
            level=row.level,
        ).with_inputs("question")
        for row in rows
    ]
    return part_of(examples, split, sizes, seed=seed, what="questions")[:limit]


def program(retriever: Retriever | None = None) -> dspy.Module:
    """Return the program.

    Args:
        retriever: See :class:`HotpotTwoHop`.
    """
    return HotpotTwoHop(retriever)


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> MultiHopAnswer:
    """Return the judge.

    Args:
        data: Not looked at: the judge needs none.
        compare: ``"repaired"`` or ``"faithful"``.
        options: Passed on to :class:`evaluators.multi_hop.MultiHopAnswer`.
    """
    return MultiHopAnswer(compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the question."""
    return str(inputs["question"])


def category(inputs: Mapping[str, Any]) -> str:
    """Guess a question's kind from its words, without any label.

    Returns:
        ``"comparison"`` for questions that set two things side by side, else ``"bridge"``. It
        is the data's own type for nine in ten questions; most of the others ask what two
        things have in common, which the data counts as bridges.

    >>> category({"question": "Were Scott Derrickson and Ed Wood of the same nationality?"})
    'comparison'
    >>> category({"question": "Where was the author of Kim born?"})
    'bridge'
    """
    question = str(inputs["question"])
    two = _SHARED.search(question) and re.search(r"\band\b", question, re.IGNORECASE)
    if _YES_NO.match(question) or _CHOICE.search(question) or two:
        return "comparison"
    return "bridge"


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted answers in the forms of :func:`programs.hotpotqa.read_predictions`.

    In the official form the titles in ``sp`` also count as what was retrieved.

    Raises:
        ValueError: As there.
    """
    predictions = hotpotqa.read_predictions(path, examples)
    for prediction in predictions:
        facts = prediction.get("supporting_facts")
        if facts is not None:
            prediction["retrieved"] = facts
    return predictions


BENCHMARK = Benchmark(
    name="hotpotqa_two_hop",
    title="HotpotQA over a corpus: two searches, four modules",
    paper="Yang et al., EMNLP 2018; as in GEPA and NLPG",
    licence="CC BY-SA 4.0",
    metric="exact match",
    k=3,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    category=category,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run hotpotqa_two_hop``."""
