from __future__ import annotations

import dspy
import numpy as np
import pytest

from drpg_dspy.exceptions import StorageError
from drpg_dspy.streaming.schedule import checked_examples, fingerprint, stream_order


def example(question: object, id: object = None, **labels: object) -> dspy.Example:
    fields = {"question": question, **labels, **({} if id is None else {"id": id})}
    return dspy.Example(**fields).with_inputs("question")


def test_the_order_is_the_published_permutation() -> None:
    assert stream_order(119) == np.random.default_rng(42).permutation(119).tolist()
    assert sorted(stream_order(119, seed=7)) == list(range(119))
    assert stream_order(119, seed=7) != stream_order(119)


def test_without_a_seed_the_order_stays_as_given() -> None:
    assert stream_order(4, seed=None) == [0, 1, 2, 3]
    assert stream_order(0) == []


@pytest.mark.parametrize(("n", "seed"), [(-1, 42), (2.5, 42), (3, -1), (3, True), (3, "42")])
def test_a_wrong_length_or_seed_is_named(n: object, seed: object) -> None:
    with pytest.raises(ValueError, match="whole number"):
        stream_order(n, seed)  # type: ignore[arg-type]


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one example"):
        checked_examples([])


def test_examples_that_share_an_id_are_named() -> None:
    stream = [example("a", id=1), example("b", id="x"), example("c", id="1"), example("d", id="x")]

    with pytest.raises(ValueError, match=r"share an id: '1', 'x'"):
        checked_examples(stream)


def test_examples_without_ids_are_fine() -> None:
    assert len(checked_examples([example("a"), example("a")])) == 2


@pytest.mark.parametrize(
    "bad", [dspy.Example(question="a", id=9), dspy.Example(question="a", id=9).with_inputs()]
)
def test_an_example_that_does_not_mark_its_inputs_is_named(bad: dspy.Example) -> None:
    with pytest.raises(ValueError, match=r"Step 2 .*id 9.*with_inputs"):
        checked_examples([example("a", id=1), bad])


def test_something_that_is_no_example_is_named() -> None:
    with pytest.raises(ValueError, match="Step 1 of the stream is of type dict"):
        checked_examples([{"question": "a"}])


def test_the_fingerprint_sees_inputs_ids_and_order_but_no_labels() -> None:
    one = [example("a", id=1, gold="x"), example("b", id=2, gold="y")]

    assert fingerprint(one) == fingerprint(
        [example("a", id=1, gold="corrected"), example("b", id=2, gold="y")]
    )
    assert fingerprint(one) != fingerprint(list(reversed(one)))
    assert fingerprint(one) != fingerprint([example("a", id=1), example("b", id=3)])
    assert fingerprint(one) != fingerprint([example("a", id=1), example("c", id=2)])
    assert fingerprint([example("a"), example("b")]) != fingerprint([example("ab")])


def test_an_input_that_cannot_be_recorded_is_refused_before_anything_is_paid() -> None:
    with pytest.raises(StorageError, match=r"step 2 \(id '7'\)"):
        fingerprint([example("a", id=1), example(object(), id=7)])
