"""One worker process: claim what can start, let the parts do the rest, stop in order."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from typing import Any

from django.db import InterfaceError, OperationalError, reset_queries

from .. import execution, schedules
from ..conf import settings
from ..isolation import check_before_use, own_connections
from ..models import Job
from ..policy import Outcome, claim_of
from .attempts import Attempts
from .bell import Bell
from .coroutines import Coroutines
from .holdings import Holdings
from .housekeeping import Health, Housekeeping, sweep, take_back_from_the_dead
from .identity import Identity
from .kinds import ServedKinds
from .links import that_end_in_silence
from .options import WorkerOptions
from .patience import Patience, close_connections, within
from .pool import STALE, Pool
from .presence import Busy, Presence
from .renewal import Renewal
from .settler import Settler
from .stopping import Stop
from .wakeup import ChangeMarker, listener

log = logging.getLogger("django_sqlqueue")


class Runner:
    """A worker process; run() returns when it was asked to stop or has nothing left to do."""

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.alias = options.database or Job.objects.all().db
        self.identity = Identity.of_this_process()
        self.name = str(self.identity)
        self.bell = Bell()
        self.stop = Stop(self.bell)
        self.kinds = ServedKinds(options, self.table)
        self.holdings = Holdings()
        self.settler = Settler(self.table, self.holdings, lambda: self.pool.waiting.qsize() > 0)
        self.attempts = Attempts(self.settler, self.holdings)
        self.pool = Pool(options.threads, self.attempts)
        self.coroutines = Coroutines(options.coroutines, self.attempts)
        self.renewal = Renewal(self.table, self.holdings, options.lease)
        self.presence = Presence(self.identity, self.alias, options, self.kinds.now)
        self.housekeeping = Housekeeping(self.table, self.bell, self._check_in)
        self.listener = listener(self.alias, self.bell, settings.NOTIFY)
        self.marker = ChangeMarker(self.alias)
        self.health = Health(options.health_file)
        self.attempts.on_end = self._ended
        self.settler.on_stored = self._stored
        self._patience = Patience("Claiming")
        self._claimed = 0
        self._waits_for_settler = False
        self.is_broken = False
        self._out_of_reach = 0
        self._busy = Busy(options.threads)
        self._over = threading.Event()

    def table(self) -> Any:
        return Job.objects.using(self.alias)

    # The loop

    def run(self) -> bool:
        """Work until asked to stop or done; return whether every thread has ended."""
        with own_connections(), that_end_in_silence():
            return self._run()

    def _run(self) -> bool:
        self.stop.listen()
        self._start()
        try:
            while not self._is_over():
                self._turn()
                reset_queries()
            return self._finish()
        finally:
            self._over.set()

    def _turn(self) -> None:
        try:
            claimed = self._pass()
            self.health.good_pass()
            self.kinds.look()
            if not claimed:
                self._sleep_until_work()
            self._patience.success()
        except Exception as error:
            self.bell.wait(self._patience.after(error))

    def join(self, timeout: float) -> bool:
        """Wait, in another thread, until run() has returned."""
        return self._over.wait(timeout)

    def _pass(self) -> int:
        """Give back what waits too long and claim what can start; return how many."""
        check_before_use()
        if self.pool.is_stale:
            self._release(self.pool.take_back())
        self.marker.note()
        claimed = 0
        for lane, kinds in self._lanes():
            room = lane.room() if self.jobs_left is None else min(lane.room(), self.jobs_left)
            if room > 0:
                jobs = self.table().claim(
                    self.name,
                    kinds=kinds,
                    queues=self.options.queues,
                    limit=room,
                    lease=self.options.lease,
                )
                self.holdings.add(jobs)
                lane.feed(jobs)
                claimed += len(jobs)
                self._claimed += len(jobs)
        return claimed

    def _lanes(self) -> list[tuple[Any, list[str]]]:
        """Return who has room for which kinds: threads, and the event loop for coroutines."""
        self._waits_for_settler = self.settler.is_behind
        if self._is_recycling() or self.jobs_left == 0 or self._waits_for_settler:
            return []
        kinds = self.kinds.now()
        on_loop = [kind for kind in kinds if execution.runs_on_event_loop(kind)]
        in_threads = [kind for kind in kinds if kind not in on_loop]
        lanes: tuple[tuple[Any, list[str]], ...] = (
            (self.pool, in_threads),
            (self.coroutines, on_loop),
        )
        return [(lane, kinds) for lane, kinds in lanes if kinds and lane.room()]

    @property
    def jobs_left(self) -> int | None:
        """How many more jobs --max-jobs allows; None is any number."""
        limit = self.options.max_jobs
        return None if limit is None else max(0, limit - self._claimed)

    def _is_recycling(self) -> bool:
        """Does a handler that would not end make this process to be replaced?"""
        return bool(self.attempts.abandoned)

    def _is_over(self) -> bool:
        if self.stop.requested or self._has_lost_a_part():
            return True
        if self.jobs_left == 0 or self._is_recycling():
            return not self.holdings or self._is_held_up()
        if not self.options.drain or self.holdings:
            return False
        return not self._has_due_work()

    def _has_lost_a_part(self) -> bool:
        """Has a thread ended by itself? Without it jobs might be held and never ended."""
        lost = [part.name for part in (*self._parts, *self.pool.threads) if not part.is_alive()]
        if lost and not self.is_broken:
            log.critical("Worker %d has lost %s and gives up.", os.getpid(), ", ".join(lost))
            self.is_broken = True
        return self.is_broken

    def _is_held_up(self) -> bool:
        running = self.pool.taken | self.coroutines.taken
        return self.attempts.are_held_up(running, self.options.lease)

    def _has_due_work(self) -> bool:
        try:
            return bool(self.table().is_due(kinds=self.kinds.now(), queues=self.options.queues))
        except Exception as error:
            self.bell.wait(self._patience.after(error))
            return True

    # Sleeping

    def _sleep_until_work(self) -> None:
        self._busy.look(not self.pool.room(), self.holdings)
        kinds = [kind for _, kinds in self._lanes() for kind in kinds]
        if self.pool.waiting.qsize() or not kinds:
            self._sleep(STALE)
        elif self.options.drain and not self.holdings:
            self._sleep(0.005)
        else:
            self._sleep(self._seconds_to_work(kinds))

    def _seconds_to_work(self, kinds: list[str]) -> float:
        """Return how long nothing will be due, at most one poll with its jitter."""
        poll = self.options.poll * (0.9 + random.random() / 5)
        due = self.table().seconds_to_next(kinds=kinds, queues=self.options.queues)
        # What is due and yet was not claimed, as somebody holds its row, is not worth a rush.
        self._out_of_reach = 0 if due is None or due > 0 else min(self._out_of_reach + 1, 20)
        return poll if due is None else min(poll, max(due, 0.001 * 2**self._out_of_reach))

    def _sleep(self, seconds: float) -> None:
        self.bell.wait(seconds, self.marker.step, self._has_changed)

    def _has_changed(self) -> bool:
        try:
            return self.marker.has_changed()
        except Exception:
            return True

    # What the parts report

    def _ended(self, job: Job, seconds: float) -> None:
        if self.pool.waiting.qsize() <= self.pool.pace.ahead // 2:
            self.bell.ring()

    def _stored(self) -> None:
        self.attempts.moved_at = time.monotonic()
        if not self.holdings or not self.pool.pace.ahead or self._waits_for_settler:
            self.bell.ring()

    def _check_in(self) -> None:
        """Show this worker, unless its loop has made no good pass for long."""
        if self.health.is_good(within=60 + 3 * self.options.poll):
            self.presence.check_in(self.holdings.ended)

    # Beginning and end

    @property
    def _parts(self) -> list[Any]:
        parts = [self.settler, self.renewal, self.housekeeping, self.attempts.timeouts]
        return [*parts, self.coroutines, *([self.listener] if self.listener else [])]

    def _start(self) -> None:
        while not self.stop.requested:
            try:
                self.kinds.look()
                self.presence.announce()
                take_back_from_the_dead(self.table())
                # Before the first pass, so that a worker which only drains finds it due.
                sweep(self.table())
                schedules.sync(self.alias)
                break
            except (OperationalError, InterfaceError) as error:
                self.bell.wait(self._patience.after(error))
            except Exception as error:
                self._patience.after(error)
                break
        self.pool.start()
        for part in self._parts:
            part.start()

    def _finish(self) -> bool:
        """Let what runs end within the grace period, give the rest back, end all threads."""
        if self.stop.requested:
            log.info("Worker %d was asked to stop; %d jobs run.", os.getpid(), len(self.holdings))
        until = (self.stop.asked_at or time.monotonic()) + self.options.grace
        if waiting := self.pool.take_back():
            within(3.0, lambda: self._release(waiting), self._patience)
        while self.holdings and time.monotonic() < until and not self._is_held_up():
            if self.stop.forced or self.is_broken:
                break
            self.bell.wait(min(0.25, self.options.grace))
        hung = self.attempts.abandoned
        # One of them may be why a part was lost: their attempts count, and their leases end.
        left = [] if self.is_broken else self.holdings.all()
        unfinished = [job for job in left if claim_of(job) not in hung]
        if unfinished:
            log.warning("Gives back %d unfinished jobs.", len(unfinished))
            within(3.0, lambda: self._release(unfinished), self._patience)
        self.pool.finish()
        for part in self._parts:
            part.finish()
        ended = self.pool.join(0.2 if unfinished or self._is_recycling() else 2.0)
        until = time.monotonic() + 2.0
        for part in self._parts:
            part.join(max(0.0, until - time.monotonic()))
        within(2.0, self.presence.check_out, self._patience)
        self.identity.retire()
        close_connections()
        self.stop.restore()
        log.info("Worker %d has stopped.", os.getpid())
        return ended and not any(part.is_alive() for part in self._parts)

    def _release(self, jobs: list[Job]) -> None:
        """Move claimed jobs back to ready, their attempts given back."""
        if not jobs:
            return
        self._claimed -= len(jobs)
        given_back = [(job, Outcome(move="release", reason=None)) for job in jobs]
        with self.holdings.ending(jobs):
            try:
                self.table().settle_many(given_back)
            except Exception as error:
                self._patience.after(error)
                log.warning("%d jobs could not be given back; their leases will end.", len(jobs))
            self.holdings.drop(jobs)
