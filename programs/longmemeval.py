"""LongMemEval: questions about a user's chats with an assistant over months.

Paper:      Wu et al., "LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive
            Memory", ICLR 2025. As a program of several modules: Liu et al., "NLPG", 2026.
Licence:    MIT (repository and data).
Source:     ``xiaowu0162/longmemeval-cleaned`` on the Hugging Face hub:
            ``longmemeval_s_cleaned.json``, ``longmemeval_oracle.json`` and
            ``longmemeval_m_cleaned.json``: lists of ``{question_id, question_type, question,
            answer, question_date, haystack_session_ids, haystack_dates, haystack_sessions,
            answer_session_ids}``, a session being a list of ``{role, content}``.
Sizes:      500 questions of six types, 30 of them without an answer (``_abs`` in the id). A
            history has about 40 sessions (s), 500 (m), or only those that matter (oracle).
            ``../shared/data`` holds samples that others reshaped: for ``"s"`` three histories
            with 26 questions and 4 questions without an answer, for ``"oracle"`` 16 questions.
            Most of the 26 are not LongMemEval's: their carrier wrote them.
Example:    conversation oracle-02a9a9ffce
            question     What time do I wake up on Tuesdays and Thursdays?
            answer       6:45 AM
            category     temporal-reasoning
Metric:     the paper's is a yes or no of GPT-4o: ``compare="judge"`` asks whatever model is
            named (:mod:`evaluators.llm_judge`). The default needs none: token F1, and for
            questions without an answer whether the reply says so (:mod:`evaluators.memory_qa`).
            A preference question has a rubric instead of an answer, which F1 does not judge.
Program:    ``write_query`` → BM25 over the turns (k = 6) → ``answer_question``.
Deviations: no key expansion, no time-aware search, no note-taking before the answer. Evidence
            is counted by session. Parts are disjoint by history: a question and its twin
            without an answer belong together. Histories and sessions are renamed, because the
            data's ids tell which question has no answer and which session holds one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.types import Benchmark
from programs._conversations import (
    Conversations,
    ConversationSearch,
    MemoryQA,
    Turn,
    judge_for,
    question_alone,
    question_family,
)
from programs._files import Data, find_folder, predictions_by_id, read_json, read_jsonl, read_text
from programs._splits import checked_limit, part_of

__all__ = [
    "BENCHMARK",
    "SIZES",
    "category",
    "conversation",
    "evaluator",
    "key",
    "load",
    "program",
    "read_predictions",
]

SIZES = (150, 100, 250)
"""Histories for construction, selection and test."""

PASSAGES = 6
"""Turns a search."""

# The official files first; the others are read one after the other.
_FILES = {
    "s": (
        ("longmemeval_s_cleaned.json", "longmemeval_s.json"),
        ("longmemeval_s_3rows.json", "longmemeval_abstain_sample.json"),
    ),
    "oracle": (("longmemeval_oracle.json",), ("longmemeval_oracle_sample.json",)),
    "m": (("longmemeval_m_cleaned.json", "longmemeval_m.json"), ()),
}
_GET_IT = (
    "Get it with: hf download xiaowu0162/longmemeval-cleaned {file} --repo-type dataset "
    "--local-dir data/longmemeval; pass the folder as --data, or set DRPG_DATA to it."
)
_PREFERENCE = "single-session-preference"

category = question_family
key = question_alone


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "stream",
    limit: int | None = None,
    variant: str = "s",
    show_category: bool = False,
    sizes: Sequence[int] = SIZES,
    seed: int = 1,
) -> list[dspy.Example]:
    """Read questions in the order of their file.

    Args:
        data: The folder of the files, or one that holds it as ``longmemeval``; ``None`` = look
            in ``$DRPG_DATA``, ``../shared/data`` and ``data``.
        split: ``"stream"`` (all), ``"construction"``, ``"selection"`` or ``"test"``: parts that
            share no history.
        limit: Keep the first so many.
        variant: ``"s"``, ``"oracle"`` or ``"m"``: how much there is to search.
        show_category: Make the question's type an input, as NLPG's routes have it. For a
            question without an answer it is the type of its twin, as in the official files;
            where the data calls it ``"abstention"`` it is left empty.
        sizes: Histories in the three parts. Fewer are shared out in proportion, with a warning.
        seed: Another one draws other parts.

    Returns:
        Examples with the inputs ``conversation`` (its name), ``question`` and ``asked_on`` (the
        day, may be empty), the labels ``answer``, ``abstain``, ``rubric`` and ``evidence`` (ids
        of sessions, where the data has them), and ``category`` (the type), ``group`` (the
        history) and ``id``.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: A wrong argument, or a row that cannot be used; the message names it.
    """
    limit = checked_limit(limit)
    inputs = ["conversation", "question", "asked_on", *(["category"] if show_category else [])]
    examples: dict[str, dspy.Example] = {}
    for row, where in _rows(data, variant):
        name, sessions = _keep(row, variant, where)
        for example in _examples(row, name, sessions, where):
            if example.id in examples:
                raise ValueError(f"{where}: the id {example.id!r} comes twice.")
            if show_category and example.category == "abstention":
                example.category = ""
            examples[example.id] = example.with_inputs(*inputs)
    return part_of(list(examples.values()), split, sizes, seed=seed, what="histories")[:limit]


def conversation(name: str) -> tuple[Turn, ...]:
    """Return the turns of a history that was loaded, or lies in the usual places.

    Raises:
        BenchmarkDataMissing: It is not there.
        ValueError: There is no history of this name.
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
        compare: ``"f1"``, ``"exact"``, or ``"judge"`` for a language model.
        options: Passed on to :class:`evaluators.memory_qa.MemoryAnswer` or
            :class:`evaluators.llm_judge.LMJudge`.
    """
    return judge_for(compare, options)


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted answers in either of two forms, in any order.

    * the authors' one, JSON lines ``{"question_id": …, "hypothesis": …}``; ids that are no
      example's are left alone, as the official script does;
    * JSON lines ``{"id": …, "prediction": …}``.

    An example without a prediction gets none, which is wrong.

    Raises:
        ValueError: The file cannot be read or has neither form, or no id is an example's.
    """
    if '"hypothesis"' not in read_text(path):
        return predictions_by_id(path, examples, "answer")
    said = {str(row.get("question_id")): row.get("hypothesis") for row in read_jsonl(Path(path))}
    if examples and said.keys().isdisjoint(example.id for example in examples):
        raise ValueError(
            f"{path}: none of its {len(said)} answers is to one of the {len(examples)} questions, "
            f"whose ids are like {examples[0].id!r}. Is it for another variant?"
        )
    return [dspy.Prediction(answer=said.get(example.id)) for example in examples]


BENCHMARK = Benchmark(
    name="longmemeval",
    title="LongMemEval: questions about months of chats with an assistant",
    paper="Wu et al., ICLR 2025",
    licence="MIT",
    metric="token F1",
    k=4,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    category=category,
    compares=("f1", "exact", "judge"),
    read_predictions=read_predictions,
)
"""All of it, for ``drpg run longmemeval``."""


def _rows(data: Data, variant: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    if variant not in _FILES:
        raise ValueError(f"variant must be one of {', '.join(_FILES)}; got {variant!r}.")
    official, parts = _FILES[variant]
    folder = find_folder(
        data,
        "longmemeval",
        (*official, *parts),
        title="LongMemEval",
        get_it=_GET_IT.format(file=official[0]),
        what=f" (variant {variant!r})",
    )
    whole = [folder / name for name in official if (folder / name).is_file()]
    for path in whole[:1] or [folder / name for name in parts if (folder / name).is_file()]:
        rows = read_json(path)
        rows = rows.get("data") if isinstance(rows, Mapping) else rows
        if not isinstance(rows, list):
            raise ValueError(f"{path} must hold a list of questions.")
        for number, row in enumerate(rows, 1):
            where = f"{path}, row {number}"
            if not isinstance(row, Mapping):
                raise ValueError(f"{where}: expected an object, got {str(row)[:80]!r}.")
            yield row, where


def _keep(row: Mapping[str, Any], variant: str, where: str) -> tuple[str, dict[str, str]]:
    """Keep a history for the program; return its name, and new names of its sessions by old."""
    turns = list(_turns(row, where))
    if not turns:
        raise ValueError(f"{where}: the history has no turns.")
    # Sessions in their order in time: the oracle file has them in another.
    turns.sort(key=lambda turn: turn.date)
    sessions: dict[str, str] = {}
    for turn in turns:
        sessions.setdefault(turn.session, f"session {len(sessions) + 1}")
    own = hashlib.blake2b(_own_id(row, where).encode(), digest_size=5).hexdigest()
    name = f"{variant}-{own}"
    _conversations.put(
        name,
        (
            dataclasses.replace(turn, id=sessions[turn.session], session=sessions[turn.session])
            for turn in turns
        ),
    )
    return name, sessions


def _turns(row: Mapping[str, Any], where: str) -> Iterator[Turn]:
    if "conversation" in row:  # reshaped: one list of turns, each with its date
        for turn in _checked(row["conversation"], f"{where}: conversation"):
            yield _turn(turn, str(turn.get("date", "")), str(turn.get("date", "")), where)
        return
    names = ("haystack_sessions", "haystack_dates", "haystack_session_ids")
    columns = [_checked(row.get(name), f"{where}: {name}") for name in names]
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"{where}: {', '.join(names)} differ in length.")
    for session, date, name in zip(*columns, strict=True):
        for turn in _checked(session, f"{where}: haystack_sessions"):
            yield _turn(turn, str(date), str(name), where)


def _turn(turn: Any, date: str, session: str, where: str) -> Turn:
    good = isinstance(turn, Mapping) and all(
        isinstance(turn.get(name), str) for name in ("role", "content")
    )
    if not good:
        raise ValueError(f"{where}: a turn needs role and content, got {str(turn)[:80]!r}.")
    return Turn(session, session, date, turn["role"], turn["content"])


def _examples(
    row: Mapping[str, Any], name: str, sessions: Mapping[str, str], where: str
) -> Iterator[dspy.Example]:
    own = _own_id(row, where)
    kind = str(row.get("question_type", ""))
    for ending, question, answer, extra in _questions(row, where):
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"{where}: question must be a text, got {question!r}.")
        if not str(answer).strip() or answer is None:
            raise ValueError(f"{where}: answer must not be empty, got {answer!r}.")
        abstain = own.endswith("_abs") or bool(extra.get("is_abstention"))
        yield dspy.Example(
            id=f"{own}{ending}",
            group=own.rpartition("-")[2].removesuffix("_abs"),
            conversation=name,
            question=question.strip(),
            asked_on=str(row.get("question_date") or ""),
            answer=str(answer).strip(),
            abstain=abstain,
            rubric=kind == _PREFERENCE and not abstain,
            evidence=[sessions.get(str(old), str(old)) for old in extra.get("evidence") or []],
            category=kind,
        )


def _questions(
    row: Mapping[str, Any], where: str
) -> Iterator[tuple[str, Any, Any, Mapping[str, Any]]]:
    """Yield the ending of the id, question, answer and the rest, for each form of a row."""
    sessions = row.get("answer_session_ids")
    if "question" in row:
        yield "", row["question"], row.get("answer"), {"evidence": sessions}
        return
    questions = _checked(row.get("questions"), f"{where}: questions")
    if all(isinstance(item, Mapping) for item in questions):
        for item in questions:
            yield f"-{item.get('id')}", item.get("question"), item.get("answer"), item
        return
    answers = _checked(row.get("answers"), f"{where}: answers")
    evidence = sessions if isinstance(sessions, list) else [[]] * len(questions)
    if not len(questions) == len(answers) == len(evidence):
        raise ValueError(f"{where}: questions, answers and answer_session_ids differ in length.")
    for number, (question, answer, ids) in enumerate(
        zip(questions, answers, evidence, strict=True), 1
    ):
        yield f"-{number}", question, answer, {"evidence": ids}


def _own_id(row: Mapping[str, Any], where: str) -> str:
    own = row.get("question_id", row.get("id"))
    if not isinstance(own, str) or not own.strip():
        raise ValueError(f"{where}: question_id must be a text, got {own!r}.")
    return own


def _checked(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list, got {str(value)[:80]!r}.")
    return value


def _read_all() -> None:
    found = 0
    missing: Exception | None = None
    for variant in _FILES:
        try:
            for row, where in _rows(None, variant):
                _keep(row, variant, where)
                found += 1
        except BenchmarkDataMissing as error:
            missing = error
    if missing is not None and not found:
        raise missing


_conversations = Conversations("LongMemEval", _read_all)
