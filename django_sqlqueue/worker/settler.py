"""Storing outcomes: in groups under load, at once when idle, again until stored."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db import Error, reset_queries

from .. import reasons
from ..isolation import check_before_use
from ..managers.base import REFUSED
from ..policy import Outcome
from .holdings import Holdings
from .lines import log_attempts
from .patience import Patience, close_connections

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")

GROUP = 500
GATHER = 0.005
"""Seconds that a group may gather while more jobs wait to start."""

BEHIND = 1000
"""So many outcomes may wait to be stored, beside a group that just is: all that a crash would let
run a second time."""

STUBBORN = 5
"""So many failures without a passing cause may be due to the outcome itself."""

Pair = tuple["Job", Outcome]


class Settler(threading.Thread):
    """A thread with a connection of its own that ends claims in groups."""

    def __init__(
        self, table: Callable[[], Any], holdings: Holdings, busy: Callable[[], bool]
    ) -> None:
        super().__init__(name="sqlqueue-settler", daemon=True)
        self._table, self._holdings, self._busy = table, holdings, busy
        self._outcomes: queue.SimpleQueue[Pair | None] = queue.SimpleQueue()
        self._patience = Patience("Storing outcomes")
        self.on_stored: Callable[[], None] = lambda: None

    def put(self, job: Job, outcome: Outcome) -> None:
        self._outcomes.put((job, outcome))

    @property
    def backlog(self) -> int:
        return self._outcomes.qsize()

    @property
    def is_behind(self) -> bool:
        """Do jobs run faster than their outcomes are stored?"""
        return self.backlog > BEHIND

    def finish(self) -> None:
        """Store what is left and end; join() waits for it."""
        self._outcomes.put(None)

    def run(self) -> None:
        try:
            while (group := self._next_group()) is not None:
                check_before_use()
                self._store(group)
                reset_queries()
                self.on_stored()
        finally:
            close_connections()

    def _next_group(self) -> list[Pair] | None:
        first = self._outcomes.get()
        if first is None:
            return None
        if self._busy():
            time.sleep(GATHER)
        group = [first]
        while len(group) < GROUP:
            try:
                pair = self._outcomes.get_nowait()
            except queue.Empty:
                break
            if pair is None:
                self._outcomes.put(None)
                break
            group.append(pair)
        return group

    def _store(self, group: list[Pair]) -> None:
        """Store a group, again and again while the database is away and the claims are held."""
        tries = 0
        while group := [pair for pair in group if self._holdings.holds(pair[0])]:
            error = self._try(group)
            if error is None:
                return
            tries += 1
            if _is_refusal(error) or (tries >= STUBBORN and not self._is_passing(error)):
                if len(group) > 1:
                    for pair in group:
                        self._store([pair])
                    return
                if self._store_reduced(*group[0], error):
                    return
            time.sleep(self._patience.after(error, _named(group)))

    def _try(self, group: list[Pair]) -> Exception | None:
        with self._holdings.ending(job for job, _ in group):
            try:
                stored = self._table().settle_many(group)
            except Exception as error:
                return error
            self._patience.success()
            self._report(group, stored)
        return None

    def _is_passing(self, error: Exception) -> bool:
        """Say whether the error tells of the moment, and not of the outcome."""
        engine = self._table().engine
        return bool(engine.is_conflict(error) or engine.is_connection_lost(error))

    def _store_reduced(self, job: Job, outcome: Outcome, error: Exception) -> bool:
        """Store the least of a refused outcome; True also where it is given up."""
        name = reasons.class_path(type(error))
        reduced = reduce(outcome, error)
        again = error if reduced == outcome else self._try([(job, reduced)])
        if again is None:
            log.warning(
                "The outcome of job %d (%s) was stored without its details, which were refused"
                " (%s).", job.id, job.kind, name,
            )  # fmt: skip
            return True
        if not _is_refusal(again):
            return False
        log.error(
            "The outcome of job %d (%s) cannot be stored (%s); its lease will end.",
            job.id, job.kind, name,
        )  # fmt: skip
        self._holdings.drop([job])
        return True

    def _report(self, group: list[Pair], stored: dict[int, str]) -> None:
        self._holdings.drop(job for job, _ in group)
        # A log handler of the project may raise, and only this thread ends claims.
        with contextlib.suppress(Exception):
            self._log(group, stored)

    def _log(self, group: list[Pair], stored: dict[int, str]) -> None:
        log_attempts(pair for pair in group if pair[0].id in stored)
        for job, _ in group:
            if job.id not in stored:
                log.warning(
                    "Job %d (%s, queue %s) was settled by someone else: its claim was lost.",
                    job.id, job.kind, job.queue,
                )  # fmt: skip


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, REFUSED) or not isinstance(error, Error)


def _named(group: list[Pair]) -> str:
    more = f" and {len(group) - 5} more" if len(group) > 5 else ""
    return f" of jobs {', '.join(str(job.id) for job, _ in group[:5])}{more}"


def reduce(outcome: Outcome, error: Exception) -> Outcome:
    """Return the least that must be stored of an outcome whose details are refused."""
    reason = outcome.reason
    if outcome.traceback or outcome.reason:
        reason = f"outcome_not_stored ({type(error).__name__})"
    return replace(outcome, reason=reason, result=None, traceback="")
