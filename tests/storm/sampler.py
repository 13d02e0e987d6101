"""The sampler of a storm: what may not be seen in the table at any moment."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.db import Error, connection
from django.db.models import Count, F, Q

from django_sqlqueue.conf import settings
from django_sqlqueue.engines import engine_for
from django_sqlqueue.lifecycle import LIVE, RUNNING
from django_sqlqueue.models import Job
from tests.storm import journal

LONG = timedelta(seconds=30)
"""Whatever faults there are, some worker has looked for leases that are over meanwhile."""


def sample(seconds: float, every: float) -> None:
    """Look every so often; while the database is away there is nothing to see."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            _look()
        except Error:
            connection.close()
        time.sleep(every)


def _look() -> None:
    keyed = Job.objects.filter(status__in=LIVE, dedup_key__isnull=False).order_by()
    twins = keyed.values("kind", "dedup_key").annotate(n=Count("id")).filter(n__gt=1)
    overspent = Job.objects.filter(attempts__gt=F("max_attempts"))
    running = Job.objects.filter(status=RUNNING)
    now, lease = engine_for(connection).now(), timedelta(seconds=settings.LEASE)
    journal.write(
        "sample",
        twins=[[row["kind"], row["dedup_key"], row["n"]] for row in twins],
        overspent=_ids(overspent),
        unleased=_ids(running.filter(Q(lease_until=None) | Q(lease_owner=None))),
        too_long=_ids(running.filter(lease_until__gt=now + 1.5 * lease)),
        long_over=_ids(running.filter(lease_until__lt=now - LONG)),
    )


def _ids(jobs: Any) -> list[int]:
    return list(jobs.values_list("id", flat=True))
