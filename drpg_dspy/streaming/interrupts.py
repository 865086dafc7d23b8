"""Ctrl-C while a stream runs."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

__all__ = ["Interrupts"]


class Interrupts:
    """Makes the first Ctrl-C end the stream within seconds, and the second one kill.

    A run may be killed at any point without harm, so nothing is waited for: the first Ctrl-C
    raises wherever the stream stands, also in the middle of an LM call. A program that swallows
    every exception may swallow this one too; :meth:`check` raises it again before its answer
    is taken for one.

    Does nothing outside the main thread, or where the user handles Ctrl-C already.
    """

    def __init__(self) -> None:
        self.requested = False
        self._installed = False

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` if Ctrl-C was pressed."""
        if self.requested:
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._first)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _first(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt
