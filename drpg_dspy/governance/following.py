"""A thread that takes up what people change by hand in a prompt registry."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence

from drpg_dspy.arguments import number
from drpg_dspy.governance.governing import Governance
from drpg_dspy.tracking.handmade import HandMade

__all__ = ["STATUS_KEY", "RegistryFollower"]

_log = logging.getLogger(__name__)

STATUS_KEY = "governance:registry"
"""Setting of a memory under which a follower says how it fares (a JSON object)."""

_LONGEST = 60.0


class RegistryFollower:
    """Looks into a registry every few seconds, and lets what people did there stand.

    * The alias ``champion`` is set or moved: that version stands.
    * ``champion`` is taken away: the optimizer goes on, if nobody decided otherwise meanwhile.
    * A version that no run made is new: it stands.

    What was taken up is remembered in the memory, so of several processes one takes it up, and a
    change made while none was running is taken up by the next. A registry that fails is never in
    the way of a call: failures are counted, logged once of a kind and shown by
    ``drpg policy list``; the next look comes later, at most a minute. A text that no policy may
    hold (a rule of more than :data:`drpg_dspy.arguments.LONGEST_RULE` characters, a control
    character) is not taken up, logged and shown there; what stood goes on standing.

    Args:
        governance: Of the learner.
        read: Returns what stands in the registry (:meth:`.RegistryReader.read`).
        every: Seconds between looks, more than 0.

    Raises:
        ValueError: ``every`` is no number of more than 0.

    Attributes:
        looks: Looks that succeeded.
        failures: Looks that failed.
        last_error: Of the last failure.
    """

    def __init__(
        self, governance: Governance, read: Callable[[], Sequence[HandMade]], every: float = 10.0
    ) -> None:
        self.governance = governance
        self.read = read
        self.every = number("every", every, 0)
        self.looks = 0
        self.failures = 0
        self.last_error = ""
        self._in_a_row = 0
        self._refused = ""
        self._kinds: set[str] = set()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look; more than once is harmless."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="drpg-registry-follower", daemon=True
            )
            self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Look no more. A look under way is waited for, for ``timeout`` seconds at most."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def look(self) -> bool:
        """Look once, now; return whether the registry could be read."""
        try:
            for found in self.read():
                self._take_up(found)
        except Exception as error:  # noqa: BLE001 - a registry is foreign code; a call must not suffer
            self._fail(error)
            return False
        self.looks += 1
        if self._in_a_row:
            self._in_a_row = 0
            self._note()
        return True

    def _work(self) -> None:
        while not self._closing.is_set():
            self.look()
            self._closing.wait(min(_LONGEST, self.every * 2 ** min(self._in_a_row, 6)))

    def _take_up(self, found: HandMade) -> None:
        seen = self.governance.state().route(found.route).seen
        known = seen.get("newest")
        if found.newest > (known or 0):  # an older one is the newest when the last was deleted
            # Before the first look nobody can tell what a person meant by an old version.
            if known is not None or found.newest_is_last:
                self._stand(found, found.newest, found.newest_text, "newest", self._message(found))
            else:
                self.governance.mark_seen(found.route, "newest", found.newest)
        elif known is None:
            self.governance.mark_seen(found.route, "newest", 0)
        if found.champion != seen.get("champion", 0):  # last: it says which of all versions stands
            self._champion(found)

    def _champion(self, found: HandMade) -> None:
        if found.champion:
            reason = f"alias champion set on version {found.champion} of {found.prompt}"
            self._stand(found, found.champion, found.champion_text, "champion", reason)
            return
        decisions = self.governance.log(found.route)
        ours = bool(decisions) and decisions[-1].author == self._author(found, "champion")
        if ours and decisions[-1].action == "take up":
            reason = f"alias champion taken from {found.prompt}"
            self.governance.thaw(found.route, author=self._author(found, "champion"), reason=reason)
        self.governance.mark_seen(found.route, "champion", 0)

    def _stand(self, found: HandMade, version: int, text: str, what: str, reason: str) -> None:
        author = self._author(found, what)
        try:
            taken = self.governance.take_up(
                found.route, text, what, version, author=author, reason=reason
            )
        except ValueError as error:  # what a person wrote there is no policy
            self._refuse(found, version, what, error)
            return
        if taken:
            _log.info("%s: version %d stands, by %s.", found.prompt, version, author)
            if self._refused:
                self._refused = ""
                self._note()

    def _refuse(self, found: HandMade, version: int, what: str, why: ValueError) -> None:
        self._refused = f"version {version} of {found.prompt} is not taken up: {why}"
        _log.warning("In the prompt registry %s", self._refused)
        self.governance.mark_seen(found.route, what, version)
        self._note()

    def _author(self, found: HandMade, what: str) -> str:
        name = found.author if what == "newest" else ""
        return name if name.startswith("person:") else f"person:{name or 'mlflow'}"

    def _message(self, found: HandMade) -> str:
        return found.message or f"version {found.newest} of {found.prompt}"

    def _fail(self, error: Exception) -> None:
        self.failures += 1
        self._in_a_row += 1
        self.last_error = f"{type(error).__name__}: {error}"[:500]
        kind = type(error).__name__
        if kind not in self._kinds:
            self._kinds.add(kind)
            _log.warning(
                "The prompt registry could not be read (%s). Calls go on with the policies that "
                "stand; further failures of this kind are only counted.",
                self.last_error,
            )
        self._note()

    def _note(self) -> None:
        status = {
            "failures": self.failures,
            "error": self.last_error if self._in_a_row else "",
            "refused": self._refused,
            "at": time.time(),
        }
        try:
            self.governance.memory.set_meta(STATUS_KEY, json.dumps(status))
        except Exception as problem:  # noqa: BLE001 - the memory is busy or closed: only a figure is lost
            _log.debug("The follower's status was not written: %s", problem)
