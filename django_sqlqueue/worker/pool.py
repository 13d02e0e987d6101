"""The threads that run jobs, and the queue of those about to start."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from .. import execution
from ..exceptions import JobTimeout
from ..isolation import check_before_use, tidied, tidy_own_connections
from ..policy import Claim, Outcome, claim_of
from .attempts import Attempts
from .pace import MOST, Pace
from .patience import close_connections
from .timeouts import clear_in_thread, raise_in_thread

if TYPE_CHECKING:
    from ..models import Job

STALE = 0.4
"""Seconds after which claimed jobs that have not started are given back."""


class Pool:
    """A fixed number of slots, each a thread, fed from one queue."""

    def __init__(self, slots: int, attempts: Attempts) -> None:
        self.slots = slots
        self.pace = Pace(slots)
        self.attempts = attempts
        self.waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.taken: set[Claim] = set()
        """What waits here or runs in a slot."""
        self._unstored: set[Claim] = set()
        """What has run, and is running for all others until its outcome is stored."""
        self._fed_at = 0.0
        self.threads = [Slot(number, self) for number in range(1, slots + 1)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def room(self) -> int:
        """Return how many more jobs can start now or within a fraction of a second."""
        ahead = self.pace.ahead
        if self.waiting.qsize() > ahead // 2:
            return 0
        unstored = 0 if ahead else self._count_unstored()
        return max(0, self.slots + ahead - len(self.taken) - unstored)

    def _count_unstored(self) -> int:
        for claim in list(self._unstored):
            if not self.attempts.holdings.has(claim):
                self._unstored.discard(claim)
        return len(self._unstored)

    def feed(self, jobs: list[Job]) -> None:
        self._fed_at = time.monotonic()
        if len(self._unstored) > 2 * MOST:
            self._count_unstored()
        self.taken.update(map(claim_of, jobs))
        for job in jobs:
            self.waiting.put(job)

    def end(self, job: Job, outcome: Outcome | None, started: float) -> None:
        self._unstored.add(claim_of(job))
        self.taken.discard(claim_of(job))
        self.attempts.end(job, outcome, started)

    @property
    def is_stale(self) -> bool:
        """Do jobs wait longer than was foreseen?"""
        return self.waiting.qsize() > 0 and time.monotonic() - self._fed_at > STALE

    def take_back(self) -> list[Job]:
        """Return the jobs that have not started, and forget the measure that let them in."""
        self.pace.forget()
        taken: list[Job] = []
        while True:
            try:
                job = self.waiting.get_nowait()
            except queue.Empty:
                return taken
            if job is not None:
                self.taken.discard(claim_of(job))
                taken.append(job)

    def finish(self) -> None:
        for _ in self.threads:
            self.waiting.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the threads; False where some do not end in time."""
        end = time.monotonic() + timeout
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self.threads)


class Slot(threading.Thread):
    """Runs one job after the other, whatever they do."""

    def __init__(self, number: int, pool: Pool) -> None:
        super().__init__(name=f"sqlqueue-slot-{number}", daemon=True)
        self._pool = pool

    def run(self) -> None:
        try:
            check_before_use()
            while (job := self._next()) is not None:
                started = time.monotonic()
                try:
                    self._run(job, started)
                except BaseException as error:
                    self._pool.end(job, self._pool.attempts.broke(job, error), started)
        finally:
            close_connections()

    def _next(self) -> Job | None:
        try:
            return self._pool.waiting.get_nowait()
        except queue.Empty:
            job = self._pool.waiting.get()
            check_before_use()
            return job

    def _run(self, job: Job, started: float) -> None:
        outcome, counts = self._attempt(job)
        if counts:
            self._pool.pace.note(time.monotonic() - started)
            self._pool.end(job, outcome, started)
        else:
            self._pool.taken.discard(claim_of(job))

    def _attempt(self, job: Job) -> tuple[Outcome | None, bool]:
        """Return the outcome of the attempt, and whether it still counts."""
        ident, attempts = threading.get_ident(), self._pool.attempts
        watch = attempts.watch(job, lambda: raise_in_thread(ident))
        if watch is None:
            return self._outcome(job), True
        outcome: Outcome | None = None
        timed_out = True
        # JobTimeout is raised once at most, but until the watch is finished and what it has not
        # raised yet is taken back, that may be between any two steps.
        try:
            try:
                outcome = self._outcome(job)
                timed_out = False
            except JobTimeout:
                pass
            counts = watch.finish(self)
            clear_in_thread(ident)
        except JobTimeout:
            counts = watch.finish(self)
        attempts.timeouts.forget(watch)
        if watch.interrupted:
            # It may have cut an exchange with the server in two.
            tidy_own_connections()
            close_connections()
        return execution.timed_out(job) if timed_out else outcome, counts

    def _outcome(self, job: Job) -> Outcome | None:
        try:
            return execution.attempt(job, within=tidied)
        except JobTimeout:
            raise
        except BaseException as error:
            return self._pool.attempts.broke(job, error)
