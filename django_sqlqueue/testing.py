"""Running jobs in a test: in this process, on this connection, also inside TestCase."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from datetime import datetime

from . import execution
from .conf import settings
from .discovery import served_kinds
from .models import Job

LEASE = 3600
_calls = itertools.count(1)


def run_jobs(
    *,
    kinds: Iterable[str] | None = None,
    queues: Iterable[str] | None = None,
    limit: int | None = None,
    now: datetime | None = None,
) -> int:
    """Run due jobs, one after the other, until none is due; return how many attempts it ran.

    At most `limit` attempts. With `now` that instant is the clock: jobs due by then run, and
    every time that is written is computed from it. Jobs that are enqueued meanwhile run too;
    retries and deferred jobs wait for their time.
    """
    owner = f"run_jobs:{os.getpid()}:{next(_calls)}"
    # One string is left as it is, for claim to refuse.
    served = kinds if kinds is None or isinstance(kinds, str) else list(kinds)
    finds_kinds = kinds is None and settings.UNKNOWN_KINDS == "leave"
    ran = 0
    while limit is None or ran < limit:
        if finds_kinds:
            served = served_kinds(Job.objects.all(), look_now=True)
        job = Job.objects.claim_next(owner, kinds=served, queues=queues, lease=LEASE, now=now)
        if job is None:
            break
        execution.run(job, now)
        ran += 1
    return ran
