from __future__ import annotations

import json

from drpg_dspy.tracking.records import RecordBuilder, record_to_plain, replay
from drpg_dspy.types import Feedback


def test_a_policy_is_shown_with_the_rollout_that_brought_it(memory, play) -> None:
    play(memory, 1)
    play(memory, 2, rules=("Rule number 1.",))
    records = list(replay(memory))
    assert [r.kind for r in records] == ["rollout", "feedback", "rollout", "feedback"]
    assert [len(r.policies) for r in records] == [1, 0, 0, 0]
    assert records[0].policies[0].text == "- Rule number 1."


def test_a_revised_verdict_is_told_as_each_event_brought_it(memory, play) -> None:
    play(memory, 1, score=1.0)
    memory.commit("r0001", Feedback(0.0, "on second thoughts"))
    memory.retract("r0001")
    verdicts = [record.feedback for record in replay(memory)][1:]
    assert [v and v.score for v in verdicts] == [1.0, 0.0, None]
    assert [r.metrics["judged"] for r in replay(memory)] == [0, 1, 1, 0]


def test_reading_in_small_pieces_gives_the_same_records(memory, play) -> None:
    for n in range(1, 8):
        play(memory, n)
    memory.commit("r0003", Feedback(0.5))
    whole = list(replay(memory))
    builder, cursor, pieces = RecordBuilder(memory), 0, []
    limit = 1
    while events := memory.events(after=cursor, limit=limit):
        records = builder.build(events, complete=len(events) < limit)
        limit = 1 if records else limit + 1
        pieces += records
        cursor = records[-1].seq if records else cursor
    assert pieces == whole


def test_figures_after_a_restart_are_those_of_an_unbroken_run(memory, play) -> None:
    for n in range(1, 70):
        play(memory, n)
    memory.commit("r0010", Feedback(1.0))
    memory.retract("r0011")
    whole = list(replay(memory))
    for cut in (0, 1, 17, 100, len(whole) - 1):
        cursor = whole[cut].seq
        builder = RecordBuilder(memory)
        builder.skip_to(cursor)
        rest = builder.build(memory.events(after=cursor, limit=10_000), complete=True)
        assert rest == whole[cut + 1 :]


def test_the_plain_form_spells_out_every_policy_text(memory, play) -> None:
    play(memory, 1, rules=("Use {{braces}}.", "And\\backslashes."))
    record = next(iter(replay(memory)))
    plain = json.loads(json.dumps(record_to_plain(record)))
    text = "- Use {{braces}}.\n- And\\backslashes."
    assert plain["policies"][0]["text"] == text
    assert plain["rollout"]["guidance"]["policy_texts"] == {"predict": text}
