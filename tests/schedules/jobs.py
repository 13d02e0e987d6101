"""Handlers of recurring jobs, for worker processes under test."""

from datetime import UTC, datetime, timedelta

from django_sqlqueue import handler
from tests.schedules import deadly
from tests.testapp.models import Effect

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@handler("schedules.tick")
def tick(job):
    """Note which occurrence of which schedule this is."""
    note(job)


@handler("schedules.once_each", atomic=True)
def once_each(job):
    note(job)
    deadly.after_handler()


def note(job):
    Effect.objects.create(name=job.name, n=(job.due_at - EPOCH) // MILLISECOND % 1_000_000_000)
