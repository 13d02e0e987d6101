"""Ending handlers that run too long: an exception in their thread, then without them."""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import reasons
from ..exceptions import JobTimeout

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")

MERCY = 2.0
"""Seconds that a handler has to end after JobTimeout was raised in it."""


class Watch:
    """One handler that is being timed. Whoever ends it first has the say over its outcome."""

    def __init__(self, job: Job, seconds: float, interrupt: Callable[[], None]) -> None:
        self.job = job
        self.started = time.monotonic()
        self.due = self.started + seconds
        self.interrupted = False
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._ended_by: object = None

    def finish(self, by: object) -> bool:
        """End the watch; False where somebody else has ended it before.

        It may be called again, as a late JobTimeout can interrupt it.
        """
        with self._lock:
            if self._ended_by is None:
                self._ended_by = by
            return self._ended_by is by

    def interrupt(self) -> bool:
        """Raise JobTimeout in the handler, once; False where that is of no use."""
        with self._lock:
            if self.interrupted or self._ended_by is not None:
                return False
            self.interrupted = True
            self.due = time.monotonic() + MERCY
            self._interrupt()
            return True


class Timeouts(threading.Thread):
    """The thread that looks after all watches."""

    def __init__(self, give_up: Callable[[Job, float], None]) -> None:
        super().__init__(name="sqlqueue-timeouts", daemon=True)
        self._give_up = give_up
        self._watches: set[Watch] = set()
        self._changed = threading.Condition()
        self._stopped = False

    def watch(self, job: Job, seconds: float, interrupt: Callable[[], None]) -> Watch:
        watch = Watch(job, seconds, interrupt)
        with self._changed:
            self._watches.add(watch)
            self._changed.notify()
        return watch

    def forget(self, watch: Watch) -> None:
        with self._changed:
            self._watches.discard(watch)

    def finish(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        while (due := self._wait_for_due()) is not None:
            for watch in due:
                try:
                    self._end(watch)
                except Exception as error:
                    self.forget(watch)
                    log.error(
                        "Ending job %d (%s), which takes too long, failed (%s).",
                        watch.job.id, watch.job.kind, reasons.class_path(type(error)),
                    )  # fmt: skip

    def _end(self, watch: Watch) -> None:
        if watch.interrupt():
            return
        self.forget(watch)
        if watch.finish(self):
            self._give_up(watch.job, time.monotonic() - watch.started)

    def _wait_for_due(self) -> list[Watch] | None:
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                if due := [watch for watch in self._watches if watch.due <= now]:
                    return due
                first = min((watch.due for watch in self._watches), default=None)
                self._changed.wait(None if first is None else first - now)
            return None


def raise_in_thread(ident: int) -> None:
    """Let the thread raise JobTimeout at its next step of Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(JobTimeout))


def clear_in_thread(ident: int) -> None:
    """Take back a JobTimeout that the thread has not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), None)
