"""LoCoMo: questions about conversations that two people had over months.

Paper:      Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents",
            ACL 2024. As a program of several modules: Liu et al., "NLPG", 2026.
Licence:    CC BY-NC 4.0 (data): for evaluation only.
Source:     https://github.com/snap-research/locomo: ``data/locomo10.json``.
Sizes:      10 conversations (369 to 689 turns), 1,986 questions: 282 multi-hop, 321 temporal,
            96 open-domain, 841 single-hop, 446 adversarial. NLPG tests on 152 questions of
            conversations that nothing was learned from.
Example:    conversation conv-26
            question     When did Caroline go to the LGBTQ support group?
            answer       7 May 2023
            category     temporal
Metric:     token F1 as the authors' script has it (:mod:`evaluators.memory_qa`): stems of NLTK;
            open-domain answers are cut at a semicolon; multi-hop answers are compared part by
            part. An adversarial question has no answer, and 1 is for saying so.
            ``compare="faithful"`` knows the script's two phrases for that and no other;
            ``"exact"`` wants the same words; ``"judge"`` asks a language model.
Program:    ``write_query`` → BM25 over the turns (k = 10) → ``answer_question``.
Deviations: adversarial questions are asked as they are. The authors offer the tempting answer
            and "Not mentioned" as options (a) and (b), and add to temporal questions that an
            approximate date is wanted; both tell the model the category. Turns are cited one by
            one, pictures by their caption. Malformed evidence ids are mended (``D:11:26``).
            NLPG separates by conversation and user; a conversation holds both its users, so
            parts that share no conversation share neither.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.types import Benchmark
from evaluators.memory_qa import SCORINGS
from programs._conversations import (
    Conversations,
    ConversationSearch,
    MemoryQA,
    Turn,
    judge_for,
    question_alone,
    question_family,
)
from programs._files import Data, find_file, predictions_by_id, read_json, read_text
from programs._splits import checked_limit, part_of

__all__ = [
    "BENCHMARK",
    "CATEGORIES",
    "SIZES",
    "category",
    "conversation",
    "evaluator",
    "key",
    "load",
    "program",
    "read_predictions",
]

CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""The data's numbers and the names that the authors' script gives them."""

SIZES = (4, 2, 4)
"""Conversations for construction, selection and test."""

PASSAGES = 10
"""Turns a search."""

NOT_MENTIONED = "Not mentioned in the conversation"

_FILE = "locomo10.json"
_GET_IT = (
    "Get it with: curl --create-dirs --output-dir data/locomo -LO "
    f"https://raw.githubusercontent.com/snap-research/locomo/main/data/{_FILE}; pass the folder "
    "as --data, or set DRPG_DATA to it."
)

category = question_family
key = question_alone


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "stream",
    limit: int | None = None,
    categories: Sequence[str] = tuple(CATEGORIES.values()),
    show_category: bool = False,
    sizes: Sequence[int] = SIZES,
    seed: int = 1,
) -> list[dspy.Example]:
    """Read questions in the order of the file, conversation by conversation.

    Args:
        data: The folder of the file, or one that holds it as ``locomo``; ``None`` = look in
            ``$DRPG_DATA``, ``../shared/data`` and ``data``.
        split: ``"stream"`` (all), ``"construction"``, ``"selection"`` or ``"test"``: parts that
            share no conversation.
        limit: Keep the first so many.
        categories: Keep these. NLPG's table has the first four.
        show_category: Make the data's category an input, as NLPG's routes have it. Refused
            together with ``"adversarial"``, whose name is the answer.
        sizes: Conversations in the three parts. Fewer are shared out in proportion, with a
            warning.
        seed: Another one draws other parts.

    Returns:
        Examples with the inputs ``conversation`` (its name) and ``question``, the labels
        ``answer``, ``abstain``, ``several``, ``evidence`` (ids of turns) and for adversarial
        questions ``adversarial_answer``, and ``category``, ``group`` (the conversation) and
        ``id`` such as ``"conv-26-1"`` (the question's number, from 1).

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: A wrong argument, or a row that cannot be used; the message names it.
    """
    limit = checked_limit(limit)
    wanted = _checked_categories(categories, show_category)
    examples = []
    for sample, where in _samples(data):
        name = _keep(sample, where)
        for number, row in enumerate(sample["qa"], 1):
            example = _example(row, name, number, f"{where}, question {number}")
            if example.category in wanted:
                inputs = ["conversation", "question", *(["category"] if show_category else [])]
                examples.append(example.with_inputs(*inputs))
    return part_of(examples, split, sizes, seed=seed, what="conversations")[:limit]


def conversation(name: str) -> tuple[Turn, ...]:
    """Return the turns of a conversation that was loaded, or lies in the usual places.

    Raises:
        BenchmarkDataMissing: It is not there.
        ValueError: There is no conversation of this name.
    """
    return _conversations.turns(name)


def program(search: ConversationSearch | None = None) -> dspy.Module:
    """Return the program.

    Args:
        search: ``ConversationSearch(conversation, k, make, cut)`` for another number of
            passages, another retriever, or sessions instead of turns.
    """
    return MemoryQA(search or ConversationSearch(conversation, PASSAGES))


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "f1", **options: Any
) -> Any:
    """Return the judge.

    Args:
        data: Not looked at: the judge needs none.
        compare: ``"f1"``, ``"exact"``, ``"faithful"``, or ``"judge"`` for a language model.
        options: Passed on to :class:`evaluators.memory_qa.MemoryAnswer` or
            :class:`evaluators.llm_judge.LMJudge`.
    """
    return judge_for(compare, options)


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted answers in either of two forms.

    * the authors' one: the data file with a ``…_prediction`` beside each question (its
      ``…_prediction_context`` is what was retrieved);
    * JSON lines ``{"id": …, "prediction": …}`` in any order.

    An example without a prediction gets none, which is wrong.

    Raises:
        ValueError: The file has neither form, or several predictions for a question.
    """
    samples = _official(read_text(path))
    if samples is None:
        return predictions_by_id(path, examples, "answer")
    found: dict[str, dict[str, Any]] = {}
    for sample in samples:
        for number, row in enumerate(sample["qa"], 1):
            names = [name for name in row if name.endswith("_prediction")]
            if len(names) > 1:
                raise ValueError(f"{path}: several predictions for a question: {names}.")
            for name in names:
                context = row.get(f"{name}_context")
                extra = {} if context is None else {"retrieved": context}
                found[f"{sample['sample_id']}-{number}"] = {"answer": row[name], **extra}
    return [dspy.Prediction(**found.get(example.id, {"answer": None})) for example in examples]


BENCHMARK = Benchmark(
    name="locomo",
    title="LoCoMo: questions about months of conversation",
    paper="Maharana et al., ACL 2024",
    licence="CC BY-NC 4.0",
    metric="token F1",
    k=4,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    category=category,
    compares=(*SCORINGS, "judge"),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run locomo``."""


def _samples(data: Data) -> Iterator[tuple[dict[str, Any], str]]:
    path: Path = find_file(data, "locomo", (_FILE,), title="LoCoMo", get_it=_GET_IT)
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} must hold a list of conversations, got {type(rows).__name__}.")
    seen: set[str] = set()
    for number, row in enumerate(rows, 1):
        where = f"{path}, conversation {number}"
        name = row.get("sample_id") if isinstance(row, Mapping) else None
        if not isinstance(name, str) or not isinstance(row.get("qa"), list):
            raise ValueError(f"{where}: expected an object with sample_id, conversation and qa.")
        if name in seen:
            raise ValueError(f"{where}: the sample_id {name!r} comes twice.")
        seen.add(name)
        yield dict(row), where


def _keep(sample: Mapping[str, Any], where: str) -> str:
    """Keep a conversation for the program; return its name."""
    record = sample.get("conversation")
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: conversation must be an object, got {str(record)[:80]!r}.")
    numbers = sorted(int(m.group(1)) for m in map(re.compile(r"session_(\d+)$").match, record) if m)
    turns = []
    for number in numbers:
        date = str(record.get(f"session_{number}_date_time", ""))
        for turn in record[f"session_{number}"] or ():
            turns.append(_turn(turn, number, date, f"{where}, session {number}"))
    if not turns:
        raise ValueError(f"{where}: the conversation has no turns.")
    _conversations.put(sample["sample_id"], turns)
    return str(sample["sample_id"])


def _turn(turn: Any, session: int, date: str, where: str) -> Turn:
    fields = turn if isinstance(turn, Mapping) else {}
    if not all(isinstance(fields.get(name), str) for name in ("dia_id", "speaker", "text")):
        raise ValueError(f"{where}: a turn needs dia_id, speaker and text, got {str(turn)[:80]!r}.")
    caption = fields.get("blip_caption")
    picture = f" (shares a picture: {caption})" if caption else ""
    return Turn(
        fields["dia_id"], str(session), date, fields["speaker"], f"{fields['text']}{picture}"
    )


def _example(row: Any, name: str, number: int, where: str) -> dspy.Example:
    fields = row if isinstance(row, Mapping) else {}
    question, kind = fields.get("question"), CATEGORIES.get(fields.get("category", 0))
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"{where}: question must be a text, got {question!r}.")
    if kind is None:
        raise ValueError(f"{where}: category must be 1 to 5, got {fields.get('category')!r}.")
    extra = {}
    if kind == "adversarial":
        answer = NOT_MENTIONED
        extra["adversarial_answer"] = str(
            fields.get("adversarial_answer", fields.get("answer", ""))
        )
    elif str(fields.get("answer", "")).strip():
        answer = str(fields["answer"]).strip()
    else:
        raise ValueError(f"{where}: answer must not be empty, got {fields.get('answer')!r}.")
    if kind == "open-domain":
        answer = answer.split(";")[0].strip()
    return dspy.Example(
        id=f"{name}-{number}",
        group=name,
        conversation=name,
        question=question.strip(),
        answer=answer,
        abstain=kind == "adversarial",
        several=kind == "multi-hop",
        evidence=_evidence(fields.get("evidence") or []),
        category=kind,
        **extra,
    )


def _evidence(value: Any) -> list[str]:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    ids = (f"D{int(a)}:{int(b)}" for a, b in re.findall(r"D:?(\d+):(\d+)", text))
    return list(dict.fromkeys(ids))


def _checked_categories(categories: Any, show_category: bool) -> set[str]:
    wanted = [categories] if isinstance(categories, str) else list(categories)
    unknown = [name for name in wanted if name not in CATEGORIES.values()]
    if unknown or not wanted:
        raise ValueError(
            f"categories must be some of {', '.join(CATEGORIES.values())}; got {categories!r}."
        )
    if show_category and "adversarial" in wanted:
        raise ValueError(
            "show_category would tell the program which questions have no answer; leave "
            f"'adversarial' out of categories, got {categories!r}."
        )
    return set(wanted)


def _official(text: str) -> list[Any] | None:
    """Return predictions in the authors' form; ``None`` for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    good = isinstance(value, list) and all(
        isinstance(item, Mapping) and isinstance(item.get("qa"), list) and "sample_id" in item
        for item in value
    )
    return value if good else None


def _read_all() -> None:
    for sample, where in _samples(None):
        _keep(sample, where)


_conversations = Conversations("LoCoMo", _read_all)
