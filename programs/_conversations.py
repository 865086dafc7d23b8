"""What the benchmarks of conversational memory share: conversations, search, and the program.

A conversation may hold a hundred thousand tokens, so an example names it and the program looks
it up: :class:`Conversations` holds what loaders of this process read, and reads the usual
places for a name that none of them did. The program writes a query, searches the conversation,
and answers from what it found.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.retrieval import BM25Retriever, Retriever, passages_of
from drpg_dspy.types import PolicyField, ShotsField
from evaluators.llm_judge import TWO_WAY, LMJudge
from evaluators.memory_qa import MemoryAnswer

__all__ = [
    "ConversationSearch",
    "Conversations",
    "MemoryQA",
    "Passage",
    "Turn",
    "each_session",
    "each_turn",
    "judge_for",
    "question_alone",
    "question_family",
]

MakeRetriever = Callable[[Sequence[str]], Retriever]

_Index = tuple[Sequence["Turn"], list["Passage"], Retriever]

_KEPT = 16
"""Indices of conversations kept at hand."""

_FAMILIES = (
    ("preference", r"\b(?:recommend|suggest|advice|tips?|ideas?|should i|what should)\b"),
    ("time", r"\bwhen\b|\bhow long\b|\b(?:what|which) (?:date|day|month|year|time|week)\b"
             r"|\bhow many (?:days|weeks|months|years|hours|minutes)\b|\b(?:ago|how old)\b"
             r"|\bwhat (?:is|was) the (?:order|date)\b|\bhappened (?:first|last)\b"),
    ("count", r"\bhow (?:many|much|often)\b|\b(?:total|number|amount) of\b"),
    ("yes or no", r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b"),
    ("inference", r"\b(?:might|likely|would|could|probably|based on|infer)\b"),
    ("person", r"\bwho(?:m|se)?\b"),
    ("list", r"^(?:what|which) (?:are|were|kinds?|types?|sports|books|places|activities|items)\b"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said at once.

    Attributes:
        id: The name under which the data's evidence refers to it (or to its session).
        session: Which sitting it belongs to.
        date: When, as the data writes it; may be empty.
        speaker, text: Who said what.
    """

    id: str
    session: str
    date: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a conversation as it is searched and shown.

    Attributes:
        text: One line.
        ids: Of the turns in it.
    """

    text: str
    ids: tuple[str, ...]


def each_turn(turns: Sequence[Turn]) -> list[Passage]:
    """Return a passage for each turn: ``[date] speaker: text``."""
    return [Passage(f"{_dated(turn)}{_said(turn)}", (turn.id,)) for turn in turns]


def each_session(turns: Sequence[Turn]) -> list[Passage]:
    """Return a passage for each sitting, its turns one after the other."""
    sessions: dict[str, list[Turn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    return [
        Passage(
            _dated(group[0]) + " / ".join(map(_said, group)),
            tuple(dict.fromkeys(turn.id for turn in group)),
        )
        for group in sessions.values()
    ]


class Conversations:
    """The conversations of one benchmark, by name.

    Args:
        title: The benchmark's, for messages.
        read: Reads the usual places and calls :meth:`put`; raises ``BenchmarkDataMissing``.
    """

    def __init__(self, title: str, read: Callable[[], Any]) -> None:
        self.title = title
        self._read = read
        self._turns: dict[str, tuple[Turn, ...]] = {}
        self._looked = False

    def put(self, name: str, turns: Iterable[Turn]) -> None:
        """Keep a conversation; one with this name is replaced."""
        self._turns[name] = tuple(turns)

    def turns(self, name: str) -> tuple[Turn, ...]:
        """Return a conversation's turns in their order.

        Raises:
            BenchmarkDataMissing: The name is unknown and the data is not in the usual places.
            ValueError: The data is there, and has no conversation of this name.
        """
        if name not in self._turns and not self._looked:
            try:
                self._read()
            except BenchmarkDataMissing as error:
                raise BenchmarkDataMissing(
                    f"The conversation {name!r} was not loaded in this process. {error}"
                ) from error
            self._looked = True
        if name not in self._turns:
            known = ", ".join(list(self._turns)[:3]) or "none"
            raise ValueError(
                f"{self.title} has no conversation {name!r}; names are like: {known}. Load the "
                "examples first where their data is not in the usual places."
            )
        return self._turns[name]


class ConversationSearch:
    """Finds passages in a conversation; the last indices are kept.

    A copy shares them, so that DSPy's optimizers may copy a program that holds one.

    Args:
        lookup: Gives the turns of a conversation by its name.
        k: Passages a query, with the default retriever.
        make: Makes a retriever over passages: ``None`` = BM25;
            ``functools.partial(DenseRetriever, embedder=…, k=…, cache=…)`` for vectors.
        cut: What a passage is: :func:`each_turn` or :func:`each_session`.
    """

    def __init__(
        self,
        lookup: Callable[[str], Sequence[Turn]],
        k: int,
        make: MakeRetriever | None = None,
        cut: Callable[[Sequence[Turn]], list[Passage]] = each_turn,
    ) -> None:
        self.lookup = lookup
        self.k = k
        self.make = make
        self.cut = cut
        self._fresh()

    def __call__(self, conversation: str, query: str, other: str = "") -> list[Passage]:
        """Return the passages that a query finds, in the order in which they were said.

        Args:
            conversation: Its name.
            query: What is looked for.
            other: Asked where the query finds nothing.
        """
        passages, retriever = self._index(conversation)
        places = {passage.text: place for place, passage in reversed(list(enumerate(passages)))}
        for text in (query, other):
            flat = " ".join(str(text).split())
            texts = passages_of(retriever(flat)) if flat else []
            if texts:
                known = sorted({places[text] for text in texts if text in places})
                strange = [Passage(text, ()) for text in texts if text not in places]
                return [passages[place] for place in known] + strange
        return []

    def __deepcopy__(self, memo: Any) -> ConversationSearch:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name[0] != "_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._fresh()

    def _fresh(self) -> None:
        self._lock = threading.Lock()
        self._indices: OrderedDict[str, _Index] = OrderedDict()

    def _index(self, conversation: str) -> tuple[list[Passage], Retriever]:
        turns = self.lookup(conversation)
        with self._lock:
            kept = self._indices.get(conversation)
            if kept is not None and kept[0] is turns:  # not one loaded from elsewhere since
                self._indices.move_to_end(conversation)
                return kept[1], kept[2]
        passages = self.cut(turns)
        texts = [passage.text for passage in passages]
        found: Retriever = BM25Retriever(texts, self.k) if self.make is None else self.make(texts)
        with self._lock:
            self._indices[conversation] = (turns, passages, found)
            self._indices.move_to_end(conversation)
            while len(self._indices) > _KEPT:
                self._indices.popitem(last=False)
        return passages, found


class WriteQuery(dspy.Signature):
    """You search the record of a long conversation for what answers a question. Write the
    search query."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    question: str = dspy.InputField()
    query: str = dspy.OutputField(
        desc="Names and words that were probably said when it was talked about; no sentence."
    )


class AnswerFromMemory(dspy.Signature):
    """You answer a question from what was said in a conversation. Where it was not said, answer
    'Not mentioned'."""

    examples: str = ShotsField()
    policy: str = PolicyField()
    memories: str = dspy.InputField(desc="What the search found, one a line, with its date.")
    asked_on: str = dspy.InputField(desc="The day of the question, where it is known.")
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="A short phrase, in the words of the conversation.")


class MemoryQA(dspy.Module):
    """Two predictors: ``write_query``, whose query is searched for, and ``answer_question``.

    Args:
        search: Finds passages of a conversation.
    """

    def __init__(self, search: ConversationSearch) -> None:
        super().__init__()
        self.search = search
        self.write_query = dspy.Predict(WriteQuery)
        self.answer_question = dspy.Predict(AnswerFromMemory)

    def forward(
        self, conversation: str, question: str, asked_on: str = "", category: str = ""
    ) -> dspy.Prediction:
        """Answer one question.

        Args:
            conversation: Its name.
            question: About it.
            asked_on: The day of the question.
            category: Shown to nobody: for optimizers that tell questions apart by it.

        Returns:
            ``answer``, the ``query``, and ``retrieved``: the ids of the turns found.
        """
        query = self.write_query(question=question).query
        found = self.search(conversation, query, other=question)
        answer = self.answer_question(
            memories="\n".join(passage.text for passage in found),
            asked_on=asked_on,
            question=question,
        ).answer
        ids = dict.fromkeys(name for passage in found for name in passage.ids)
        return dspy.Prediction(answer=answer, query=query, retrieved=list(ids))


def question_alone(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the question alone."""
    return str(inputs["question"])


def question_family(inputs: Mapping[str, Any]) -> str:
    """Return the ``category`` among the inputs, or guess a question's family from its words.

    No label is looked at, unless the loader was told to give the category as an input.

    Returns:
        The category, or one of ``"preference"``, ``"time"``, ``"count"``, ``"yes or no"``,
        ``"inference"``, ``"person"``, ``"list"``, and ``"fact"`` for the rest.

    >>> question_family({"question": "When did Ann move?"})
    'time'
    >>> question_family({"question": "What is Ann's dog called?"})
    'fact'
    """
    if given := str(inputs.get("category") or ""):
        return given
    question = str(inputs["question"]).lower()
    families = (name for name, pattern in _FAMILIES if re.search(pattern, question))
    return next(families, "fact")


def judge_for(
    compare: str, options: Mapping[str, Any], outcomes: Mapping[str, float] = TWO_WAY
) -> MemoryAnswer | LMJudge:
    """Return the judge that a scoring names: ``"judge"`` is a language model."""
    if compare == "judge":
        return LMJudge(**{"outcomes": outcomes, **options})
    return MemoryAnswer(compare, **options)


def _dated(turn: Turn) -> str:
    return f"[{turn.date}] " if turn.date else ""


def _said(turn: Turn) -> str:
    return f"{turn.speaker}: {' '.join(turn.text.split())}"
