"""HaluMem: questions about a user's chats, asked as the chats go on.

Paper:      Chen et al., "HaluMem: Evaluating Hallucinations in Memory Systems of Agents", 2025
            (arXiv 2511.03506). As a program of several modules: Liu et al., "NLPG", 2026.
Licence:    CC BY-NC-ND 4.0 (data and toolkit): for evaluation only.
Source:     ``IAAR-Shanghai/HaluMem`` on the Hugging Face hub: ``HaluMem-Medium.jsonl`` and
            ``HaluMem-Long.jsonl``, one user a line: ``{uuid, persona_info, sessions}``; a session
            is ``{start_time, end_time, dialogue, memory_points, questions, …}``, a turn ``{role,
            content, timestamp, dialogue_turn}``, a memory point ``{index, memory_content,
            memory_type, memory_source, is_update, original_memories, importance, timestamp}``, a
            question ``{question, answer, evidence: [{memory_content, memory_type}], difficulty,
            question_type}``.
Sizes:      20 users, 3,467 questions; about 70 sessions a user (Medium) or 120 (Long). Six types:
            Basic Fact Recall, Dynamic Update, Multi-hop Inference, Generalization & Application,
            Memory Conflict, Memory Boundary. NLPG tests on 164 questions of users that nothing
            was learned from.
Example:    question What type of new physical activity might Martin be interested in trying after
                     April 10, 2026?
            answer   Other extreme sports.
            category Generalization & Application
Metric:     the paper's is a verdict of GPT-4o: correct, hallucination or omission;
            ``compare="judge"`` asks whatever model is named for these three
            (:mod:`evaluators.llm_judge`). The default needs none: token F1, and for Memory
            Boundary questions whose gold answer says that it is not known, whether the reply
            says so too (:mod:`evaluators.memory_qa`).
Program:    ``write_query`` → BM25 over the turns so far (k = 10) → ``answer_question``. Of the
            paper's three tasks this is the last; extraction and update of memories are not done.
Deviations: no memory system: the turns themselves are searched. A question sees the sessions up
            to and including the one it stands in, as in the authors' scripts. Evidence is
            counted by session: those whose memory points hold the evidence's words.
Unsure:     **Never run on the real files**, which are not on this machine. The form above was read
            from the authors' README and from their scripts that write and read the files
            (MemTensor/HaluMem: ``scripts/stage6_2_final_result_medium.py``,
            ``eval/eval_memos.py``, ``eval/evaluation.py``), and is tried on rows written for
            this project. How the answers to Memory Boundary questions are worded was not seen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.types import Benchmark
from evaluators.llm_judge import OUTCOMES
from evaluators.memory_qa import abstains
from programs._conversations import (
    Conversations,
    ConversationSearch,
    MemoryQA,
    Turn,
    judge_for,
    question_alone,
    question_family,
)
from programs._files import Data, find_file, predictions_by_id, text_lines
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

SIZES = (8, 4, 8)
"""Users for construction, selection and test."""

PASSAGES = 10
"""Turns a search."""

BOUNDARY = "Memory Boundary"
"""The type of questions about what was never said."""

_FILES = {
    "medium": ("HaluMem-Medium.jsonl", "HaluMem-medium.jsonl"),
    "long": ("HaluMem-Long.jsonl", "HaluMem-long.jsonl"),
}
_GET_IT = (
    "Get it with: hf download IAAR-Shanghai/HaluMem {file} --repo-type dataset --local-dir "
    "data/halumem; pass the folder as --data, or set DRPG_DATA to it."
)

category = question_family
key = question_alone


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "stream",
    limit: int | None = None,
    variant: str = "medium",
    show_category: bool = False,
    sizes: Sequence[int] = SIZES,
    seed: int = 1,
) -> list[dspy.Example]:
    """Read questions user by user, in the order in which they are asked.

    Args:
        data: The folder of the files, or one that holds it as ``halumem``; ``None`` = look in
            ``$DRPG_DATA``, ``../shared/data`` and ``data``.
        split: ``"stream"`` (all), ``"construction"``, ``"selection"`` or ``"test"``: parts that
            share no user.
        limit: Keep the first so many.
        variant: ``"medium"`` or ``"long"``.
        show_category: Make the question's type an input. NLPG's routes infer a family from the
            question instead (:func:`category`); ``"Memory Boundary"`` gives the answer away, so
            it is left empty.
        sizes: Users in the three parts. Fewer are shared out in proportion, with a warning.
        seed: Another one draws other parts.

    Returns:
        Examples with the inputs ``conversation`` (the user and how many sessions there were),
        ``question`` and ``asked_on`` (when the last session ended), the labels ``answer``,
        ``abstain`` and ``evidence`` (sessions), and ``category``, ``difficulty``, ``group`` (the
        user) and ``id`` such as ``"UUID-3-1"`` (session and question, from 1).

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: A wrong argument, or a row that cannot be used; the message names it.
    """
    limit = checked_limit(limit)
    inputs = ["conversation", "question", "asked_on", *(["category"] if show_category else [])]
    examples = []
    for user, where in _users(data, variant):
        for example in _examples(user, variant, where):
            if show_category and example.category == BOUNDARY:
                example.category = ""
            examples.append(example.with_inputs(*inputs))
        if split == "stream" and limit is not None and len(examples) >= limit:
            break
    return part_of(examples, split, sizes, seed=seed, what="users")[:limit]


def conversation(name: str) -> tuple[Turn, ...]:
    """Return the turns so far of a user that was loaded, or lies in the usual places.

    Raises:
        BenchmarkDataMissing: It is not there.
        ValueError: There is no user, or no question after so many sessions.
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
    return judge_for(compare, options, OUTCOMES)


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read JSON lines ``{"id": …, "prediction": …}`` in any order.

    An example without a prediction gets none, which is wrong.

    Raises:
        ValueError: The file cannot be read, a line has not this form, or an id is unknown or
            comes twice.
    """
    return predictions_by_id(path, examples, "answer")


BENCHMARK = Benchmark(
    name="halumem",
    title="HaluMem: questions about a user's chats as they go on",
    paper="Chen et al., 2025",
    licence="CC BY-NC-ND 4.0",
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
"""All of it, for ``drpg run halumem``."""


def _users(data: Data, variant: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield users one by one: the long file need not fit into memory."""
    if variant not in _FILES:
        raise ValueError(f"variant must be one of {', '.join(_FILES)}; got {variant!r}.")
    get_it = _GET_IT.format(file=_FILES[variant][0])
    path: Path = find_file(
        data, "halumem", _FILES[variant], title=f"HaluMem ({variant})", get_it=get_it
    )
    seen: set[str] = set()
    with path.open("rb") as raw, text_lines(path, raw) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                user = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{where}: no JSON: {error}.") from error
            name = user.get("uuid") if isinstance(user, Mapping) else None
            if not isinstance(name, str) or not isinstance(user.get("sessions"), list):
                raise ValueError(f"{where}: expected an object with uuid and sessions.")
            if name in seen:
                raise ValueError(f"{where}: the uuid {name!r} comes twice.")
            seen.add(name)
            yield user, where


def _examples(user: Mapping[str, Any], variant: str, where: str) -> Iterator[dspy.Example]:
    """Yield a user's questions, and keep for the program what was said before each."""
    turns: list[Turn] = []
    sessions_of: dict[str, list[str]] = {}
    for number, session in enumerate(user["sessions"], 1):
        place = f"{where}, session {number}"
        if not isinstance(session, Mapping):
            raise ValueError(f"{place}: expected an object, got {str(session)[:80]!r}.")
        turns.extend(_turns(session, number, place))
        for point in session.get("memory_points") or ():
            content = str(point.get("memory_content", "")) if isinstance(point, Mapping) else ""
            sessions_of.setdefault(content, []).append(_session(number))
        questions = session.get("questions") or []
        if not questions:
            continue
        if not turns:
            raise ValueError(f"{place}: a question comes before anything was said.")
        name = f"{variant}-{user['uuid']}@{number}"
        _conversations.put(name, turns)
        for index, row in enumerate(questions, 1):
            example = _example(row, sessions_of, f"{place}, question {index}")
            example.id = f"{user['uuid']}-{number}-{index}"
            example.group = user["uuid"]
            example.conversation = name
            example.asked_on = str(session.get("end_time") or session.get("start_time") or "")
            yield example


def _turns(session: Mapping[str, Any], number: int, where: str) -> Iterator[Turn]:
    for turn in session.get("dialogue") or ():
        good = isinstance(turn, Mapping) and all(
            isinstance(turn.get(name), str) for name in ("role", "content")
        )
        if not good:
            raise ValueError(f"{where}: a turn needs role and content, got {str(turn)[:80]!r}.")
        date = str(turn.get("timestamp") or session.get("start_time") or "")
        name = _session(number)
        yield Turn(name, name, date, turn["role"], turn["content"])


def _example(row: Any, sessions_of: Mapping[str, list[str]], where: str) -> dspy.Example:
    fields = row if isinstance(row, Mapping) else {}
    for name in ("question", "answer"):
        if not isinstance(fields.get(name), str) or not fields[name].strip():
            raise ValueError(f"{where}: {name} must be a text, got {fields.get(name)!r}.")
    named = [item for item in fields.get("evidence") or () if isinstance(item, Mapping)]
    kind = str(fields.get("question_type", ""))
    sessions = (s for item in named for s in sessions_of.get(str(item.get("memory_content")), ()))
    return dspy.Example(
        question=fields["question"].strip(),
        answer=fields["answer"].strip(),
        abstain=kind == BOUNDARY and abstains(fields["answer"]),
        evidence=list(dict.fromkeys(sessions)),
        category=kind,
        difficulty=str(fields.get("difficulty", "")),
    )


def _session(number: int) -> str:
    return f"session {number}"


def _read_all() -> None:
    missing: list[BenchmarkDataMissing] = []
    for variant in _FILES:
        try:
            for user, where in _users(None, variant):
                for _ in _examples(user, variant, where):
                    pass
        except BenchmarkDataMissing as error:
            missing.append(error)
    if len(missing) == len(_FILES):
        raise missing[0]


_conversations = Conversations("HaluMem", _read_all)
