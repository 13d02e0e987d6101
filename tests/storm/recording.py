"""Lets every process of a storm note in the journal what it asks of the queue, and the answers.

The verbs themselves stay as they are: each is called once, and may be interrupted anywhere.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import connections

from django_sqlqueue.managers import JobQuerySet
from django_sqlqueue.policy import claim_of
from tests.storm import journal

_calls = itertools.count()


def install() -> None:
    for name, wrapper in (("claim", _claiming), ("renew", _renewing), ("settle_many", _settling)):
        setattr(JobQuerySet, name, wrapper(getattr(JobQuerySet, name)))


def _claiming(claim: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(claim)
    def recorded(self: Any, owner: str, **options: Any) -> Any:
        began = time.monotonic()
        jobs = claim(self, owner, **options)
        if jobs:
            claims = [claim_of(job) for job in jobs]
            journal.write("claimed", began=began, lease=options["lease"], claims=claims)
        return jobs

    return recorded


def _renewing(renew: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(renew)
    def recorded(self: Any, jobs: Any, lease: float, **options: Any) -> Any:
        jobs, began = list(jobs), time.monotonic()
        before = _leases(self, jobs)
        held = renew(self, jobs, lease, **options)
        after = _leases(self, jobs)
        # What was settled meanwhile has none any more.
        claims = [claim_of(job) for job in jobs if job.pk in held]
        claims = [claim for claim in claims if claim in before and claim in after]
        longer = [claim for claim in claims if after[claim] > before[claim]]
        left = [claim for claim in claims if after[claim] <= before[claim]]
        journal.write("renewed", began=began, lease=lease, claims=longer, left=left)
        return held

    return recorded


def _leases(table: Any, jobs: list[Any]) -> dict[tuple[int, int], Any]:
    running = table.filter(pk__in=[job.pk for job in jobs], status="running")
    return {(pk, n): until for pk, n, until in running.values_list("pk", "claims", "lease_until")}


def _settling(settle_many: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(settle_many)
    def recorded(self: Any, pairs: Any, now: Any = None, *, lease_over: bool = False) -> Any:
        call = f"{journal.who()}:{next(_calls)}"
        ends = [[*claim_of(job), outcome.move] for job, outcome in pairs]
        journal.write("settling", call=call, ends=ends, lease_over=lease_over)
        statuses = settle_many(self, pairs, now, lease_over=lease_over)
        # In a transaction it may yet be undone.
        journal.write(
            "settled",
            call=call,
            statuses=statuses,
            certain=not connections[self.db].in_atomic_block,
        )
        return statuses

    return recorded
