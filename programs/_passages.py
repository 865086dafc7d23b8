"""The paragraphs that multi-hop programs search, and how a program is given another corpus.

A passage is a text ``Title | text``, the form of DSPy's own Wikipedia servers. The corpus here
is ``wiki_corpus/wiki_paragraphs.jsonl`` (``{"title", "text"}`` a line), or where that is missing
the context paragraphs of HotpotQA's official dev file. It is looked for in the folder that a
loader was last given (or beside it), then in ``$DRPG_DATA``, ``../shared/data`` and ``data``.
"""

from __future__ import annotations

import functools
import itertools
import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.retrieval import BM25Retriever, Retriever, passages_of
from programs._files import Data, find_file, read_json, read_jsonl

__all__ = [
    "CorpusSearch",
    "corpus_titles",
    "index_folder",
    "note_place",
    "read_corpus",
    "read_corpus_here",
    "search",
    "title_key",
    "title_of",
]

SEPARATOR = " | "
_FILE = "wiki_paragraphs.jsonl"
_HOTPOTQA = ("hotpot_dev_distractor_v1.json", "hotpot_dev_distractor_v1.jsonl")
_GET_IT = (
    "Get one with: curl --create-dirs --output-dir data/hotpotqa -O "
    "http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_dev_distractor_v1.json, whose context "
    'paragraphs are then the corpus, or write {"title": …, "text": …} lines into '
    f"data/wiki_corpus/{_FILE}; a retriever of your own goes into the program: "
    "program(retriever=…)."
)

_last_given: Path | None = None


class CorpusSearch:
    """BM25 over the corpus that is on this machine, read when it is first asked.

    Args:
        k: Passages a query.
    """

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def __call__(self, query: str) -> Any:
        """Return the passages for a query.

        Raises:
            BenchmarkDataMissing: There is no corpus; the message says what gets one.
        """
        return _index(*_corpus_file())(query, self.k)

    def __repr__(self) -> str:
        return f"CorpusSearch(k={self.k})"


def search(retriever: Retriever, query: str) -> list[str]:
    """Return what a retriever finds for a query, on one line each; nothing for an empty one."""
    flat = " ".join(str(query).split())
    return [" ".join(text.split()) for text in passages_of(retriever(flat))] if flat else []


def title_of(passage: str) -> str:
    """Return the title of a passage."""
    return passage.partition(SEPARATOR)[0].strip()


def title_key(title: str) -> str:
    """Return a title as titles are compared: in one Unicode form, blanks for underscores."""
    return " ".join(unicodedata.normalize("NFC", title).replace("_", " ").split())


def note_place(data: Data) -> None:
    """Let programs of this process look for the corpus where a loader was given its data."""
    global _last_given
    _last_given = None if data is None else Path(data)


def corpus_titles() -> frozenset[str]:
    """Return the titles of the corpus, as :func:`title_key` gives them.

    Raises:
        BenchmarkDataMissing: There is no corpus.
    """
    return _titles(*_corpus_file())


def read_corpus_here() -> tuple[str, ...]:
    """Return the passages of the corpus that is on this machine.

    Raises:
        BenchmarkDataMissing: There is none.
    """
    return read_corpus(*_corpus_file())


@functools.lru_cache(maxsize=2)
def read_corpus(path: Path, stamp: tuple[int, int]) -> tuple[str, ...]:
    """Return the passages of a corpus file, each title once.

    Args:
        path: ``wiki_paragraphs.jsonl``, or HotpotQA's dev file.
        stamp: Its size and modification time: a changed file is read again.

    Raises:
        ValueError: A line cannot be used; the message names it.
    """
    found: dict[str, str] = {}
    for title, text in _paragraphs(path):
        found.setdefault(title_key(title), f"{title}{SEPARATOR}{text}")
    if not found:
        raise ValueError(f"{path} holds no paragraph.")
    return tuple(found.values())


def index_folder() -> Path:
    """Return where indices are kept: ``$DRPG_HOME/passages``, or the user's cache."""
    home = os.environ.get("DRPG_HOME") or platformdirs.user_cache_dir("drpg-dspy", False)
    return Path(home).expanduser() / "passages"


@functools.lru_cache(maxsize=2)
def _titles(path: Path, stamp: tuple[int, int]) -> frozenset[str]:
    return frozenset(title_key(title_of(passage)) for passage in read_corpus(path, stamp))


@functools.lru_cache(maxsize=2)
def _index(path: Path, stamp: tuple[int, int]) -> BM25Retriever:
    return BM25Retriever(read_corpus(path, stamp), cache=index_folder())


def _corpus_file() -> tuple[Path, tuple[int, int]]:
    given = [_last_given, _last_given.parent] if _last_given is not None else []
    kinds = (("wiki_corpus", (_FILE,)), ("hotpotqa", _HOTPOTQA))
    for places in (given, [None]):
        for (name, wanted), place in itertools.product(kinds, places):
            try:
                path = find_file(place, name, wanted, title="", get_it="").resolve()
            except BenchmarkDataMissing:
                continue
            stat = path.stat()
            return path, (stat.st_size, stat.st_mtime_ns)
    looked = "".join(f"{place}, " for place in given)
    raise BenchmarkDataMissing(
        f"There is no corpus to search on this machine: no wiki_corpus/{_FILE} and no "
        f"hotpotqa/{_HOTPOTQA[0]} in {looked}$DRPG_DATA, ../shared/data or data. {_GET_IT}"
    )


def _paragraphs(path: Path) -> Iterator[tuple[str, str]]:
    rows = read_json(path) if path.suffix == ".json" else read_jsonl(path)
    for number, row in enumerate(rows, 1):
        where = f"{path}, row {number}"
        if path.name != _FILE:
            for title, sentences in _context(row, where):
                yield title, " ".join("".join(sentences).split())
            continue
        title, text = row.get("title"), row.get("text")
        if not isinstance(title, str) or not isinstance(text, str) or not title.strip():
            raise ValueError(f"{where}: title and text must be texts, got {str(row)[:80]!r}.")
        yield title.strip(), " ".join(text.split())


def _context(row: Any, where: str) -> list[tuple[str, list[str]]]:
    pairs = row.get("context") if isinstance(row, Mapping) else None
    try:
        return [(str(title).strip(), [str(s) for s in sentences]) for title, sentences in pairs]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: context must hold pairs of title and sentences.") from error
