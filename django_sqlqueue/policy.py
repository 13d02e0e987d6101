"""Pure decisions: no database and no clock is touched here."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from . import lifecycle
from .durations import clamp
from .lifecycle import FAILED, MOVES, READY, Move
from .reasons import one_line

DEADLINE_PASSED = "deadline_passed"
LEASE_EXPIRED = "lease_expired"
NO_HANDLER = "no_handler"
DAMAGED_PAYLOAD = "damaged_payload"
TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a job waits after a failed attempt: base · factor^(attempt−1), capped, plus jitter.

    `base` and `cap` are in seconds; `jitter` is the largest share of the delay added at random.
    """

    base: float = 30
    factor: float = 2
    cap: float = 3600
    jitter: float = 0.1

    def curve(self, attempt: int) -> float:
        """Return the delay in seconds after this attempt (from 1), before jitter."""
        try:
            # As a float: a power of integers would be exact, and endless.
            delay = self.base * float(self.factor) ** (max(attempt, 1) - 1)
        except OverflowError:
            delay = self.cap if self.base > 0 else 0
        return clamp(min(delay, self.cap))

    def __call__(self, attempt: int) -> float:
        """Return the delay in seconds after this attempt (from 1), with jitter."""
        return clamp(self.curve(attempt) * (1 + self.jitter * random.random()))


BackoffLike = Backoff | Callable[[int], float]


class Claimed(Protocol):
    """What a decision needs to know of a claimed job."""

    attempts: int
    max_attempts: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended: the move that settles it and what the move writes.

    `delay` is in seconds from the moment of settling; `result` is JSON text, None writes nothing;
    a `reason` of None leaves the present one.
    """

    move: str
    reason: str | None = ""
    delay: float | None = None
    run_at: datetime | None = None
    result: str | None = None
    traceback: str = ""
    skipped: bool = False
    """Was this occurrence of a schedule passed over, without a call of the handler?"""


COMPLETED = Outcome(move="complete")
"""A success without a result."""


def failure(
    job: Claimed, reason: str, delay: float, traceback: str = "", result: str | None = None
) -> Outcome:
    """Return what a failed attempt leads to: a retry while attempts remain, else the end."""
    move = "retry" if attempts_left(job) else "abandon"
    return Outcome(
        move=move,
        reason=reason,
        delay=delay if move == "retry" else None,
        traceback=traceback,
        result=result,
    )


Claim = tuple[int, int]


def claim_of(job: Any) -> Claim:
    """Return what names a claim, (id, claims), as it was when the job was claimed.

    A handler may do to its object what it likes: refresh it, delete it, make a copy of it.
    """
    return job.__dict__.get("_claim") or (job.id, job.claims)


def attempts_left(job: Claimed) -> bool:
    return job.attempts < job.max_attempts


def lost(job: Claimed) -> Outcome:
    """Return what the sweep does with a job whose runner is gone."""
    if attempts_left(job):
        return Outcome(move="reclaim", reason=LEASE_EXPIRED)
    return Outcome(move="expire", reason=LEASE_EXPIRED)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The next due time of a schedule, and how many were passed over on the way."""

    due_at: datetime
    missed: int = 0


class Settlement(NamedTuple):
    """The end of one claim, as the engines write it; the fence is (job_id, claims).

    None leaves a column as it is, save for last_error, which is always written. A `delay` (in
    seconds) is counted from the clock of the write.
    """

    job_id: int
    claims: int
    move: Move
    status: str
    attempts: int
    reason: str = ""
    result: str | None = None
    delay: float | None = None
    run_at: datetime | None = None
    due_at: datetime | None = None
    deadline: datetime | None = None
    missed: int = 0


def settlement(job: Any, outcome: Outcome, following: Occurrence | None = None) -> Settlement:
    """Return what settling `job` with `outcome` writes.

    `following` is given for a schedule: whatever would end it moves it to that occurrence.
    """
    move = MOVES[outcome.move]
    if following is not None and ends(job, outcome):
        return _advance(job, outcome, following)
    due_at = outcome.run_at if move.name == "reschedule" and job.name else None
    return Settlement(
        job_id=job.id,
        claims=job.claims,
        move=move,
        status=_target(job, move),
        attempts=_attempts(job, move),
        reason=_reason(job, outcome),
        result=outcome.result,
        delay=outcome.delay,
        run_at=outcome.run_at,
        due_at=due_at,
        deadline=_deadline_of(job, due_at),
    )


def ends(job: Claimed, outcome: Outcome) -> bool:
    """Say whether the outcome ends the job, or, for a schedule, its present occurrence."""
    return _target(job, MOVES[outcome.move]) in lifecycle.SETTLED


def _advance(job: Any, outcome: Outcome, following: Occurrence) -> Settlement:
    return Settlement(
        job_id=job.id,
        claims=job.claims,
        move=MOVES["advance"],
        status=READY,
        attempts=0,
        reason=_reason(job, outcome),
        result=outcome.result,
        run_at=following.due_at,
        due_at=following.due_at,
        deadline=_deadline_of(job, following.due_at),
        missed=following.missed,
    )


def _deadline_of(schedule: Any, due_at: datetime | None) -> datetime | None:
    """Return the deadline of a schedule's occurrence at `due_at`."""
    if due_at is None or schedule.lifetime is None:
        return None
    deadline: datetime = due_at + schedule.lifetime
    return deadline


def _reason(job: Any, outcome: Outcome) -> str:
    if outcome.reason is None:
        return str(job.last_error)
    return one_line(outcome.reason) if outcome.reason else ""


def _target(job: Claimed, move: Move) -> str:
    if move.name == "reset":
        return READY if attempts_left(job) else FAILED
    return move.targets[0]


def _attempts(job: Claimed, move: Move) -> int:
    if move.attempts == "=0":
        return 0
    return max(job.attempts - 1, 0) if move.attempts == "-1" else job.attempts
