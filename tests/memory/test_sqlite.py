from __future__ import annotations

import copy
import math
import os
import pickle
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import dspy
import numpy as np
import pytest

from drpg_dspy.exceptions import EmbedderMismatch, StorageError
from drpg_dspy.memory import SQLiteMemory, schema
from drpg_dspy.retrieval.embedder import CallableEmbedder, HashingEmbedder
from drpg_dspy.testing.memory_toys import PlaneEmbedder, full_rollout, ids, plain_rollout
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule


def fill(path: Path, keys: str = "0 45 90", **options: object) -> SQLiteMemory:
    memory = SQLiteMemory(path, PlaneEmbedder(), **options)
    for key in keys.split():
        memory.record(plain_rollout(f"r{key}", key))
        memory.commit(f"r{key}", Feedback(1.0))
    return memory


def sql(path: Path, statement: str, *arguments: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(statement, arguments).fetchall()


# -- the file


def test_opening_and_reading_does_not_write(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()
    before = (path.stat().st_mtime_ns, path.read_bytes())

    for read_only in (False, True):
        with closing(SQLiteMemory(path, PlaneEmbedder(), read_only=read_only)) as memory:
            assert ids(memory.search("1", 1)) == ["r0"]
            assert memory.count() == len(memory.recent(9)) == len(list(memory.rollouts())) == 3

    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_a_file_opened_for_reading_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()

    with closing(SQLiteMemory(path, PlaneEmbedder(), read_only=True)) as memory:
        with pytest.raises(StorageError, match="read_only"):
            memory.record(plain_rollout("new"))
    with pytest.raises(StorageError, match="no readable memory"):
        SQLiteMemory(tmp_path / "missing", read_only=True)
    assert not (tmp_path / "missing").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "m.sqlite"
    fill(path).close()
    path.parent.chmod(0o500)
    try:
        assert SQLiteMemory(path, read_only=True).count() == 3
    finally:
        path.parent.chmod(0o700)


@pytest.mark.parametrize("keep", [0.0, 0.02, 0.5, -1])
def test_a_file_that_was_cut_off_is_refused_and_never_taken_for_empty(
    tmp_path: Path, keep: float
) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()
    whole = path.read_bytes()
    cut = whole[:-1] if keep < 0 else whole[: int(len(whole) * keep)]
    path.write_bytes(cut)

    with pytest.raises(StorageError, match=r"cut off|not a memory"):
        SQLiteMemory(path, PlaneEmbedder())
    assert path.read_bytes() == cut


def test_a_file_that_is_no_memory_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, foreign = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("not a database, " * 50)
    sql(foreign, "CREATE TABLE t (x)")
    before = foreign.read_bytes()

    with pytest.raises(StorageError, match="not a memory file"):
        SQLiteMemory(text)
    with pytest.raises(StorageError, match="not a memory of this library"):
        SQLiteMemory(foreign)
    assert foreign.read_bytes() == before


def test_a_damaged_page_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()
    size = 4096
    content = bytearray(path.read_bytes())
    content[size:] = b"\x5a" * (len(content) - size)  # all but the header page
    path.write_bytes(content)

    with pytest.raises(StorageError, match=r"damaged|recover"):
        SQLiteMemory(path, PlaneEmbedder()).search("1", 1)


def test_tables_of_a_newer_version_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()
    sql(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")

    with pytest.raises(StorageError, match=r"version 2.*pip install --upgrade"):
        SQLiteMemory(path)


def test_tables_of_an_older_version_are_brought_forward_when_writing_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: "ALTER TABLE meta ADD COLUMN note"})

    with pytest.raises(StorageError, match="open it once for writing"):
        SQLiteMemory(path, read_only=True)
    with closing(SQLiteMemory(path)) as memory:
        assert memory.count() == 3

    assert sql(path, "PRAGMA user_version") == [(2,)]
    assert "note" in [row[1] for row in sql(path, "PRAGMA table_info(meta)")]


def test_a_log_without_its_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    memory = fill(path)
    path.unlink()  # while its write-ahead log still holds everything

    with pytest.raises(StorageError, match="write-ahead log"):
        SQLiteMemory(path)
    memory.close()


def test_what_a_killed_process_left_in_its_log_is_there(tmp_path: Path) -> None:
    memory = fill(tmp_path / "m.sqlite")
    for suffix in ("", "-wal"):  # as on disk at the moment of a kill
        shutil.copy(f"{tmp_path}/m.sqlite{suffix}", f"{tmp_path}/copy.sqlite{suffix}")
    memory.close()

    assert ids(SQLiteMemory(tmp_path / "copy.sqlite", PlaneEmbedder()).search("89", 1)) == ["r90"]


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    memory = fill(tmp_path / "m.sqlite")
    memory.close()

    with pytest.raises(StorageError, match="closed"):
        memory.count()


def test_a_temporary_memory_goes_with_its_object() -> None:
    memory = fill(":memory:")  # type: ignore[arg-type]
    path = memory.path
    assert path.exists()

    del memory

    assert not path.parent.exists()


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.01, math.nan])
def test_a_threshold_outside_0_to_1_is_refused(tmp_path: Path, threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        SQLiteMemory(tmp_path / "m.sqlite", threshold=threshold)


def test_copies_of_the_object_are_the_same_memory(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder(), threshold=0.7)

    sent = pickle.loads(pickle.dumps(memory))
    memory.record(plain_rollout("r", "hello"))
    memory.commit("r", Feedback(0.6))

    assert copy.deepcopy(memory) is memory
    assert (sent.count("wrong"), sent.threshold) == (1, 0.7)
    assert ids(sent.search("hello", 1)) == ["r"]


# -- values


def test_what_is_read_and_written_again_is_the_same_bytes(tmp_path: Path) -> None:
    history = dspy.History(messages=[{"question": "q", "answer": "a"}])
    long = "x" * 2_000_000
    odd = {"h": history, "price": "$5", "$set": 1, "1": np.float32(0.5), "text": long}
    first = SQLiteMemory(tmp_path / "a.sqlite", HashingEmbedder())
    first.record(replace(full_rollout("r"), inputs=odd, key=long, step=3))
    second = SQLiteMemory(tmp_path / "b.sqlite", HashingEmbedder())
    second.record(first.rollout("r"))
    first.close()
    second.close()

    for table in ("bodies", "guidances"):
        written = [sql(tmp_path / f"{name}.sqlite", f"SELECT * FROM {table}") for name in "ab"]
        assert written[0] == written[1]


def test_inputs_that_a_call_shares_with_its_program_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with closing(SQLiteMemory(path)) as memory:
        sent = full_rollout("r")
        memory.record(sent)
        assert memory.rollout("r").trace == sent.trace

    assert sql(path, "SELECT json_extract(trace, '$[0][1]') FROM bodies") == [(0,)]


def test_values_that_do_not_compare_are_kept(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite")
    inputs = {"x": np.arange(3), "flag": True}
    call = replace(full_rollout("r").trace[0], inputs={"x": np.arange(3), "flag": 1})

    memory.record(replace(full_rollout("r"), inputs=inputs, trace=(call,)))

    back = memory.rollout("r")
    assert back.inputs == {"x": [0, 1, 2], "flag": True}
    assert back.trace[0].inputs["flag"] is not True


def test_the_guidance_of_a_hit_equals_that_of_its_rollout(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", PlaneEmbedder())
    memory.record(full_rollout("r"))
    memory.commit("r", Feedback(1.0))

    hit = memory.search("10", 1)[0].experience

    assert hit.rollout == memory.rollout("r") == memory.experience("r").rollout
    assert pickle.loads(pickle.dumps(hit)) == hit
    assert copy.deepcopy(hit.rollout.guidance).shots == memory.rollout("r").guidance.shots


def test_ids_routes_and_keys_of_any_text_work(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    odd = "a\x00b '\"\\ \ud800 規則"
    policy = Policy(odd, (Rule(odd),), author=odd, message=odd)
    memory.record(
        Rollout(
            odd, 0, {odd: odd}, {odd: odd}, odd, guidance=Guidance({odd: policy}, memo={odd: odd})
        )
    )
    memory.commit(odd, Feedback(1.0, odd, id=odd, author=odd), state={odd: odd})
    memory.set_meta(odd, odd)

    hit = memory.search(odd, 1)[0].experience

    assert (hit.id, hit.rollout.key, hit.feedback.text) == (odd, odd, odd)
    assert (memory.recall(odd), memory.get_meta(odd), memory.state()) == (odd, odd, ({odd: odd}, 1))
    assert memory.policy(odd, 1).message == memory.events()[-1].ref == odd


# -- vectors


def test_another_embedder_is_refused_with_both_names_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()
    wider = HashingEmbedder(64)
    alike = CallableEmbedder(PlaneEmbedder(), "plane-v2", 2)  # of the same dimension

    for other in (wider, alike):
        with pytest.raises(EmbedderMismatch) as error:
            SQLiteMemory(path, other)
        for part in ("'plane-v1' (2 dim", f"{other.identity!r} ({other.dimension} dim", "reindex"):
            assert part in str(error.value)


def test_two_embedders_cannot_both_write_the_first_vector(tmp_path: Path) -> None:
    one = SQLiteMemory(tmp_path / "m.sqlite", PlaneEmbedder())
    two = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder(2))
    one.record(plain_rollout("a", "1"))

    with pytest.raises(EmbedderMismatch):
        two.record(plain_rollout("b", "2"))
    assert [r.id for r, _ in one.rollouts()] == ["a"]


@pytest.mark.parametrize(
    "damage", ["substr(vector, 1, 3)", "zeroblob(0)", "x'0000c07f0000c07f'", "x'0000004000000040'"]
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_damaged_vector_is_noticed_and_computed_anew(
    tmp_path: Path, damage: str, read_only: bool
) -> None:
    path = tmp_path / "m.sqlite"
    fill(path).close()
    sql(path, f"UPDATE texts SET vector = {damage} WHERE text = '45'")
    memory = SQLiteMemory(path, PlaneEmbedder(), read_only=read_only)

    with pytest.warns(RuntimeWarning, match="1 vector"):
        assert ids(memory.search("44", 9)) == ["r45", "r0", "r90"]

    assert memory.embedder.texts == ["44", "45"]
    assert ids(memory.search("45 again", 1)) == ["r45"]


def test_a_vector_damaged_while_the_memory_is_open_is_computed_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    memory = fill(path)
    assert ids(memory.search("44", 1)) == ["r45"]
    sql(path, "UPDATE texts SET vector = x'00' WHERE text = '45'")
    assert ids(memory.search("46", 1)) == ["r45"]  # its vector is still at hand
    memory._embeddings._cache.clear()

    with pytest.warns(RuntimeWarning, match="damaged"):
        assert ids(memory.search("47", 9)) == ["r45", "r90", "r0"]


def test_texts_recorded_without_an_embedder_are_embedded_when_they_are_searched(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.sqlite"
    searching = fill(path, "0")
    assert ids(searching.search("1", 9)) == ["r0"]
    with closing(SQLiteMemory(path)) as memory:
        memory.record(plain_rollout("r30", "30"))
        memory.commit("r30", Feedback(1.0))

    assert ids(searching.search("31", 9)) == ["r30", "r0"]
    assert ids(SQLiteMemory(path, PlaneEmbedder()).search("31", 9)) == ["r30", "r0"]


def test_an_embedder_that_returns_no_unit_vectors_is_an_error_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    def broken(value: object) -> PlaneEmbedder:
        embedder = PlaneEmbedder()
        embedder.__class__ = type(
            "Broken", (PlaneEmbedder,), {"__call__": lambda self, texts: np.array(value, "f4")}
        )
        return embedder

    for value, said in [
        ([[math.nan, 1.0]], "squared length nan"),
        ([[3.0, 4.0]], "squared length 25.0"),
        ([[1.0, 0.0, 0.0]], r"shape \(1, 3\)"),
        ([1.0, 0.0], r"shape \(2,\)"),
    ]:
        memory = SQLiteMemory(":memory:", broken(value))
        with pytest.raises(ValueError, match=said):
            memory.search("1", 1)
        with pytest.raises(ValueError, match="plane-v1"):
            memory.record(plain_rollout("r", "1"))
        assert list(memory.rollouts()) == []


def test_a_zero_vector_is_like_no_other(tmp_path: Path) -> None:
    embedder = CallableEmbedder(lambda texts: [[len(t) % 3, 0.0] for t in texts], "mod-3")
    memory = SQLiteMemory(tmp_path / "m.sqlite", embedder)
    for key in ("a", "aaa"):
        memory.record(plain_rollout(key, key))
        memory.commit(key, Feedback(1.0))

    assert ids(memory.search("bb", 9)) == ["a"]
    with pytest.warns(RuntimeWarning, match="zero vector"):
        assert memory.search("bbb", 9) == []


def test_an_empty_query_finds_nothing_and_embeds_nothing(tmp_path: Path) -> None:
    memory = fill(tmp_path / "m.sqlite")
    memory.embedder.texts.clear()

    assert (memory.search("", 9), memory.embedder.texts) == ([], [])


def test_kept_vectors_are_bounded(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder(8))
    for number in range(400):
        memory.search(f"never recorded {number}", 1)

    assert len(memory._embeddings._kept) <= 256


# -- against a plain model


def test_a_thousand_random_changes_match_a_plain_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    embedder = HashingEmbedder(16)
    memories = [SQLiteMemory(tmp_path / "m.sqlite", embedder) for _ in range(2)]
    keys: list[str] = []
    scores: dict[int, float] = {}
    learned: list[int] = []
    for step in range(1000):
        memory = memories[rng.integers(2)]
        action = rng.random()
        if action < 0.3 or not keys:
            keys.append(f"word{rng.integers(12)} word{rng.integers(12)}")
            memory.record(plain_rollout(str(len(keys) - 1), keys[-1]))
        elif action < 0.8:
            i = int(rng.integers(len(keys)))
            score = float(rng.choice([0.0, 0.3, 0.5, 1.0, math.nan]))
            memory.commit(str(i), Feedback(score, text=str(step)))
            scores[i] = score
            learned = [j for j in learned if j != i] + [i]
        else:
            i = int(rng.integers(len(keys)))
            memory.retract(str(i))
            scores.pop(i, None)
        if step % 20:
            continue
        judged = {i: s for i, s in scores.items() if not math.isnan(s)}
        query = f"word{rng.integers(12)} word{rng.integers(12)}"
        for verdict in ("correct", "wrong", None):
            members = [
                i
                for i in sorted(judged)
                if verdict is None or (judged[i] >= 0.5) == (verdict == "correct")
            ]
            vectors = embedder([keys[i] for i in members]).astype(float)
            similar = (vectors * embedder([query])[0].astype(float)).sum(axis=1)
            order = sorted(range(len(members)), key=lambda p: (-min(similar[p], 1.0), members[p]))
            for reader in memories:
                found = reader.search(query, 7, verdict)
                assert ids(found) == [str(members[p]) for p in order[:7]]
                assert reader.count(verdict) == len(members)
                recent = [str(i) for i in learned if i in members][-5:]
                assert ids(reader.recent(5, verdict)) == recent
