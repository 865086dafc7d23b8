"""From M_t to M_{t+1}: what is tried, accepted, given up and retired, and a record of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drpg_dspy.optimizers.corrections.clusters import Correction, contradicts
from drpg_dspy.optimizers.corrections.decisions import DecisionLog
from drpg_dspy.optimizers.corrections.instructions import (
    Instruction,
    PolicyMemory,
    covers,
)
from drpg_dspy.optimizers.corrections.trials import (
    TRIAL_SHARE,
    Gate,
    Verdicts,
    as_judged_now,
    effect,
    evidence,
    letter,
    tally,
)
from drpg_dspy.optimizers.rules import similar

__all__ = ["PolicyUpdates"]

_MAX_WAITING = 3
_MAX_DROPPED = 100


class PolicyUpdates:
    """Changes a policy memory, within bounds, and keeps a record.

    Args:
        instructions: The policy memory.
        gate: What a correction has to show; ``None`` = it is adopted as it comes.
        max_changes: Instructions that one window may put up.

    Attributes:
        seen: Verdicts seen so far.
        counters: Events by name.
        log: What was decided.
    """

    def __init__(self, instructions: PolicyMemory, gate: Gate | None, max_changes: int) -> None:
        self.instructions = instructions
        self.gate = gate
        self.max_changes = max_changes
        self.seen = 0
        self.counters: Counter[str] = Counter()
        self.log = DecisionLog()
        # Route, category, text: what failed once is not tried there again at once.
        self._dropped: list[list[str]] = []

    # -- verdicts ---------------------------------------------------------------------------

    def note(self, id: str, given: bool, rollout: str, correct: bool, *, revised: bool) -> None:
        """Write down how a call went that an instruction was drawn for.

        Args:
            id: The instruction; one that is gone is not looked at.
            given: The call had it.
            rollout: The call.
            correct: The verdict.
            revised: The call was judged before. A trial takes the new verdict in place of the
                old; what stands keeps its count.
        """
        one = self.instructions.get(id)
        if one is None or one.status == "waiting":
            return
        mark = letter(given, correct)
        if one.status == "accepted":
            if not revised and self.gate is not None:
                outcomes = (one.outcomes + mark)[-self.gate.watched :]
                self.instructions.put(_counted(one.changed(outcomes=outcomes), mark))
        elif rollout in one.judged:
            place = one.judged.index(rollout)
            outcomes = one.outcomes[:place] + mark + one.outcomes[place + 1 :]
            self.instructions.put(one.changed(outcomes=outcomes))
        else:
            judged = (*one.judged, rollout)
            self.instructions.put(one.changed(outcomes=one.outcomes + mark, judged=judged))

    def count(self, ids: Iterable[str], correct: bool) -> None:
        """Count a call under instructions that stand without anything being drawn."""
        for one in filter(None, map(self.instructions.get, ids)):
            self.instructions.put(_counted(one, letter(True, correct)))

    def decide(self, ids: Iterable[str], verdicts: Verdicts) -> None:
        """Decide on the instructions for which a verdict came in.

        Args:
            ids: The instructions.
            verdicts: Looked up before an acceptance: a verdict that was taken back counts no
                more.
        """
        for one in filter(None, map(self.instructions.get, ids)):
            if self.gate is None:
                continue
            if one.status == "trial":
                self._decide_trial(one, self.gate, verdicts)
            elif self.gate.stopped_helping(one.outcomes, one.helped):
                shown = evidence(
                    one.outcomes, share=1 - self.gate.watch, over=one.helped / 2, against=True
                )
                self._drop(one, "retired", "it stopped helping", tally(one.outcomes), shown)

    def review(self, verdicts: Verdicts) -> None:
        """Withdraw what was accepted on verdicts that were revised or taken back since.

        Args:
            verdicts: As they stand now.
        """
        for one in list(self.instructions):
            if one.status != "accepted" or not one.grounds:
                continue
            grounds, marks = as_judged_now(one.grounds, one.marks, verdicts)
            if (grounds, marks) == (one.grounds, one.marks):
                continue
            now = tally(marks)
            change = [b - a for a, b in zip(tally(one.marks), now, strict=True)]
            given, wrong, plain, plain_wrong = (
                max(0, n + d) for n, d in zip(one.tally, change, strict=True)
            )
            one = one.changed(
                grounds=grounds, marks=marks, tally=(given, wrong, plain, plain_wrong)
            )
            self.instructions.put(one)
            if effect(*now) <= 0:
                reason = "the verdicts that it was accepted on stand no more"
                self._drop(one, "withdrawn", reason, one.tally)

    def _decide_trial(self, one: Instruction, gate: Gate, verdicts: Verdicts) -> None:
        finding = gate.finding(one.outcomes)
        if finding == "helps":
            judged, outcomes = as_judged_now(one.judged, one.outcomes, verdicts)
            one = one.changed(judged=judged, outcomes=outcomes)
            self.instructions.put(one)
            finding = gate.finding(one.outcomes)
        if not finding:
            return
        table = tally(one.outcomes)
        if finding == "helps":
            shown = evidence(one.outcomes, share=TRIAL_SHARE)
            self._accept(one.changed(tally=table), "calls with it are right more often", shown)
            return
        shown = evidence(one.outcomes, share=TRIAL_SHARE, against=finding == "harms")
        reason = "calls with it are right less often"
        if finding == "unclear":
            reason = f"{len(one.outcomes)} calls did not show that it helps"
        self._drop(one, "given up", reason, table, shown)

    def settle(
        self, id: str, fixed: int, broken: int, items: tuple[int, int], p: float, accept: bool
    ) -> None:
        """Decide on a trial by the same items answered without and with the instruction.

        Args:
            id: The instruction, on trial or waiting.
            fixed, broken: Items that only the calls with it, and only those without it, got
                right.
            items: How many items were right with it, and how many there were.
            p: One-sided, of the exact McNemar test.
            accept: Whether it stays.

        Raises:
            ValueError: No such instruction is on trial.
        """
        one = self.instructions.get(id)
        if one is None or one.status == "accepted":
            raise ValueError(f"No instruction {id!r} is on trial.")
        right, n = items
        before = right - fixed + broken
        table = (right, n - right, before, n - before)
        reason = f"{fixed} of {n} items fixed, {broken} broken"
        if accept:
            self._accept(one.changed(tally=table), reason, p, fixed=fixed, broken=broken)
        else:
            self._drop(one, "given up", reason, table, p, fixed=fixed, broken=broken)

    # -- corrections ------------------------------------------------------------------------

    def admit(
        self, corrections: Sequence[Correction], held: Mapping[str, int], *, recur: bool = True
    ) -> list[Correction]:
        """Put corrections on trial, or adopt them where there is no gate.

        Args:
            corrections: Those from most failures first.
            held: What the window held, for the record.
            recur: A correction has to come from as many failures as the gate asks for.

        Returns:
            Those that came from too few failures, to be seen again with the next window.
        """
        rare = []
        changes = 0
        fewest = self.gate.min_cases if self.gate is not None and recur else 1
        for correction in corrections:
            standing = self._standing(correction)
            if standing is not None and not self._revises(correction, standing):
                self._support(standing, correction)
                continue
            if self._failed_before(correction):
                self.counters["corrections_known"] += 1
            elif len(correction.cases) < fewest:
                self.counters["corrections_rare"] += 1
                rare.append(correction)
            elif changes == self.max_changes or self._crowded(correction):
                self.counters["corrections_over_limit"] += 1
            else:
                self._put_up(correction, standing)
                changes += 1
        if not changes:
            self._record("unchanged", None, "the window gave nothing to try", held)
        for one in self.instructions.crowded_out():
            self._drop(one, "crowded out", "too many instructions", one.tally)
        return rare

    def _standing(self, correction: Correction) -> Instruction | None:
        """Return the instruction that says the same, or the opposite, where this one belongs.

        One that says the same for a part of these inputs alone leaves the others without it: it
        is none.
        """
        for one in self.instructions:
            if one.route != correction.route:
                continue
            holds_here = covers(one.category, correction.category)
            if holds_here and similar(one.text, correction.text):
                return one
            near = holds_here or covers(correction.category, one.category)
            if near and contradicts(one.text, correction.text):
                return one
        return None

    def _revises(self, correction: Correction, standing: Instruction) -> bool:
        """Tell whether failures under an accepted instruction ask for another wording."""
        if standing.status != "accepted" or _folded(standing.text) == _folded(correction.text):
            return False
        despite = {g.case for g in correction.gradients if standing.id in g.given}
        enough = self.gate.min_cases if self.gate else 1
        return contradicts(standing.text, correction.text) or len(despite) >= enough

    def _support(self, standing: Instruction, correction: Correction) -> None:
        """Count failures for an instruction that they did not have, against one they had."""
        gradients = correction.gradients
        despite = [g.case for g in gradients if standing.id in g.given]
        if contradicts(standing.text, correction.text):
            despite = [gradient.case for gradient in gradients]
            self.counters["gradients_contradictory"] += 1
        self.counters["corrections_repeated"] += 1
        wanted = [g.case for g in gradients if g.case not in despite]
        self.instructions.put(standing.supported(wanted).doubted(despite))

    def _failed_before(self, correction: Correction) -> bool:
        place = (correction.route, correction.category)
        return any(
            (route, category) == place and similar(text, correction.text)
            for route, category, text in self._dropped
        )

    def _crowded(self, correction: Correction) -> bool:
        waiting = [one for one in self._same_place(correction) if one.status == "waiting"]
        return len(waiting) >= _MAX_WAITING

    def _same_place(self, place: Correction | Instruction) -> list[Instruction]:
        key = (place.route, place.category)
        return [one for one in self.instructions if (one.route, one.category) == key]

    def _put_up(self, correction: Correction, standing: Instruction | None) -> None:
        new = Instruction.write(
            correction.route, correction.category, correction.text, born=self.seen
        ).supported(correction.cases)
        if standing is not None:
            new = new.changed(replaces=standing.id)
        if new.id in self.instructions:  # the same words for the same place stand already
            return
        if self.gate is None:
            self._accept(new, f"{new.cases} failures", outcome="adopted")
            return
        busy = any(one.status == "trial" for one in self._same_place(new))
        new = new.changed(status="waiting" if busy else "trial")
        self.instructions.put(new)
        reason = "waits for a trial to end" if busy else "it is on trial"
        self._record("tried", new, reason, {"cases": new.cases})

    # -- what becomes of an instruction -----------------------------------------------------

    def _accept(
        self,
        one: Instruction,
        reason: str,
        shown: float | None = None,
        outcome: str = "accepted",
        **counts: int,
    ) -> None:
        old = self.instructions.get(one.replaces)
        if old is not None:
            self._drop(old, "superseded", f"{one.id} took its place", old.tally)
        for part in self._parts_of(one):
            self._drop(part, "superseded", f"{one.id} holds for its inputs as well", part.tally)
        one = one.changed(
            status="accepted", helped=one.score, outcomes="", judged=(), replaces="",
            grounds=one.judged, marks=one.outcomes,
        )  # fmt: skip
        self.instructions.put(one)
        self._record(outcome, one, reason, {**_table(one.tally), **counts}, shown)
        self._next_trial(one)

    def _parts_of(self, one: Instruction) -> list[Instruction]:
        """Return the instructions that say the same for a part of the inputs."""
        return [
            other
            for other in self.instructions
            if other.route == one.route
            and other.category != one.category
            and covers(one.category, other.category)
            and similar(one.text, other.text)
        ]

    def _drop(
        self,
        one: Instruction,
        outcome: str,
        reason: str,
        table: tuple[int, int, int, int],
        shown: float | None = None,
        **counts: int,
    ) -> None:
        self.instructions.remove(one.id)
        if outcome in ("given up", "retired"):
            self._dropped = [*self._dropped, [one.route, one.category, one.text]][-_MAX_DROPPED:]
        self._record(outcome, one, reason, {**_table(table), **counts}, shown)
        self._next_trial(one)

    def _next_trial(self, ended: Instruction) -> None:
        place = self._same_place(ended)
        waiting = [one for one in place if one.status == "waiting"]
        if waiting and not any(one.status == "trial" for one in place):
            self.instructions.put(waiting[0].changed(status="trial"))

    def _record(
        self,
        outcome: str,
        one: Instruction | None,
        reason: str,
        counts: Mapping[str, int],
        shown: float | None = None,
    ) -> None:
        self.log.add(self.seen, outcome, one, reason, counts, shown)
        self.counters[f"decisions_{outcome.replace(' ', '_')}"] += 1

    # -- keeping ----------------------------------------------------------------------------

    def as_plain(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        return {
            "instructions": self.instructions.as_plain(),
            "seen": self.seen,
            "counters": dict(sorted(self.counters.items())),
            "log": self.log.as_plain(),
            "dropped": [list(each) for each in self._dropped],
        }

    def load_plain(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`as_plain` returned."""
        self.instructions.load_plain(state["instructions"])
        self.seen = int(state["seen"])
        self.counters = Counter(state["counters"])
        self.log.load_plain(state["log"])
        whole = ([route, "", text] for route, *_, text in state["dropped"])  # as it was before
        self._dropped = [
            list(each) if len(each) == 3 else old
            for each, old in zip(state["dropped"], whole, strict=True)
        ]


def _counted(one: Instruction, mark: str) -> Instruction:
    added = tally(mark)
    right, wrong, plain_right, plain_wrong = (a + b for a, b in zip(one.tally, added, strict=True))
    return one.changed(tally=(right, wrong, plain_right, plain_wrong))


def _table(counts: tuple[int, int, int, int]) -> dict[str, int]:
    names = ("given_right", "given_wrong", "withheld_right", "withheld_wrong")
    return dict(zip(names, counts, strict=True))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")
