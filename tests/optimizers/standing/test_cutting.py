"""Answers that are too long: cut after whole sentences, or not at all."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drpg_dspy.constraints import Constraint
from drpg_dspy.constraints.measures import count_words, sentence_ends
from drpg_dspy.optimizers.standing.cutting import LEAST_OF_LIMIT, cut
from drpg_dspy.optimizers.standing.mending import MENDS, Mend
from drpg_dspy.optimizers.standing.repairing import Draft

WORDS = [Constraint("Length", "Use at most 12 words.")]
SENTENCES = [Constraint("Length", "Use at most 2 sentences.")]
PARAGRAPHS = [Constraint("Length", "Use at most 1 paragraph.")]
PROSE = "Crabs walk sideways. They have ten legs. Dr. Lee counted all of them twice in May."


def shortened(
    text: str, constraints: list[Constraint], kinds: tuple[Mend, ...] = MENDS
) -> tuple[str, dict[str, int]]:
    counts: Counter[str] = Counter()
    draft = cut(Draft.of(text, constraints), constraints, kinds, counts)
    return draft.text, dict(counts)


@pytest.mark.parametrize(
    ("constraints", "answer", "left", "sentences"),
    [
        (WORDS, PROSE, "Crabs walk sideways. They have ten legs.", 1),
        (SENTENCES, PROSE, "Crabs walk sideways. They have ten legs.", 1),
        (PARAGRAPHS, f"{PROSE}\n\nThat is all. Really.", PROSE, 2),
        (SENTENCES, "- one crab\n- two crabs\n- three crabs", "- one crab\n- two crabs", 1),
        (SENTENCES, "螃蟹横着走。它有十条腿。完。", "螃蟹横着走。它有十条腿。", 1),
        (SENTENCES, '"One." She left. He "stayed". Then', '"One." She left.', 2),
    ],
)
def test_as_few_sentences_as_it_takes_are_left_out(
    constraints: list[Constraint], answer: str, left: str, sentences: int
) -> None:
    text, counts = shortened(answer, constraints)

    assert text == left
    assert counts == {"constraint_cuts": 1, "sentences_cut": sentences}


@pytest.mark.parametrize(
    ("constraints", "answer"),
    [
        (WORDS, " ".join(["crab"] * 20)),
        (WORDS, "Sure. " + " ".join(["crab"] * 20) + "."),
        (SENTENCES, "One crab (two are claws. They pinch. Really) walks. No."),
        (SENTENCES, "# Crabs\n\n# Legs\n\nTen. Really."),
        (WORDS, "Run this:\n```\nimport crab. Then\n" + "crab " * 12 + "\n```\nDone."),
        (WORDS, "She said “walk on all of your ten legs. And pinch them today” to him."),
        (WORDS, '["Crabs walk sideways. They have ten legs.", "Each of them has two claws. Yes."]'),
        (WORDS, "| a | b |\n|---|---|\n| 1 2 3 4 5 | 6 |\n| 7 8 | 9 10 11 |"),
        (WORDS, "I'm sorry, but I can't help with that. " + " ".join(["crab"] * 9)),
        ([Constraint("Length", "Use exactly 10 words.")], PROSE),
        ([Constraint("Length", "Use at least 40 words.")], PROSE),
        ([*WORDS, Constraint("No_Commas", "Use no commas.")], f"One, two. {PROSE}"),
        ([*WORDS, Constraint("Keyword", "Mention 'May' at least once.")], PROSE),
        ([Constraint("Tone", "Be brief.")], PROSE),
        (WORDS, "Run this:\n~~~\nimport crab. Then\n" + "crab " * 12 + "\n~~~\nDone."),
        (WORDS, "Anna said 'walk on all of your ten legs. And pinch them today' to him."),
        (WORDS, "a | b\n---|---\n1 2 3 4 5. | 6\n7 8 | 9 10 11 12 13"),
        (WORDS, "<p>Crabs walk sideways. They have ten legs. " + "crab " * 9 + "</p>"),
        (WORDS, "You may eat this crab. It has ten legs. Except on Sundays, when it is poisonous."),
        (WORDS, "Five crabs have two claws each. Two times five is ten. So the answer is ten."),
        (WORDS, "Pour it out. Stir it with a long spoon for a minute. Do not heat it up."),
    ],
    ids=[
        "one sentence without an end", "hardly anything would be left", "open bracket", "headings",
        "code", "quotation", "JSON", "table", "a refusal would be left", "exactly", "too short",
        "something else is wrong", "would break another constraint", "nothing is checked",
        "other fence", "single quotes", "table without bars at its edges", "tags",
        "an exception", "the answer itself", "a warning",
    ],
)  # fmt: skip
def test_nothing_is_cut_where_that_would_not_do(constraints: list[Constraint], answer: str) -> None:
    assert shortened(answer, constraints) == (answer, {})


def test_what_an_answer_ends_with_is_put_back() -> None:
    constraints = [*WORDS, Constraint("End_With", "End the answer with the words 'Stay safe'.")]
    answer = f"{PROSE} Stay safe."

    text, counts = shortened(answer, constraints)

    assert text == "Crabs walk sideways. They have ten legs. Stay safe"
    assert counts == {"constraint_cuts": 1, "sentences_cut": 2}
    assert shortened(answer, constraints, ("length",)) == (answer, {})


def test_without_the_kind_nothing_is_cut() -> None:
    assert shortened(PROSE, WORDS, ("case", "commas", "begin", "end")) == (PROSE, {})


PIECES = st.sampled_from(
    ["crab", "legs", "Dr.", "e.g.", "3.5", ".", "!", "?", "…", "。", ":", "(", ")", '"', "**", "`",
     "\n", "\n\n", "- ", "# ", "| x |", "1. ", "risk,", "Stay safe."]
)  # fmt: skip
ANSWERS = st.lists(PIECES, max_size=40).map(" ".join)
LIMITS = st.tuples(st.sampled_from(["words", "sentences", "paragraphs"]), st.integers(1, 15))
OTHERS = st.lists(
    st.sampled_from(
        [
            Constraint("Keyword", "Mention 'crab' at least twice."),
            Constraint("No_Commas", "Use no commas."),
            Constraint("End_With", "End the answer with the words 'Stay safe'."),
            Constraint("All_Lower", "Write in lowercase."),
            Constraint("Format", "Use a bulleted list."),
        ]
    ),
    unique_by=lambda one: one.type,
    max_size=2,
)


@settings(max_examples=300, deadline=None)
@given(answer=ANSWERS, limit=LIMITS, others=OTHERS)
def test_a_cut_keeps_whole_sentences_and_every_constraint(
    answer: str, limit: tuple[str, int], others: list[Constraint]
) -> None:
    unit, most = limit
    constraints = [Constraint("Length", f"Use at most {most} {unit}."), *others]
    draft = Draft.of(answer, constraints)

    text, counts = shortened(answer, constraints)

    if text == answer:
        assert counts == {}
        return
    assert {one.id for one in constraints if one.type == "Length"} == draft.violated
    assert not Draft.of(text, constraints).violated
    prefixes = [answer[:end].rstrip() for end in sentence_ends(answer)]
    kept = [prefix for prefix in prefixes[:-1] if text == prefix or text == f"{prefix} Stay safe"]
    assert kept, (answer, text)
    assert counts["constraint_cuts"] == 1
    assert 1 <= counts["sentences_cut"] < len(prefixes)
    if unit == "words":
        assert count_words(text) >= LEAST_OF_LIMIT * most


@settings(max_examples=200, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12), most=st.integers(1, 40))
def test_plain_sentences_are_cut_at_the_longest_that_fits(lengths: list[int], most: int) -> None:
    sentences = [f"{'crab ' * (n - 1)}crab." for n in lengths]
    answer = " ".join(sentences)
    fitting = [k for k in range(1, len(lengths)) if sum(lengths[:k]) <= most]
    best = max(fitting, default=0)

    text, _ = shortened(answer, [Constraint("Length", f"Use at most {most} words.")])

    if sum(lengths) <= most or not best or sum(lengths[:best]) < LEAST_OF_LIMIT * most:
        assert text == answer
    else:
        assert text == " ".join(sentences[:best])


@settings(max_examples=200, deadline=None)
@given(answer=ANSWERS)
def test_sentence_ends_rise_and_lie_after_something_said(answer: str) -> None:
    ends = sentence_ends(answer)

    assert ends == sorted(set(ends))
    starts = [0, *ends]
    assert all(re.search(r"\w", answer[a:b]) for a, b in zip(starts, ends, strict=False))
