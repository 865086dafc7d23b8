"""Searching a conversation, and telling questions apart by their words."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from drpg_dspy.retrieval import DenseRetriever, HashingEmbedder
from programs import locomo
from programs._conversations import (
    ConversationSearch,
    Turn,
    each_session,
    each_turn,
    question_family,
)

TURNS = (
    Turn("D1:1", "1", "8 May", "Ann", "My dog Rex\nis old."),
    Turn("D1:2", "1", "8 May", "Ben", "Nice."),
    Turn("D2:1", "2", "9 May", "Ann", "Rex and Tom are dogs. Rex, Rex!"),
)


def test_passages_are_turns_or_sittings_and_come_in_the_order_of_time() -> None:
    assert each_turn(TURNS)[0].text == "[8 May] Ann: My dog Rex is old."
    sittings = each_session(TURNS)
    assert [p.ids for p in sittings] == [("D1:1", "D1:2"), ("D2:1",)]
    assert sittings[0].text == "[8 May] Ann: My dog Rex is old. / Ben: Nice."
    search = ConversationSearch(lambda name: TURNS, 5)
    assert [p.ids for p in search("c", "Rex dogs Tom")] == [("D1:1",), ("D2:1",)]


def test_where_the_query_finds_nothing_the_question_is_asked() -> None:
    search = ConversationSearch(lambda name: TURNS, 5)
    assert search("c", "xylophone") == []
    assert [p.ids for p in search("c", "xylophone", other="nice")] == [("D1:2",)]
    assert search("c", "  ", other="") == []


def test_another_retriever_and_another_cut_take_their_place() -> None:
    def dense(texts: Any) -> Any:
        return DenseRetriever(texts, HashingEmbedder(), k=1)

    search = ConversationSearch(lambda name: TURNS, 5, make=dense, cut=each_session)
    (found,) = search("c", "Rex and Tom are dogs")
    assert found.ids == ("D2:1",)
    strange = ConversationSearch(lambda name: TURNS, 5, make=lambda texts: lambda q: ["a note"])
    assert strange("c", "x")[0].ids == ()


def test_an_index_is_made_once_and_anew_for_a_conversation_loaded_anew() -> None:
    made: list[int] = []
    turns = {"c": TURNS}

    def make(texts: Any) -> Any:
        made.append(len(texts))
        return lambda query: texts

    search = ConversationSearch(lambda name: turns[name], 5, make=make)
    for _ in range(3):
        search("c", "x")
    assert made == [3]
    turns["c"] = TURNS[:1]
    search("c", "x")
    assert made == [3, 1]
    for n in range(40):
        turns[f"c{n}"] = TURNS
        search(f"c{n}", "x")
    search("c", "x")
    assert made[-1] == 1


def test_a_copied_program_shares_its_indices_and_a_pickled_one_has_none() -> None:
    program = locomo.program()
    assert program.deepcopy().search is program.search
    again = pickle.loads(pickle.dumps(program.search))
    assert (again.k, again.lookup) == (program.search.k, locomo.conversation)
    assert len(pickle.dumps(program.search)) < 2000


@pytest.mark.parametrize(
    ("question", "family"),
    [
        ("When did Ann move?", "time"),
        ("How many days passed between them?", "time"),
        ("How many cats has she?", "count"),
        ("Can you recommend a film?", "preference"),
        ("Did Ann move?", "yes or no"),
        ("What might she study?", "inference"),
        ("Who is Ann's friend?", "person"),
        ("What kinds of art does she make?", "list"),
        ("What is the dog called?", "fact"),
        ("", "fact"),
    ],
)
def test_the_family_of_a_question_is_guessed_from_its_words(question: str, family: str) -> None:
    assert question_family({"question": question}) == family
    assert question_family({"question": question, "category": "temporal"}) == "temporal"
