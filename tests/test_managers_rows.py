"""Rows that SQL inserted: good ones are jobs, half-made ones are refused, unknown ones wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.test import TestCase

from django_sqlqueue.engines import engine_for
from django_sqlqueue.models import Job

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
KIND = "shop.send_receipt"
A_MOMENT = timedelta(seconds=20)
SESSION_ZONES = {
    "postgresql": ("SET TIME ZONE '-5'", "SET TIME ZONE 'UTC'"),
    "mysql": ("SET time_zone = '+05:00'", "SET time_zone = '+00:00'"),
}


def insert(**values: Any) -> None:
    """Insert a row by SQL alone."""
    row = {"kind": KIND, **values}
    places = ", ".join(["%s"] * len(row))
    engine = engine_for(connection)
    params = [engine.instant(v) if isinstance(v, datetime) else v for v in row.values()]
    with connection.cursor() as cursor:
        sql = f"INSERT INTO django_sqlqueue_job ({', '.join(row)}) VALUES ({places})"
        cursor.execute(sql, params)


class KindOnlyTests(TestCase):
    def test_every_other_column_has_a_default(self):
        insert()
        job = Job.objects.get()
        self.assertEqual((job.status, job.queue, job.priority), ("ready", "default", 0))
        self.assertEqual((job.payload, job.dedup_key, job.ref), ({}, None, ""))
        self.assertEqual((job.attempts, job.max_attempts, job.claims), (0, 5, 0))
        self.assertEqual((job.lease_owner, job.lease_until, job.finished_at), (None, None, None))
        self.assertEqual((job.last_error, job.result, job.progress), ("", None, None))
        self.assertTrue(Job.objects.filter(result__isnull=True).exists())

    def test_it_is_the_same_row_that_enqueue_makes(self):
        insert()
        Job.objects.enqueue(KIND)
        by_sql, by_enqueue = Job.objects.order_by("id").values()
        own = {"id", "run_at", "created_at", "updated_at"}
        for column in by_sql.keys() - own:
            with self.subTest(column=column):
                self.assertEqual(by_sql[column], by_enqueue[column])

    def test_it_is_claimed_and_settled_like_any_job(self):
        insert()
        (job,) = Job.objects.claim("runner")
        self.assertTrue(job.complete({"sent": True}))
        self.assertEqual(Job.objects.get().status, "done")

    def test_its_times_are_utc_whatever_the_zone_of_the_session(self):
        now = engine_for(connection).now()
        with another_session_zone():
            insert()
        job = Job.objects.get()
        for instant in (job.run_at, job.created_at, job.updated_at):
            self.assertLess(abs(instant - now), A_MOMENT)
        self.assertLess(abs(now - datetime.now(UTC)), A_MOMENT)

    def test_a_kind_is_needed(self):
        with self.assertRaises(IntegrityError), transaction.atomic():
            insert(kind=None)


@contextmanager
def another_session_zone() -> Iterator[None]:
    """Give the session another time zone, where the database has such a thing."""
    there, back = SESSION_ZONES.get(connection.vendor, ("SELECT 1", "SELECT 1"))
    with connection.cursor() as cursor:
        cursor.execute(there)
        try:
            yield
        finally:
            cursor.execute(back)


class ConstraintTests(TestCase):
    HALF_MADE: list[dict[str, Any]] = [
        {"status": "running"},
        {"status": "running", "lease_owner": "runner"},
        {"status": "running", "lease_until": NOON},
        {"status": "ready", "lease_owner": "runner", "lease_until": NOON},
        {"status": "ready", "lease_owner": "runner"},
        {"status": "done"},
        {"status": "failed"},
        {"status": "cancelled"},
        {"status": "done", "finished_at": NOON, "lease_until": NOON},
        {"status": "ready", "finished_at": NOON},
        {
            "status": "running",
            "lease_owner": "runner",
            "lease_until": NOON,
            "finished_at": NOON,
        },
    ]
    WHOLE: list[dict[str, Any]] = [
        {"status": "ready"},
        {"status": "running", "lease_owner": "runner", "lease_until": NOON},
        {"status": "done", "finished_at": NOON},
        {"status": "failed", "finished_at": NOON},
        {"status": "cancelled", "finished_at": NOON},
        {"status": "blocked"},
        {"status": "blocked", "lease_owner": "runner"},
        {"status": "blocked", "lease_until": NOON, "finished_at": NOON},
    ]

    def test_half_made_rows_are_refused_by_the_database(self):
        for values in self.HALF_MADE:
            with self.subTest(**values):
                with self.assertRaises(IntegrityError), transaction.atomic():
                    insert(**values)
                self.assertEqual(Job.objects.count(), 0)

    def test_whole_rows_and_those_of_an_unknown_status_pass(self):
        for number, values in enumerate(self.WHOLE, 1):
            with self.subTest(**values):
                insert(**values)
                self.assertEqual(Job.objects.count(), number)

    def test_a_half_made_change_is_refused_too(self):
        Job.objects.enqueue(KIND)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Job.objects.update(status="running")
        self.assertEqual(Job.objects.get().status, "ready")


class UnknownStatusTests(TestCase):
    """A row that a newer version wrote is shown and left alone."""

    def setUp(self):
        insert(status="blocked", run_at=NOON, dedup_key="7", lease_owner="runner",
               lease_until=NOON, name="nightly-blocked", max_attempts=1)  # fmt: skip
        insert(status="blocked", run_at=NOON, finished_at=NOON)
        self.before = self.rows()

    def rows(self) -> list[Any]:
        return list(Job.objects.filter(status="blocked").order_by("id").values())

    def test_no_verb_touches_it(self):
        later = datetime.now(UTC) + timedelta(days=1)
        self.assertEqual(Job.objects.claim("runner", limit=10, now=later), [])
        self.assertEqual(Job.objects.reclaim_expired(later), 0)
        self.assertEqual(Job.objects.release_owned("runner"), 0)
        self.assertEqual(Job.objects.reset_running(), 0)
        self.assertEqual(Job.objects.all().cancel(), 0)
        self.assertEqual(Job.objects.all().requeue(), 0)
        self.assertEqual(Job.objects.cleanup(later), 0)
        self.assertIsNone(Job.objects.next_due())
        self.assertFalse(Job.objects.unschedule("nightly-blocked"))
        for job in Job.objects.all():
            self.assertFalse(job.complete())
            self.assertFalse(job.requeue())
            self.assertFalse(job.renew(60))
        self.assertEqual(self.rows(), self.before)

    def test_it_holds_no_key(self):
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))

    def test_it_is_shown(self):
        job = Job.objects.filter(status="blocked").first()
        self.assertEqual((job.is_live, job.is_settled), (False, False))
        self.assertEqual(sum(Job.objects.stats().values()), 0)
        self.assertEqual(Job.objects.count_for_kind(KIND), 2)
