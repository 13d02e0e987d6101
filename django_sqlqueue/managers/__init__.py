"""Every write to a job row, as verbs of Job.objects; each acts on the manager's database."""

from __future__ import annotations

from django.db import models

from .adjusting import Adjusting
from .claiming import Claiming
from .measuring import Measuring
from .reading import QueueDetail, Reading
from .scheduling import Scheduling


class JobQuerySet(  # type: ignore[override]
    Scheduling, Claiming, Adjusting, Measuring, Reading
):
    """The verbs, one file for each concern; Job.objects and Job.objects.using(alias) have them."""


JobManager = models.Manager.from_queryset(JobQuerySet, "JobManager")

__all__ = ["JobManager", "JobQuerySet", "QueueDetail"]
