"""Putting jobs in: enqueue, enqueue_many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django.db.models.fields import NOT_PROVIDED

from .. import payloads
from ..conf import settings
from ..durations import Seconds, to_seconds
from ..engines import Engine
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
from .instances import instance

if TYPE_CHECKING:
    from ..models import Job

COLUMNS = (
    "kind", "queue", "priority", "dedup_key", "ref", "payload", "run_at", "deadline",
    "max_attempts",
)  # fmt: skip
DECIDED = ("id", "created_at", "run_at", "deadline")
"""What the database decides of a new row; the rest of it is known."""
DECIDED_OF_DUE = DECIDED[:2]
"""The same where a job is due when it is created, and has no deadline.

Both instants are the clock's of one statement then, on every engine.
"""
INSTANTS = ("run_at", "deadline", "created_at")
NOW = After()
KIND, DEDUP_KEY, PAYLOAD, RUN_AT, DEADLINE = map(
    COLUMNS.index, ("kind", "dedup_key", "payload", "run_at", "deadline")
)


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
        row = _row(
            kind, payload, dedup_key, ref, queue, priority, run_at, delay, deadline, max_attempts
        )
        engine, notify = self.engine, settings.NOTIFY
        _check_size(engine, [row])
        is_due = row[RUN_AT] is NOW and row[DEADLINE] is None
        asked = DECIDED_OF_DUE if is_due else DECIDED
        decided = engine.retrying(lambda: engine.insert_one(COLUMNS, row, asked, notify))
        if decided is None:
            return None
        return self._new_job(engine, row, dict(zip(asked, decided, strict=True)))

    def _new_job(self, engine: Engine, row: tuple[Any, ...], decided: dict[str, Any]) -> Job:
        values = dict(_defaults(self.model))
        values.update(zip(COLUMNS, row, strict=True))
        values.update(decided, run_at=decided.get("run_at"))
        if (read := engine.instant_reader()) is not None:
            for name in INSTANTS:
                if values[name] is not None:
                    values[name] = read(values[name])
        values["run_at"] = values["run_at"] or values["created_at"]
        values["updated_at"] = values["created_at"]
        values["payload"] = payloads.load(values["payload"])
        job: Job = instance(self.model, engine.connection.alias, values)
        return job

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
        engine = self.engine
        _check_size(engine, rows)
        size = engine.rows_at_once(len(COLUMNS))
        batches = list(in_batches(rows, size, itemgetter(PAYLOAD)))

        def insert_batches() -> list[Any]:
            with engine.unit():
                return [engine.insert(COLUMNS, batch, None, returning) for batch in batches]

        inserted = engine.retrying(insert_batches) if rows else []
        if any(inserted):
            self.wake_workers()
        return inserted


def _check_size(engine: Engine, rows: list[tuple[Any, ...]]) -> None:
    for row in rows:
        text = row[PAYLOAD]
        if len(text) > TEXT_AT_ONCE and not engine.takes(text):
            raise InvalidJob(
                "payload",
                f"takes {len(text):,} bytes as JSON, more than the database server takes at "
                "once; store the data elsewhere and pass its id.",
            )


@cache
def _defaults(model: Any) -> dict[str, Any]:
    """Return what the columns of a new row hold by default."""
    return {
        field.column: None if field.db_default is NOT_PROVIDED else field.db_default
        for field in model._meta.concrete_fields
    }


def _lock_order(row: tuple[Any, ...]) -> tuple[str, str]:
    key = row[DEDUP_KEY]
    return ("", "") if key is None else (row[KIND], key)


def row_of(job: NewJob) -> tuple[Any, ...]:
    """Return the values of COLUMNS for a new job; raises InvalidJob for bad input."""
    return _row(
        job.kind, job.payload, job.dedup_key, job.ref, job.queue, job.priority, job.run_at,
        job.delay, job.deadline, job.max_attempts,
    )  # fmt: skip


def _row(
    kind: Any, payload: Any, dedup_key: Any, ref: Any, queue: Any, priority: Any, run_at: Any,
    delay: Any, deadline: Any, max_attempts: Any,
) -> tuple[Any, ...]:  # fmt: skip
    kind = check_text("kind", kind)
    known = options_of(kind)
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
        None if dedup_key is None else check_text("dedup_key", dedup_key),
        check_text("ref", ref, blank=True),
        payload_text(payload),
        _run_at(run_at, delay),
        _deadline(deadline),
        check_max_attempts(max_attempts),
    )


def payload_text(payload: Any) -> str:
    """Return a payload as JSON text; None is an empty object."""
    if payload is None:
        return "{}"
    return payloads.dump(payload, "payload", settings.MAX_PAYLOAD_BYTES)


def _run_at(run_at: Any, delay: Any) -> datetime | After:
    if run_at is None:
        return NOW if delay is None else After(to_seconds("delay", delay))
    if delay is not None:
        raise InvalidJob("run_at", "and delay say the same thing; give one of them.")
    return check_instant("run_at", run_at)


def _deadline(deadline: Any) -> datetime | After | None:
    if deadline is None:
        return None
    if isinstance(deadline, timedelta):
        return After(to_seconds("deadline", deadline))
    return check_instant("deadline", deadline)
