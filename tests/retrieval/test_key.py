from __future__ import annotations

import dspy
import pytest

from drpg_dspy.exceptions import StorageError
from drpg_dspy.retrieval.key import default_key

SCHEMA = "CREATE TABLE t (x INT);\n" * 200


@pytest.mark.parametrize(
    ("inputs", "key"),
    [
        ({"db_schema": SCHEMA, "question": "How many?"}, "How many?"),
        ({"question": "q", "query": "other"}, "q"),
        ({"query": "other", "question": " q\n"}, "q"),
        ({"context": "c", "user_question": "q"}, "q"),
        ({"Question": "q", "context": "c"}, "q"),
        ({"question": "  ", "query": "q"}, "q"),
        ({"question": ["a", "list"], "text": "t"}, "t"),
        ({"first": "bread", "second": "butter"}, "bread\nbutter"),
        ({"document": SCHEMA, "title": "short"}, "short"),
        ({"document": SCHEMA, "other": SCHEMA + "longer"}, SCHEMA.strip()),
        ({"n": 3, "items": [1, 2]}, '{"items":[1,2],"n":3}'),
        ({}, ""),
    ],
)
def test_the_question_stands_for_the_inputs(inputs: dict[str, object], key: str) -> None:
    assert default_key(inputs) == key


def test_inputs_that_have_no_plain_form_are_refused() -> None:
    with pytest.raises(StorageError, match="handle"):
        default_key({"handle": object()})


def test_the_data_of_an_image_stands_in_a_key_as_a_digest_only() -> None:
    image = dspy.Image("data:image/png;base64," + "aGVsbG8h" * 1000)
    other = dspy.Image("data:image/png;base64," + "aGVsbG8/" * 1000)
    key = default_key({"photo": image})

    assert len(key) < 100
    assert key == default_key({"photo": image}) != default_key({"photo": other})
