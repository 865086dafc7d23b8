"""Where benchmarks find their data, and how files of predictions are read."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing

__all__ = [
    "Data",
    "answers_by_id",
    "find_file",
    "find_folder",
    "folders",
    "lines_in_order",
    "predictions_by_id",
    "read_json",
    "read_jsonl",
    "read_text",
    "text_lines",
]

Data = str | os.PathLike[str] | None
"""A folder; ``None`` = look in the usual places."""

_PLACES = ("../shared/data", "data")


def folders(data: Data, name: str) -> Iterator[Path]:
    """Yield the folders in which a benchmark may lie, whether they exist or not.

    The folder given, or else ``$DRPG_DATA``, ``../shared/data`` and ``data``: each may be the
    benchmark's own folder or hold it under its name, or under the name that it has when it is
    unpacked: ``spider_data``, ``cosql_dataset``.
    """
    for place in _places(data):
        yield Path(place)
        yield from (Path(place, f"{name}{end}") for end in ("", "_data", "_dataset"))


def find_folder(
    data: Data, name: str, wanted: Sequence[str], *, title: str, get_it: str, what: str = ""
) -> Path:
    """Return the first of :func:`folders` that holds at least one of the wanted files.

    Args:
        data: The folder given.
        name: The benchmark's name.
        wanted: Relative paths of files.
        title: The data set's name, for the message.
        get_it: The sentence that says how to get it.
        what: The part that is looked for, e.g. ``" (test split)"``.

    Raises:
        BenchmarkDataMissing: It is nowhere; the message says where it was looked for.
        ValueError: What was given is a file.
    """
    for folder in folders(data, name):
        if any((folder / file).is_file() for file in wanted):
            return folder
    if data is not None and Path(data).is_file():
        raise ValueError(f"{data} is a file: pass the folder of {title} in which it lies as data.")
    looked = ", ".join(str(place) for place in _places(data))
    raise BenchmarkDataMissing(
        f"{title}{what} is not on this machine: no {' or '.join(wanted)} in {looked}, nor in a "
        f"folder {name} there. {get_it}"
    )


def find_file(
    data: Data, name: str, wanted: Sequence[str], *, title: str, get_it: str, what: str = ""
) -> Path:
    """Return the first wanted file of the folder that :func:`find_folder` finds.

    Raises:
        BenchmarkDataMissing: It is nowhere; the message says where it was looked for.
    """
    folder = find_folder(data, name, wanted, title=title, get_it=get_it, what=what)
    return next(path for path in (folder / file for file in wanted) if path.is_file())


def read_json(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        ValueError: It cannot be read, or not as JSON; the message names the file.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}.") from error


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines; empty lines are skipped.

    Raises:
        ValueError: A line is no JSON object; the message names the file and the line.
    """
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            rows.append(_object(path, number, line))
    return rows


def read_text(path: str | os.PathLike[str]) -> str:
    """Return a file's text, read as UTF-8; a byte order mark is left out, line ends are ``\\n``.

    Raises:
        ValueError: It cannot be read, or is no UTF-8: the message names the file, the likely
            encoding and the command that converts it. A guess would make wrong answers of
            right ones.
    """
    try:
        with open(path, "rb") as raw, text_lines(path, raw) as lines:
            return lines.read()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def text_lines(
    path: str | os.PathLike[str], raw: IO[bytes], *, newline: str | None = None
) -> Iterator[io.TextIOBase]:
    """Lend the text of an open file, plain or unpacked, to be read line by line as UTF-8.

    Args:
        path: Its name, for messages.
        raw: Its bytes.
        newline: As for :func:`open`.

    Raises:
        ValueError: It is no UTF-8, as for :func:`read_text`; found where it is read.
    """
    checked = _Checked(path, raw)
    with io.TextIOWrapper(io.BufferedReader(checked), "utf-8-sig", newline=newline) as lines:
        try:
            yield lines
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise _other_encoding(path, "latin-1", f"it holds the byte 0x{byte:02X}") from error


class _Checked(io.RawIOBase):
    """Bytes of a file; refuses what is UTF-16 at its beginning, with a byte order mark or not."""

    def __init__(self, path: str | os.PathLike[str], raw: IO[bytes]) -> None:
        self._path = path
        self._raw = raw
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        if not self._begun:
            self._begun = True
            if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise _other_encoding(self._path, "UTF-16", "it begins with the mark of UTF-16")
            if data.count(0) > len(data) // 4:
                raise _other_encoding(self._path, "UTF-16", "many of its bytes are 0")
        buffer[: len(data)] = data
        return len(data)


def _other_encoding(path: str | os.PathLike[str], likely: str, why: str) -> ValueError:
    return ValueError(
        f"{path} is not UTF-8: {why}, so it may be {likely}. Convert it: "
        f"iconv -f {likely} -t UTF-8 {path} > {path}.utf8"
    )


def lines_in_order(path: str | os.PathLike[str], total: int, *, blocks: bool = False) -> list[str]:
    """Return one prediction for each question of the whole data set, in its order.

    Args:
        path: The file.
        total: Number of questions.
        blocks: Empty lines may set groups of questions apart. A file of ``total`` lines has
            none of these: there an empty line is an empty prediction.

    Raises:
        ValueError: The file cannot be read, or has another number of lines.
    """
    lines = [line.rstrip("\r") for line in read_text(path).split("\n")]
    if lines[-1] == "":
        lines.pop()
    if blocks and len(lines) != total:
        lines = [line for line in lines if line.strip()]
    if len(lines) != total:
        raise ValueError(
            f"{path} has {len(lines)} lines, but the data set has {total} questions. It must "
            "hold one prediction a line for every question, in the order of the data set, "
            "questions that are left out included."
        )
    return lines


def answers_by_id(
    path: str | os.PathLike[str], known: Iterable[str], *, empty: Any = ""
) -> Mapping[str, Any]:
    """Read JSON lines ``{"id": …, "prediction": …}`` in any order.

    Args:
        path: The file.
        known: The ids that may occur.
        empty: What stands for an id without a prediction; it is wrong.

    Raises:
        ValueError: The file cannot be read, a line has not this form, or an id is unknown or
            comes twice.
    """
    ids: Collection[str] = dict.fromkeys(known)
    found: dict[str, Any] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        row = _object(path, number, line)
        if "id" not in row or "prediction" not in row:
            raise ValueError(
                f'{path}, line {number}: expected {{"id": …, "prediction": …}}, got {line[:80]!r}.'
            )
        name = str(row["id"])
        if name not in ids:
            raise ValueError(f"{path}, line {number}: the data has no example {name!r}.")
        if name in found:
            raise ValueError(f"{path}, line {number}: the id {name!r} comes twice.")
        found[name] = row["prediction"]
    return {name: found.get(name, empty) for name in ids}


def predictions_by_id(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example], field: str
) -> list[dspy.Prediction]:
    """Read JSON lines ``{"id": …, "prediction": …}`` as one prediction for each example.

    Args:
        path: The file.
        examples: Whose ids may occur; one that does not gets a prediction of ``None``.
        field: The output that a prediction is.

    Raises:
        ValueError: As for :func:`answers_by_id`.
    """
    given = answers_by_id(path, [example.id for example in examples], empty=None)
    return [dspy.Prediction(**{field: given[example.id]}) for example in examples]


def _places(data: Data) -> list[str | os.PathLike[str]]:
    if data is not None:
        return [data]
    return [place for place in (os.environ.get("DRPG_DATA"), *_PLACES) if place]


def _object(path: str | os.PathLike[str], number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: no JSON: {error}.") from error
    if not isinstance(row, dict):
        raise ValueError(f"{path}, line {number}: expected an object, got {line[:80]!r}.")
    return row
