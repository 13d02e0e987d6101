"""The sampler of a storm: what may not be seen in the table at any moment."""

from __future__ import annotations

import time

from django.db import Error, connection
from django.db.models import Count, F, Q

from django_sqlqueue.lifecycle import LIVE, RUNNING
from django_sqlqueue.models import Job
from tests.storm import journal


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
    no_lease = Q(lease_until=None) | Q(lease_owner=None)
    unleased = Job.objects.filter(no_lease, status=RUNNING)
    journal.write(
        "sample",
        twins=[[row["kind"], row["dedup_key"], row["n"]] for row in twins],
        overspent=list(overspent.values_list("id", flat=True)),
        unleased=list(unleased.values_list("id", flat=True)),
    )
