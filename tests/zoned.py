"""Jobs in a project whose settings treat time zones differently; run by test_timezones.py.

Each case runs in a process of its own, with that project's settings, on the test database.
"""

from datetime import UTC, datetime, timedelta

import django
from django.conf import settings

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from django_sqlqueue import Retry, handler  # noqa: E402
from django_sqlqueue.engines.instants import as_attribute, as_aware  # noqa: E402
from django_sqlqueue.models import Job  # noqa: E402
from django_sqlqueue.testing import run_jobs  # noqa: E402

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
FALL_BACK = datetime(2026, 11, 1, 6, tzinfo=UTC)
"""When New York's clocks go from 02:00 back to 01:00."""
MOMENTS = [FALL_BACK + minutes * MINUTE for minutes in (-90, -60, -30, -1, 0, 1, 30, 60, 90)]


@handler("zoned.handled", max_attempts=3)
def handled(job):
    assert as_aware(job.run_at) <= as_aware(job.started_at)
    if job.payload == "retry":
        raise Retry(40 * 60)


def stored_in_utc(pk: int, column: str) -> datetime:
    """Return an instant of a row as SQL alone sees it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            column = f"{column} AT TIME ZONE 'UTC'"
        cursor.execute(f"SELECT {column} FROM django_sqlqueue_job WHERE id = %s", [pk])
        (value,) = cursor.fetchone()
    value = datetime.fromisoformat(value) if isinstance(value, str) else value
    return value.replace(tzinfo=UTC)


def case_attributes_are_as_django_has_them():
    job = Job.objects.enqueue("zoned.handled")
    for value in (job.run_at, job.created_at, Job.objects.get().run_at):
        assert timezone.is_aware(value) == settings.USE_TZ, value
        assert abs(timezone.now() - value) < 60 * SECOND, value
    assert abs(datetime.now(UTC) - stored_in_utc(job.pk, "created_at")) < 60 * SECOND


def case_every_instant_is_kept_also_in_the_repeated_hour():
    for moment in MOMENTS:
        given = as_attribute(moment)
        job = Job.objects.enqueue("zoned.handled", run_at=given, deadline=given)
        assert as_aware(job.run_at) == moment, (job.run_at, moment)
        again = Job.objects.get(pk=job.pk)
        assert as_aware(again.run_at) == as_aware(again.deadline) == moment
        assert stored_in_utc(job.pk, "run_at") == moment
        assert Job.objects.get(run_at=given).pk == job.pk
        Job.objects.filter(pk=job.pk).update(run_at=given)
        assert stored_in_utc(job.pk, "run_at") == moment
    ordered = [as_aware(job.run_at) for job in Job.objects.order_by("run_at")]
    assert ordered == MOMENTS, ordered
    passed = Job.objects.filter(run_at__lte=as_attribute(FALL_BACK)).count()
    assert passed == MOMENTS.index(FALL_BACK) + 1, passed


def case_nothing_is_due_too_early_in_the_repeated_hour():
    for moment in MOMENTS:
        Job.objects.enqueue("zoned.handled", run_at=as_attribute(moment))
        assert not Job.objects.claim("runner", now=as_attribute(moment - SECOND))
        (job,) = Job.objects.claim("runner", now=as_attribute(moment))
        assert as_aware(job.started_at) == moment
        assert job.complete()


def case_a_lease_holds_as_long_as_it_says_in_the_repeated_hour():
    for moment in MOMENTS:
        Job.objects.enqueue("zoned.handled", run_at=as_attribute(moment))
        (job,) = Job.objects.claim("runner", lease=45 * 60, now=as_attribute(moment))
        assert as_aware(job.lease_until) == moment + 45 * MINUTE, (job.lease_until, moment)
        assert Job.objects.reclaim_expired(now=as_attribute(moment + 44 * MINUTE)) == 0
        assert Job.objects.renew([job], 45 * 60, now=as_attribute(moment + 44 * MINUTE))
        assert Job.objects.reclaim_expired(now=as_attribute(moment + 88 * MINUTE)) == 0
        assert Job.objects.reclaim_expired(now=as_attribute(moment + 89 * MINUTE)) == 1
        Job.objects.all().delete()


def case_a_retry_waits_as_long_as_it_says_in_the_repeated_hour():
    for moment in MOMENTS:
        job = Job.objects.enqueue("zoned.handled", "retry", run_at=as_attribute(moment))
        assert run_jobs(now=as_attribute(moment)) == 1
        job.refresh_from_db()
        assert as_aware(job.run_at) == moment + 40 * MINUTE, (job.run_at, moment)
        ended = job.history.get().ended_at
        assert as_aware(ended) == moment, ended
        assert run_jobs(now=as_attribute(moment + 39 * MINUTE)) == 0
        assert run_jobs(now=as_attribute(moment + 40 * MINUTE)) == 1
        Job.objects.all().delete()


def case_an_hourly_schedule_runs_every_hour_of_that_night():
    start = FALL_BACK - 120 * MINUTE
    for rhythm in ({"every": 3600}, {"cron": "0 * * * *", "timezone": "America/New_York"}):
        Job.objects.schedule("hourly", "zoned.handled", run_at=as_attribute(start), **rhythm)
        for hour in range(5):
            due = start + hour * 60 * MINUTE
            assert run_jobs(now=as_attribute(due - SECOND)) == 0, due
            assert run_jobs(now=as_attribute(due)) == 1, due
        Job.objects.all().delete()


def case_the_rest_of_the_manager_works():
    Job.objects.enqueue("zoned.handled", delay=60, deadline=timedelta(hours=1))
    job = Job.objects.enqueue("zoned.handled")
    assert abs(Job.objects.next_due() - job.run_at) < 5 * SECOND
    assert Job.objects.detail().oldest_pending_ms < 60_000
    assert run_jobs() == 1
    job.refresh_from_db()
    assert abs(timezone.now() - job.finished_at) < 60 * SECOND
    assert Job.objects.cleanup(timezone.now() - MINUTE) == 0
    assert Job.objects.cleanup(timezone.now() + MINUTE) == 1
    assert Job.objects.enqueue_many([("zoned.handled", None)] * 3) == 3
    assert run_jobs() == 3
    assert Job.objects.filter(status="done").requeue() == 3
    assert run_jobs() == 3


def case_its_migrations_are_clean():
    call_command("migrate", verbosity=0)
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    call_command("check", "--database", "default", fail_level="WARNING")


CASES = {name.removeprefix("case_"): case for name, case in globals().items() if "case_" in name}

if __name__ == "__main__":
    for name, case in CASES.items():
        Job.objects.all().delete()
        case()
        print(name)
    print(f"{len(CASES)} cases passed")
