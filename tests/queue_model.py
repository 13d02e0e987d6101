"""What the queue promises, in plain Python: no table, no SQL."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

LIVE = ("ready", "running")
SETTLED = ("done", "failed", "cancelled")

SERVER = datetime(1, 1, 1, tzinfo=UTC)
"""Stands for an instant that the database's clock gave, until it is read back."""

BASE_DELAY = 30
LONGEST_DELAY = 3600


@dataclass
class ModelJob:
    """A row as it must be; `asked` is whether it was asked to stop."""

    id: int
    kind: str
    queue: str = "default"
    priority: int = 0
    dedup_key: str | None = None
    payload: Any = field(default_factory=dict)
    status: str = "ready"
    run_at: datetime = SERVER
    attempts: int = 0
    max_attempts: int = 5
    deadline: datetime | None = None
    lease_until: datetime | None = None
    lease_owner: str | None = None
    claims: int = 0
    last_error: str = ""
    result: Any = None
    name: str | None = None
    interval: timedelta | None = None
    missed: str = "once"
    missed_count: int = 0
    due_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    asked: bool = False
    over_budget: bool = False
    """Was it put back by a call that does not ask for the budget?"""

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    @property
    def twin(self) -> tuple[str, str] | None:
        return None if self.dedup_key is None else (self.kind, self.dedup_key)

    def below(self, uri: str) -> bool:
        own = self.payload.get("uri")
        return own is not None and (own == uri or own.startswith(uri + "/"))


@dataclass(frozen=True)
class Claim:
    """What a runner knows of a job since it claimed it."""

    id: int
    claims: int
    attempts: int
    max_attempts: int
    last_error: str
    due_at: datetime | None
    started_at: datetime


class Model:
    """The table, by id."""

    def __init__(self) -> None:
        self.jobs: dict[int, ModelJob] = {}

    def live_twins(self) -> set[tuple[str, str]]:
        return {job.twin for job in self.jobs.values() if job.is_live and job.twin}

    def add(self, job: ModelJob) -> None:
        self.jobs[job.id] = job

    # Claims

    def due(self, kinds: Collection[str] | None, now: datetime) -> list[ModelJob]:
        ready = (job for job in self.jobs.values() if job.status == "ready" and job.run_at <= now)
        served = (job for job in ready if kinds is None or job.kind in kinds)
        return sorted(served, key=lambda job: (-job.priority, job.run_at, job.id))

    def claim(self, job: ModelJob, owner: str, lease: int, now: datetime) -> Claim:
        job.status, job.lease_owner = "running", owner
        job.lease_until, job.started_at = now + timedelta(seconds=lease), now
        job.attempts += 1
        job.claims += 1
        return self.view(job)

    def view(self, job: ModelJob) -> Claim:
        started_at = job.started_at or job.run_at
        return Claim(
            job.id, job.claims, job.attempts, job.max_attempts, job.last_error, job.due_at,
            started_at,
        )  # fmt: skip

    def held(self, claim: Claim) -> ModelJob | None:
        job = self.jobs.get(claim.id)
        if job is None or job.status != "running" or job.claims != claim.claims:
            return None
        return job

    def expired(self, now: datetime) -> list[ModelJob]:
        running = (job for job in self.jobs.values() if job.status == "running")
        return [job for job in running if job.lease_until is not None and job.lease_until <= now]

    # Ends of claims

    def settle(
        self,
        claim: Claim,
        move: str,
        now: datetime,
        *,
        reason: str | None = "",
        run_at: datetime | None = None,
        result: Any = None,
        stamp: datetime | None = None,
    ) -> bool:
        """End a claim if it is held; `stamp` is what finished_at gets where that is not now."""
        job = self.held(claim)
        if job is None:
            return False
        targets = {"complete": "done", "abandon": "failed", "expire": "failed"}
        status = targets.get(move, "ready")
        if move == "reset" and claim.attempts >= claim.max_attempts:
            status = "failed"
        job.last_error = claim.last_error if reason is None else reason
        job.result = job.result if result is None else result
        if job.name is not None and status in SETTLED:
            self._advance(job, claim, now)
            status = "ready"
        else:
            self._count(job, claim, move)
            job.run_at = run_at or job.run_at
            if move == "reschedule" and job.name is not None:
                assert run_at is not None
                self._move_occurrence(job, run_at)
        job.lease_owner = job.lease_until = None
        job.status = "cancelled" if job.asked else status
        job.finished_at = (stamp or now) if job.status in SETTLED else None
        return True

    def _count(self, job: ModelJob, claim: Claim, move: str) -> None:
        if move in ("defer", "release"):
            job.attempts = max(claim.attempts - 1, 0)
        elif move == "reschedule":
            job.attempts, job.over_budget = 0, False
        job.over_budget |= move == "retry" and job.attempts >= job.max_attempts

    def _advance(self, job: ModelJob, claim: Claim, now: datetime) -> None:
        assert job.interval is not None
        assert claim.due_at is not None
        due_at, passed_over = claim.due_at + job.interval, 0
        if job.missed != "all":
            while due_at <= claim.started_at or due_at + job.interval <= now:
                due_at += job.interval
                passed_over += 1
        self._move_occurrence(job, due_at)
        job.missed_count += passed_over
        job.attempts, job.over_budget = 0, False

    def _move_occurrence(self, job: ModelJob, due_at: datetime) -> None:
        if job.deadline is not None:
            assert job.due_at is not None
            job.deadline = due_at + (job.deadline - job.due_at)
        job.run_at = job.due_at = due_at

    def failure(self, claim: Claim, now: datetime) -> tuple[str, datetime | None]:
        """Return the move of a failed attempt, and when it runs again."""
        if claim.attempts >= claim.max_attempts:
            return "abandon", None
        delay = min(BASE_DELAY * 2 ** (claim.attempts - 1), LONGEST_DELAY)
        return "retry", now + timedelta(seconds=delay)

    # What people do

    def cancel(self, ids: Collection[int]) -> int:
        moved = 0
        for job in self.jobs.values():
            if job.id in ids and job.is_live and not job.asked:
                moved, job.asked = moved + 1, True
                if job.status == "ready":
                    job.status, job.finished_at = "cancelled", SERVER
        return moved

    def requeue(self, job: ModelJob) -> None:
        job.status, job.run_at, job.attempts = "ready", SERVER, 0
        job.last_error, job.result = "", None
        job.asked = job.over_budget = False
        job.finished_at = None

    def to_requeue(self, ids: Collection[int]) -> list[list[int]]:
        """Return groups of ids; of each one job goes back to ready."""
        groups: dict[Any, list[int]] = {}
        for job in self.jobs.values():
            if job.id in ids and job.status in SETTLED and job.twin not in self.live_twins():
                groups.setdefault(job.twin or job.id, []).append(job.id)
        return list(groups.values())

    def delete(self, ids: Collection[int]) -> int:
        for pk in ids:
            del self.jobs[pk]
        return len(ids)

    def settled_before(self, before: datetime, statuses: Collection[str]) -> list[int]:
        return [
            job.id
            for job in self.jobs.values()
            if job.status in statuses and job.finished_at is not None and job.finished_at < before
        ]

    def schedule(self, job: ModelJob, interval: timedelta, run_at: datetime, lifetime: Any) -> None:
        """Change a schedule that is there."""
        job.asked = False
        if job.status in SETTLED:
            job.status, job.last_error, job.finished_at = "ready", "", None
            job.attempts, job.run_at, job.due_at = 0, run_at, run_at
            job.over_budget = False
        elif job.status == "ready" and job.interval != interval:
            job.attempts, job.run_at, job.due_at = 0, run_at, run_at
            job.over_budget = False
        job.interval = interval
        due_at = job.due_at or job.run_at
        job.deadline = None if lifetime is None else due_at + lifetime
