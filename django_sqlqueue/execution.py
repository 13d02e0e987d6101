"""One attempt: find the handler, call it, turn what happened into an outcome, settle it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections

from . import discovery, occurrences, policy, reasons
from .conf import settings
from .engines import engine_for
from .engines.instants import as_aware
from .exceptions import Abandon, ClaimLost, Defer, JobTimeout, Retry
from .fields import DamagedJSON
from .handlers import Handler, handler_of
from .isolation import check_before_use, isolated, leave_blocks
from .kinds import options_of
from .policy import Outcome

if TYPE_CHECKING:
    from .models import Job

log = logging.getLogger("django_sqlqueue")


def attempt(
    job: Job,
    now: datetime | None = None,
    within: Callable[[], AbstractContextManager[None]] = isolated,
) -> Outcome | None:
    """Run one attempt of a claimed job and return its outcome, for the caller to settle.

    None means that it is settled already: by the handler itself, or as an atomic handler's
    completion committed with its effects, or the claim was lost and the effects were rolled
    back. Whatever the handler raises becomes an outcome; nothing passes through. `within` keeps
    what it leaves behind in connections from what comes after it.
    """
    try:
        found = _before(job)
        if isinstance(found, Outcome):
            return found
        with within():
            if options_of(job.kind).atomic:
                _call_atomically(found, job, now)
                return None
            returned = _call(found, job)
            return None if _ended_by_handler(job) else _completed(job, returned)
    except ClaimLost:
        log.warning("Job %d (%s) lost its claim; its effects were rolled back.", job.id, job.kind)
        job.__dict__["_claim_lost"] = True
        return None
    except BaseException as error:
        return outcome_of(job, error)


async def attempt_coroutine(job: Job) -> Outcome | None:
    """Run one attempt of a job whose handler is a coroutine, on the running event loop."""
    try:
        found = await sync_to_async(_before_in_its_thread)(job)
        if isinstance(found, Outcome):
            return found
        try:
            returned = await found.function(job)
        finally:
            _name_by_its_claim(job)
        ended = "_ended_by" in job.__dict__ and await sync_to_async(_ended_by_handler)(job)
        return None if ended else _completed(job, returned)
    except asyncio.CancelledError as error:
        return timed_out(job) if job.__dict__.get("_timed_out") else outcome_of(job, error)
    except BaseException as error:
        return outcome_of(job, error)


def _before_in_its_thread(job: Job) -> Handler | Outcome:
    """Do it in the thread in which the synchronous parts of coroutines run."""
    check_before_use()
    return _before(job)


def runs_on_event_loop(kind: str) -> bool:
    """Say whether attempts of this kind wait on an event loop instead of holding a thread.

    An atomic handler's transaction belongs to a thread, so a coroutine that is one holds it.
    """
    found = handler_of(kind)
    return found is not None and found.is_coroutine and not found.options.atomic


def timeout_of(job: Job) -> float | None:
    """Return the seconds that one attempt of the job may take; None is without limit."""
    timeout = options_of(job.kind).timeout
    return timeout(job) if callable(timeout) else timeout


def timed_out(job: Job) -> Outcome:
    """Return the outcome of an attempt that is ended without its handler."""
    return policy.failure(job, policy.TIMEOUT, table_of(job).backoff(job))


def run(job: Job, now: datetime | None = None) -> str | None:
    """Run and settle one attempt; return the move that ended it, None where the claim was lost."""
    outcome = attempt(job, now)
    if outcome is None:
        return None
    return outcome.move if table_of(job).settle(job, outcome, now) else None


def table_of(job: Job) -> Any:
    return type(job).objects.using(job._state.db)


def _before(job: Job) -> Handler | Outcome:
    """Return the handler, or the outcome of a job that must not be run."""
    if time.monotonic() > job.__dict__.get("_held_until", math.inf):
        # This process stood still since the claim: another may be at the job by now.
        log.warning("Job %d (%s, queue %s) is not begun: its lease is over.",
                    job.id, job.kind, job.queue)  # fmt: skip
        return Outcome(move="release", reason=None)
    if job.deadline is not None and _claimed_at(job) > as_aware(job.deadline):
        return Outcome(move="abandon", reason=policy.DEADLINE_PASSED)
    if isinstance(job.payload, DamagedJSON):
        return Outcome(move="abandon", reason=policy.DAMAGED_PAYLOAD)
    found = discovery.resolve(job)
    if found is None:
        return Outcome(move="abandon", reason=policy.NO_HANDLER)
    return found if job.name is None else _not_to_run(job) or found


def _claimed_at(job: Job) -> datetime:
    return as_aware(job.started_at or job.run_at)


def _not_to_run(job: Job) -> Outcome | None:
    """Return the outcome of an occurrence that the schedule passes over, or that must wait."""
    if not job.cron and job.interval is None:
        return None
    due_at, started_at = as_aware(job.due_at or job.run_at), _claimed_at(job)
    try:
        missed = occurrences.is_missed(occurrences.rhythm_of(job), due_at, started_at)
    except Exception as error:
        # Another worker may have what it takes, such as the extra for cron.
        log.error(
            "The rhythm of schedule %r cannot be read here (%s); it is put off.",
            job.name, reasons.class_path(type(error)),
        )  # fmt: skip
        return Outcome(move="defer", delay=occurrences.PUT_OFF.total_seconds(), reason=None)
    if missed and job.missed == "skip" and job.attempts == 1:
        return Outcome(move="complete", skipped=True)
    return None


def _call(found: Handler, job: Job) -> Any:
    """Call the handler in a fresh context; a coroutine is awaited."""
    try:
        value = contextvars.Context().run(found.function, job)
        if value is not None and inspect.isawaitable(value):
            return contextvars.Context().run(async_to_sync(_await), value)
        return value
    finally:
        _name_by_its_claim(job)


def _name_by_its_claim(job: Job) -> None:
    """Undo what a handler has made of the id: a deleted object has none."""
    job.id, job.claims = policy.claim_of(job)


async def _await(value: Any) -> Any:
    return await value


def _call_atomically(found: Handler, job: Job, now: datetime | None) -> None:
    """Run an atomic handler: its effects and the completion commit together or not at all."""
    connection = connections[table_of(job).db]
    job.__dict__["_in_atomic_handler"] = True
    try:
        with engine_for(connection).transaction():
            depth = len(connection.atomic_blocks)
            returned = _call(found, job)
            # Within a block that the handler left open the completion would be rolled back.
            leave_blocks(connection, depth)
            outcome = _completed(job, returned)
            if not _ended_by_handler(job) and not table_of(job).settle(job, outcome, now):
                raise ClaimLost
    finally:
        del job.__dict__["_in_atomic_handler"]


def _ended_by_handler(job: Job) -> bool:
    """Say whether the handler settled its job by itself, and has not rolled that back."""
    return "_ended_by" in job.__dict__ and not table_of(job).claimed(job).exists()


def _completed(job: Job, returned: Any) -> Outcome:
    result = None if returned is None else table_of(job).kept(job, returned)
    result = _result(job) if result is None else result
    return policy.COMPLETED if result is None else Outcome(move="complete", result=result)


def _result(job: Job) -> str | None:
    return job.__dict__.get("_result_to_store")


def outcome_of(job: Job, error: BaseException) -> Outcome:
    """Turn what a handler raised into the outcome of its attempt."""
    if isinstance(error, Defer):
        return Outcome(move="defer", delay=error.delay, reason=None, result=_result(job))
    trace = reasons.trace(error, messages=settings.STORE_MESSAGES)
    if isinstance(error, Abandon):
        return _abandoned(job, error.reason, trace)
    if isinstance(error, Retry):
        delay = table_of(job).backoff(job) if error.delay is None else error.delay
        return policy.failure(job, error.reason, delay, trace, _result(job))
    reason = _reason(job, error)
    if not isinstance(error, Exception):
        return _abandoned(job, reason, trace)
    return policy.failure(job, reason, table_of(job).backoff(job), trace, _result(job))


def _abandoned(job: Job, reason: str, trace: str) -> Outcome:
    return Outcome(move="abandon", reason=reason, traceback=trace, result=_result(job))


def _reason(job: Job, error: BaseException) -> str:
    if isinstance(error, JobTimeout):
        return policy.TIMEOUT
    return reasons.classify(error, options_of(job.kind).classify, settings.CLASSIFY)
