"""How a worker is asked to stop: a flag that signals raise, and an end also where it hangs."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Container
from types import FrameType
from typing import Any

from .bell import Bell

log = logging.getLogger("django_sqlqueue")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
FORCE = signal.SIGQUIT
"""How a supervisor passes a second request on to its children."""
LAST_WORDS = 4.0
"""Seconds that a process has, when its time is over, to give its jobs back and end by itself."""


class Stop:
    """Counts the requests: at the first finish what runs, at the second leave at once."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self.requests = 0
        self.supervised = False
        """A service manager may signal all processes, so that children hear each request twice."""
        self.asked_at: float | None = None
        """When the first request came, by the monotonic clock."""
        self._before: dict[int, Any] = {}

    def request(self, signum: int = 0, frame: FrameType | None = None) -> None:
        if not (self.supervised and self.requested):
            self.requests += 1
        self._note()

    def force(self, signum: int = 0, frame: FrameType | None = None) -> None:
        self.requests = max(self.requests, 2)
        self._note()

    def _note(self) -> None:
        self.asked_at = self.asked_at or time.monotonic()
        self._bell.ring()

    @property
    def requested(self) -> bool:
        return self.requests > 0

    @property
    def forced(self) -> bool:
        return self.requests > 1

    def listen(self) -> None:
        """Take the signals, where this thread may; elsewhere request() is the only way."""
        if threading.current_thread() is not threading.main_thread():
            return
        for signum in SIGNALS:
            self._before[signum] = signal.signal(signum, self.request)
        if self.supervised:
            self._before[FORCE] = signal.signal(FORCE, self.force)
        # A process that replaced itself had them blocked until now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def restore(self) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before.clear()


class LastResort(threading.Thread):
    """Ends the process when it was asked to stop and does not, as where a socket hangs.

    Python calls a signal's handler between two steps of the main thread only, and so not while
    that waits inside a driver. A byte in this pipe comes at once.
    """

    def __init__(self, stop: Stop, grace: float, end: Callable[[int], None]) -> None:
        super().__init__(name="sqlqueue-last-resort", daemon=True)
        self._asked, self._grace, self._end = stop, grace, end
        self._heard, written = os.pipe()
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        # What a handler forks may be signalled too, and would speak for this process. From
        # Python 3.12 on asyncio sees to that as well.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))

    def run(self) -> None:
        self._hears((*SIGNALS, FORCE), None)
        self._asked.asked_at = self._asked.asked_at or time.monotonic()
        second = (FORCE,) if self._asked.supervised else SIGNALS
        forced = self._hears(second, self._grace + LAST_WORDS)
        if forced:
            time.sleep(LAST_WORDS)
        log.warning("Worker %d does not end; what it holds waits for its lease.", os.getpid())
        self._end(1 if forced else 0)

    def _hears(self, signals: Container[int], seconds: float | None) -> bool:
        """Wait for one of the signals, at most so long; say whether one came."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._heard], [], [], left)[0]:
                return False
            if os.read(self._heard, 1)[0] in signals:
                return True
