"""Putting jobs in: enqueue, enqueue_many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models.fields import NOT_PROVIDED

from .. import payloads
from ..conf import settings
from ..durations import Seconds, to_seconds
from ..engines.base import TEXT_AT_ONCE
from ..engines.instants import After
from ..exceptions import InvalidJob
from ..kinds import options_of
from ..newjob import (
    NewJob,
    check_instant,
    check_max_attempts,
    check_priority,
    check_queue,
    check_text,
)
from .base import PinnedQuerySet, in_batches

if TYPE_CHECKING:
    from ..models import Job

COLUMNS = (
    "kind", "queue", "priority", "dedup_key", "ref", "payload", "run_at", "deadline",
    "max_attempts",
)  # fmt: skip
DECIDED = ("id", "run_at", "deadline", "created_at", "updated_at")
"""What the database decides of a new row; the rest of it is known."""
KIND, DEDUP_KEY, PAYLOAD = map(COLUMNS.index, ("kind", "dedup_key", "payload"))


class Enqueueing(PinnedQuerySet):
    def enqueue(
        self,
        kind: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        ref: str = "",
        queue: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: Seconds | timedelta | None = None,
        deadline: datetime | timedelta | None = None,
        max_attempts: int | None = None,
    ) -> Job | None:
        """Insert a ready job, in the caller's transaction, and return it.

        None means that a live job already holds (kind, dedup_key); nothing is written then and
        the transaction stays usable. While another transaction is about to insert the same key
        this waits for its end. Raises InvalidJob for bad input, before any SQL.

        Options left None come from the kind's handler where it is known here, else from the
        settings. `delay` is seconds or a timedelta; `deadline` an instant or a timedelta from now.
        """
        row = row_of(
            NewJob(
                kind, payload, dedup_key, ref, queue, priority, run_at, delay, deadline,
                max_attempts,
            )
        )  # fmt: skip
        self._check_size([row])
        engine = self.engine
        inserted: Any = engine.retrying(lambda: engine.insert(COLUMNS, [row], None, DECIDED))
        if not inserted:
            return None
        self.wake_workers()
        return self._new_job(row, inserted[0])

    def _new_job(self, row: tuple[Any, ...], decided: Sequence[Any]) -> Job:
        defaults, positions = _layout(self.model)
        values = list(defaults)
        for position, value in zip(positions, (*row, *decided), strict=True):
            values[position] = value
        return self.from_rows([values])[0]

    def enqueue_many(self, jobs: Iterable[NewJob | tuple[str, Any]]) -> int:
        """Insert jobs and return how many; those whose key a live job holds are left out.

        One INSERT for each chunk, in the caller's transaction, or else all or nothing. Jobs with
        a key are inserted in the order of their keys, so that two callers cannot deadlock.
        Raises InvalidJob for bad input, before any SQL.
        """
        return sum(self._insert_all(jobs, ()))

    def create_many(self, jobs: Iterable[NewJob | tuple[str, Any]]) -> list[Job]:
        """Insert jobs as enqueue_many does and return those that were inserted, oldest id first."""
        inserted = self._insert_all(jobs, self.columns)
        created = self.from_rows(row for rows in inserted for row in rows)
        return sorted(created, key=lambda job: job.id)

    def _insert_all(
        self, jobs: Iterable[NewJob | tuple[str, Any]], returning: Sequence[str]
    ) -> list[Any]:
        """Insert jobs, all or none; return what the engine returns for each batch."""
        rows = [row_of(job if isinstance(job, NewJob) else NewJob(*job)) for job in jobs]
        rows.sort(key=_lock_order)
        self._check_size(rows)
        engine = self.engine
        size = engine.rows_at_once(len(COLUMNS))
        batches = list(in_batches(rows, size, itemgetter(PAYLOAD)))

        def insert_batches() -> list[Any]:
            with engine.unit():
                return [engine.insert(COLUMNS, batch, None, returning) for batch in batches]

        inserted = engine.retrying(insert_batches) if rows else []
        if any(inserted):
            self.wake_workers()
        return inserted

    def _check_size(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            text = row[PAYLOAD]
            if len(text) > TEXT_AT_ONCE and not self.engine.takes(text):
                raise InvalidJob(
                    "payload",
                    f"takes {len(text):,} bytes as JSON, more than the database server takes at "
                    "once; store the data elsewhere and pass its id.",
                )

    def wake_workers(self) -> None:
        """Wake idle workers when the present transaction commits, once for all its jobs."""
        engine = self.engine
        if not (engine.notifies and settings.NOTIFY):
            return
        connection = engine.connection
        if not (connection.in_atomic_block or connection.get_autocommit()):
            # A transaction that the caller manages by hand has no hook for its commit.
            return
        connection._sqlqueue_wake = True

        def wake() -> None:
            if connection.__dict__.pop("_sqlqueue_wake", False):
                engine.notify()

        transaction.on_commit(wake, using=connection.alias, robust=True)


@cache
def _layout(model: Any) -> tuple[list[Any], list[int]]:
    """Return what the columns of a new row hold by default, and where the others stand."""
    fields = model._meta.concrete_fields
    defaults = [None if field.db_default is NOT_PROVIDED else field.db_default for field in fields]
    columns = [field.column for field in fields]
    return defaults, [columns.index(name) for name in COLUMNS + DECIDED]


def _lock_order(row: tuple[Any, ...]) -> tuple[str, str]:
    key = row[DEDUP_KEY]
    return ("", "") if key is None else (row[KIND], key)


def row_of(job: NewJob) -> tuple[Any, ...]:
    """Return the values of COLUMNS for a new job; raises InvalidJob for bad input."""
    kind = check_text("kind", job.kind)
    known = options_of(kind)
    queue, priority, max_attempts = job.queue, job.priority, job.max_attempts
    if queue is None:
        queue = known.queue or "default"
    if priority is None:
        priority = known.priority or 0
    if max_attempts is None:
        max_attempts = known.max_attempts or settings.MAX_ATTEMPTS
    return (
        kind,
        check_queue(queue),
        check_priority(priority),
        None if job.dedup_key is None else check_text("dedup_key", job.dedup_key),
        check_text("ref", job.ref, blank=True),
        payload_text(job.payload),
        _run_at(job),
        _deadline(job.deadline),
        check_max_attempts(max_attempts),
    )


def payload_text(payload: Any) -> str:
    """Return a payload as JSON text; None is an empty object."""
    if payload is None:
        return "{}"
    return payloads.dump(payload, "payload", settings.MAX_PAYLOAD_BYTES)


def _run_at(job: NewJob) -> datetime | After:
    if job.run_at is None:
        return After(0.0 if job.delay is None else to_seconds("delay", job.delay))
    if job.delay is not None:
        raise InvalidJob("run_at", "and delay say the same thing; give one of them.")
    return check_instant("run_at", job.run_at)


def _deadline(deadline: Any) -> datetime | After | None:
    if deadline is None:
        return None
    if isinstance(deadline, timedelta):
        return After(to_seconds("deadline", deadline))
    return check_instant("deadline", deadline)
