"""A schedule whose clock the test holds, and the handler that notes its occurrences."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.test import TestCase

from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.handling import KIND, HandlingMixin

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class ScheduleTestCase(HandlingMixin, TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.seen: list[datetime] = []
        self.handle(self.note)

    def note(self, job: Job) -> None:
        assert job.due_at is not None
        self.seen.append(job.due_at)

    def schedule(self, name: str = "hourly", **options: Any) -> Job:
        if "cron" not in options:
            options = {"every": HOUR, "run_at": NOON, **options}
        return Job.objects.schedule(name, KIND, **options)

    def run_at(self, now: datetime, limit: int | None = None) -> Job:
        """Run what is due at this time; return the one schedule as it is then."""
        run_jobs(now=now, limit=limit)
        return Job.objects.get()
