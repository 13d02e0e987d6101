"""How a worker is asked to stop: a flag that signals raise, and nothing else."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from .bell import Bell

SIGNALS = (signal.SIGTERM, signal.SIGINT)
FORCE = signal.SIGQUIT
"""How a supervisor passes a second request on to its children."""


class Stop:
    """Counts the requests: at the first finish what runs, at the second leave at once."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self.requests = 0
        self.supervised = False
        """A service manager may signal all processes, so that children hear each request twice."""
        self._before: dict[int, Any] = {}

    def request(self, signum: int = 0, frame: FrameType | None = None) -> None:
        if not (self.supervised and self.requested):
            self.requests += 1
        self._bell.ring()

    def force(self, signum: int = 0, frame: FrameType | None = None) -> None:
        self.requests = max(self.requests, 2)
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
