"""Files as people make them: byte order marks, other encodings, other line ends."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from programs._files import (
    answers_by_id,
    lines_in_order,
    read_json,
    read_jsonl,
    read_text,
    text_lines,
)

ROW = '{"id": "a", "prediction": "café"}'

READERS: list[tuple[Callable[[Path], Any], str, Any]] = [
    (read_text, "café\n", "café\n"),
    (read_json, ROW, {"id": "a", "prediction": "café"}),
    (read_jsonl, f"{ROW}\n\n{ROW}\n", [{"id": "a", "prediction": "café"}] * 2),
    (lambda path: lines_in_order(path, 2), "café\nSELECT 1\n", ["café", "SELECT 1"]),
    (lambda path: answers_by_id(path, ["a"]), f"{ROW}\n", {"a": "café"}),
]
NAMES = ["text", "json", "jsonl", "lines", "answers"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "predictions.txt"


@pytest.mark.parametrize(("read", "text", "found"), READERS, ids=NAMES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_byte_order_mark_and_line_ends_of_windows_are_no_content(
    file: Path, read: Callable[[Path], Any], text: str, found: Any, encoding: str, ends: str
) -> None:
    file.write_bytes(text.replace("\n", ends).encode(encoding))

    assert read(file) == found


@pytest.mark.parametrize(("read", "text", "found"), READERS, ids=NAMES)
@pytest.mark.parametrize(
    ("encoding", "likely"),
    [
        ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"), ("utf-16-be", "UTF-16"),
        ("latin-1", "latin-1"), ("cp1252", "latin-1"),
    ],
)  # fmt: skip
def test_another_encoding_is_named_with_the_command_that_converts_it(
    file: Path, read: Callable[[Path], Any], text: str, found: Any, encoding: str, likely: str
) -> None:
    file.write_bytes(text.encode(encoding))

    with pytest.raises(ValueError, match="is not UTF-8") as refused:
        read(file)
    assert str(file) in str(refused.value)
    assert f"iconv -f {likely} -t UTF-8 {file} > {file}.utf8" in str(refused.value)


def test_an_odd_byte_far_into_a_file_is_found_as_well(file: Path) -> None:
    file.write_bytes(b"SELECT 1\n" * 50_000 + b"caf\xe9\n")

    with pytest.raises(ValueError, match="it holds the byte 0xE9"):
        read_text(file)


def test_an_empty_file_has_no_lines(file: Path) -> None:
    file.write_bytes(b"")

    assert read_text(file) == ""
    assert read_jsonl(file) == []


def test_one_null_character_is_text(file: Path) -> None:
    file.write_bytes(b"SELECT '\x00'\n")

    assert read_text(file) == "SELECT '\x00'\n"


def test_a_packed_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("one\r\ntwo\n".encode("utf-8-sig")))

    with gzip.open(path, "rb") as raw, text_lines(path, raw) as lines:
        assert [line.rstrip() for line in lines] == ["one", "two"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.txt cannot be read: No such file"):
        read_text(tmp_path / "nowhere.txt")
