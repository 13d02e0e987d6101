"""Taking jobs to run, keeping them, and taking back what lost runners held."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction

from ..durations import Seconds, to_seconds
from ..engines.base import ClaimRequest
from ..engines.instants import as_attribute, as_aware
from ..exceptions import InvalidJob
from ..fields import ServerClock
from ..lifecycle import RUNNING
from ..newjob import check_instant, check_text, check_whole
from ..policy import Claim, Outcome, claim_of, lost
from ..reasons import class_path
from .base import REFUSED
from .settling import Settling

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")

BATCH = 200


class Claiming(Settling):
    def claim(
        self,
        owner: str,
        *,
        kinds: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
        limit: int = 1,
        lease: Seconds | timedelta = 30,
        now: datetime | None = None,
    ) -> list[Job]:
        """Move up to `limit` due jobs from ready to running for the runner `owner`.

        The jobs come first by priority, run_at and id; none is of a kind outside `kinds` or of a
        queue outside `queues` (None is any). Each counts as an attempt and holds for `lease`
        (seconds or timedelta). Other runners that claim at the same time are not waited for.
        """
        owner = check_text("owner", owner)
        seconds = to_seconds("lease", lease)
        limit = check_whole("limit", limit, 1, 10_000)
        kinds, queues = _names("kinds", kinds), _names("queues", queues)
        now = _instant(now)
        if kinds == [] or queues == []:
            return []
        engine = self.engine
        request = ClaimRequest(owner, kinds, queues, limit, seconds, now)
        asked = time.monotonic()
        rows = engine.retrying(lambda: engine.claim(request, self.columns))
        jobs = self.from_rows(rows)
        for job in jobs:
            job.__dict__["_claim"] = (job.id, job.claims)
            if now is None:
                job.__dict__["_held_until"] = asked + seconds
        return sorted(jobs, key=lambda job: (-job.priority, as_aware(job.run_at), job.id))

    def claim_next(self, owner: str, **options: Any) -> Job | None:
        """Claim one job; the options are those of claim. None means that nothing is due."""
        jobs = self.claim(owner, limit=1, **options)
        return jobs[0] if jobs else None

    def next_due(
        self, *, kinds: Iterable[str] | None = None, queues: Iterable[str] | None = None
    ) -> datetime | None:
        """Return when the next job is due or the next lease ends, whichever is first."""
        kinds, queues = _names("kinds", kinds), _names("queues", queues)
        instants = []
        if kinds != [] and queues != []:
            instants = [lane.run_at for lane in self.engine.lanes(kinds, queues)]
        if (lease := self.engine.first_lease()) is not None:
            instants.append(lease)
        return as_attribute(min(instants)) if instants else None

    def seconds_to_next(
        self, *, kinds: Iterable[str] | None = None, queues: Iterable[str] | None = None
    ) -> float | None:
        """Return how long it is until next_due, by the database's clock; 0 if it has come."""
        instant = self.next_due(kinds=kinds, queues=queues)
        if instant is None:
            return None
        return max(0.0, (as_aware(instant) - self.engine.now()).total_seconds())

    def is_due(
        self, *, kinds: Iterable[str] | None = None, queues: Iterable[str] | None = None
    ) -> bool:
        """Say whether a job could be claimed now."""
        kinds, queues = _names("kinds", kinds), _names("queues", queues)
        if kinds == [] or queues == []:
            return False
        heads = [lane.run_at for lane in self.engine.lanes(kinds, queues)]
        return bool(heads) and min(heads) <= self.engine.now()

    def running_owners(self) -> list[str]:
        """Return the runners that hold claims, living or not."""
        running = self.filter(status=RUNNING).order_by()
        return list(running.values_list("lease_owner", flat=True).distinct())

    def renew(
        self, jobs: Iterable[Job], lease: Seconds | timedelta, *, now: datetime | None = None
    ) -> set[int]:
        """Let the leases of claimed jobs hold for `lease` more; return the ids still held."""
        seconds = to_seconds("lease", lease)
        renewed = {claim_of(job): job for job in jobs}
        claims, asked = sorted(renewed), time.monotonic()
        now, engine = _instant(now), self.engine
        held: set[int] = set()
        for start in range(0, len(claims), BATCH):
            batch = claims[start : start + BATCH]
            held |= engine.retrying(partial(engine.renew, batch, seconds, now))
        for (job_id, _), job in renewed.items():
            if job_id in held and now is None:
                job.__dict__["_held_until"] = asked + seconds
        return held

    def reclaim_expired(self, now: datetime | None = None) -> int:
        """Take back every running job whose lease is over; return how many.

        Each goes to ready, or, with its attempts spent, to failed (`lease_expired`); a schedule
        goes on to its next occurrence. A lease renewed in between is left alone.
        """
        now, engine = _instant(now), self.engine
        first = engine.first_lease()
        if first is None or first > (now or engine.now()):
            return 0
        expired = self.filter(lease_until__lte=ServerClock() if now is None else now)
        return self._end_running(expired, lost, now, lease_over=True)

    def release_owned(self, owner: str) -> int:
        """Move all that the runner `owner` holds from running to ready, attempts given back."""
        owned = self.filter(lease_owner=check_text("owner", owner))
        return self._end_running(owned, lambda job: Outcome(move="release", reason=None))

    def reclaim_owned(self, owner: str) -> int:
        """Take back what a runner known to be dead holds, without waiting for its leases."""
        return self._end_running(self.filter(lease_owner=check_text("owner", owner)), lost)

    def reset_running(self) -> int:
        """Move every running job back to ready, or to failed when its attempts are spent.

        Only for a queue that has one runner, while that one is not running: it takes jobs away
        from living workers.
        """
        return self._end_running(self, lambda job: Outcome(move="reset", reason="reset"))

    def _end_running(
        self, jobs: Any, decide: Any, now: datetime | None = None, lease_over: bool = False
    ) -> int:
        running = jobs.filter(status=RUNNING).defer("payload", "result")
        ended, last_id = 0, 0
        while True:
            batch = list(running.filter(pk__gt=last_id).order_by("pk")[:BATCH])
            pairs = [(job, decide(job)) for job in batch]
            ended += self._end_batch(pairs, now, lease_over) if pairs else 0
            if len(batch) < BATCH:
                return ended
            last_id = batch[-1].pk

    def _end_batch(self, pairs: list[Any], now: datetime | None, lease_over: bool) -> int:
        """End claims and return how many; a row that the database refuses holds up no other."""
        connection = self.engine.connection
        savepoint = transaction.atomic(using=connection.alias)
        try:
            with savepoint if connection.in_atomic_block else nullcontext():
                return len(self.settle_many(pairs, now, lease_over=lease_over))
        except REFUSED as error:
            if len(pairs) > 1:
                return sum(self._end_batch([pair], now, lease_over) for pair in pairs)
            _tell_once(pairs[0][0], error)
            return 0


_told: set[Claim] = set()


def _tell_once(job: Job, error: Exception) -> None:
    """Log that a row cannot be taken back, once a claim: it is tried again at every sweep."""
    if claim_of(job) not in _told:
        _told.add(claim_of(job))
        log.error(
            "Job %d (%s) stays running, as the database refuses to take it back (%s).",
            job.id, job.kind, class_path(type(error)),
        )  # fmt: skip


def _names(field: str, names: Iterable[str] | None) -> Sequence[str] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise InvalidJob(field, "must be a list of names, not one string.")
    return list(dict.fromkeys(names))


def _instant(now: datetime | None) -> datetime | None:
    return None if now is None else check_instant("now", now)
