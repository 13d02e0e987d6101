"""What the claiming loop sleeps on: anything may ring it, a signal handler too."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable


class Bell:
    """A doorbell: rings while nobody waits are kept as one, so that none is missed."""

    def __init__(self) -> None:
        # SimpleQueue.put is reentrant: a signal handler may ring while this thread waits.
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, seconds: float, step: float | None = None, look: Callable = bool) -> None:
        """Wait for a ring, at most so long; with a `step`, also until look() is true."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self._rings.get(timeout=left if step is None else min(step, left))
                return
            except queue.Empty:
                if step is not None and look():
                    return
