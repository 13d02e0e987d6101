"""What people and housekeeping do to jobs: cancel, requeue, cleanup."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.lifecycle import SETTLED
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.policy import Outcome
from tests.testapp.models import Effect

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
KIND = "shop.send_receipt"


def put(**options: Any) -> Job:
    job = Job.objects.enqueue(KIND, **{"run_at": NOON, **options})
    assert job is not None
    return job


def run(**options: Any) -> Job:
    job = put(**options)
    (claim,) = Job.objects.claim("runner", now=NOON)
    assert claim.id == job.id
    return claim


def settled(status: str = "failed", at: datetime = NOON, **options: Any) -> Job:
    """Return a job that was settled at this instant."""
    job = run(**options)
    if status == "cancelled":
        Job.objects.filter(pk=job.pk).cancel()
    move = "abandon" if status == "failed" else "complete"
    assert Job.objects.settle_many([(job, Outcome(move=move, reason="why"))], at) == {
        job.id: status
    }
    job.refresh_from_db()
    return job


class CancelTests(TestCase):
    def cancel(self, *jobs: Job) -> int:
        return Job.objects.filter(pk__in=[job.pk for job in jobs]).cancel()

    def test_a_ready_job_is_cancelled_and_never_claimed(self):
        job = put(dedup_key="7")
        self.assertEqual(self.cancel(job), 1)
        job.refresh_from_db()
        self.assertEqual((job.status, job.lease_owner), ("cancelled", None))
        self.assertIsNotNone(job.finished_at)
        self.assertEqual(Job.objects.claim("runner", now=NOON), [])
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))

    def test_a_running_job_is_asked_to_stop_and_keeps_its_claim(self):
        job = run()
        self.assertEqual(self.cancel(job), 1)
        stored = Job.objects.get(pk=job.pk)
        self.assertEqual((stored.status, stored.lease_owner), ("running", "runner"))
        self.assertIsNone(stored.finished_at)
        self.assertIsNotNone(stored.cancel_requested_at)

    def test_a_job_that_was_asked_before_is_not_counted_again(self):
        job = run()
        self.assertEqual((self.cancel(job), self.cancel(job)), (1, 0))

    def test_settled_jobs_are_left_alone(self):
        jobs = [settled(status) for status in SETTLED]
        before = list(Job.objects.order_by("id").values())
        self.assertEqual(self.cancel(*jobs), 0)
        self.assertEqual(list(Job.objects.order_by("id").values()), before)

    def test_the_count_is_that_of_the_jobs_that_moved(self):
        jobs = [run(), settled(), put(), put()]
        self.assertEqual(self.cancel(*jobs), 3)
        self.assertEqual(Job.objects.stats()["cancelled"], 2)

    def test_hundreds_are_cancelled_in_one_call(self):
        Job.objects.enqueue_many([(KIND, n) for n in range(1200)])
        self.assertEqual(Job.objects.filter(kind=KIND).cancel(), 1200)
        self.assertEqual(Job.objects.stats()["cancelled"], 1200)

    def test_a_slice_cancels_its_own_jobs_only(self):
        jobs = [put(priority=n) for n in range(5)]
        self.assertEqual(Job.objects.order_by("-priority")[:2].cancel(), 2)
        self.assertEqual(set(Job.objects.filter(status="cancelled")), {jobs[3], jobs[4]})

    def test_a_schedule_ends(self):
        Job.objects.schedule("nightly", KIND, every=60)
        self.assertEqual(Job.objects.filter(name="nightly").cancel(), 1)
        self.assertEqual(Job.objects.get(name="nightly").status, "cancelled")

    def test_every_job_cannot_be_cancelled_by_leaving_out_the_queryset(self):
        self.assertFalse(hasattr(Job.objects, "cancel"))
        self.assertFalse(hasattr(Job.objects, "requeue"))


class RequeueTests(TestCase):
    def test_every_settled_job_is_ready_again_with_a_fresh_budget(self):
        for status in SETTLED:
            with self.subTest(status=status):
                job = settled(status)
                self.assertEqual(Job.objects.filter(pk=job.pk).requeue(), 1)
                job.refresh_from_db()
                self.assertEqual((job.status, job.attempts, job.claims), ("ready", 0, 1))
                self.assertEqual((job.last_error, job.result), ("", None))
                self.assertEqual((job.finished_at, job.cancel_requested_at), (None, None))
                self.assertIn(job, Job.objects.claim("runner", limit=10))

    def test_live_jobs_are_left_alone(self):
        run(), put()
        before = list(Job.objects.order_by("id").values())
        self.assertEqual(Job.objects.all().requeue(), 0)
        self.assertEqual(list(Job.objects.order_by("id").values()), before)

    def test_one_with_a_live_twin_is_skipped_and_the_other_199_go(self):
        jobs = [settled(dedup_key=str(n)) for n in range(200)]
        twin = Job.objects.enqueue(KIND, dedup_key="7", delay=HOUR)
        self.assertEqual(Job.objects.filter(status="failed").requeue(), 199)
        self.assertEqual(Job.objects.get(status="failed"), jobs[7])
        self.assertEqual(Job.objects.find_live(KIND, "7"), twin)

    def test_one_of_several_settled_twins_goes(self):
        twins = [settled(dedup_key="7") for _ in range(3)]
        other = settled(dedup_key="8")
        self.assertEqual(Job.objects.filter(status="failed").requeue(), 2)
        live = set(Job.objects.filter(status="ready"))
        self.assertEqual(len(live & set(twins)), 1)
        self.assertIn(other, live)

    def test_the_same_key_of_another_kind_is_no_twin(self):
        job = settled(dedup_key="7")
        Job.objects.enqueue("other", dedup_key="7")
        self.assertEqual(Job.objects.filter(pk=job.pk).requeue(), 1)

    def test_a_skipped_job_leaves_the_callers_transaction_usable(self):
        job = settled(dedup_key="7")
        put(dedup_key="7")
        with transaction.atomic():
            Effect.objects.create(name="before")
            self.assertFalse(job.requeue())
            self.assertEqual(Job.objects.filter(pk=job.pk).requeue(), 0)
            Effect.objects.create(name="after")
        self.assertEqual(Effect.objects.count(), 2)

    def test_one_job_can_wait_before_it_runs_again(self):
        job = settled()
        self.assertTrue(job.requeue(delay=HOUR))
        job.refresh_from_db()
        self.assertEqual(job.status, "ready")
        waits = job.run_at - job.updated_at
        self.assertLess(abs(waits - HOUR), timedelta(seconds=20))
        self.assertFalse(job.requeue())

    def test_hundreds_are_requeued_in_one_call(self):
        Job.objects.enqueue_many([NewJob(KIND, n, dedup_key=str(n)) for n in range(1200)])
        Job.objects.filter(kind=KIND).cancel()
        self.assertEqual(Job.objects.filter(status="cancelled").requeue(), 1200)
        self.assertEqual(Job.objects.stats()["ready"], 1200)

    def test_a_bulk_without_twins_takes_few_statements(self):
        Job.objects.enqueue_many([NewJob(KIND, n, dedup_key=str(n)) for n in range(200)])
        Job.objects.filter(kind=KIND).cancel()
        with CaptureQueriesContext(connection) as queries:
            Job.objects.filter(status="cancelled").requeue()
        self.assertLess(len(queries), 15, queries.captured_queries)


class CleanupTests(TestCase):
    def test_age_counts_from_the_end_of_the_job(self):
        old = settled(at=NOON - 8 * DAY, dedup_key="old")
        fresh = settled(at=NOON)
        Job.objects.filter(pk=fresh.pk).update(created_at=NOON - 30 * DAY)
        self.assertEqual(Job.objects.cleanup(NOON - 7 * DAY), 1)
        self.assertEqual(list(Job.objects.all()), [fresh])
        self.assertFalse(Job.objects.filter(pk=old.pk).exists())

    def test_a_job_that_ended_at_that_very_instant_stays(self):
        settled(at=NOON)
        self.assertEqual(Job.objects.cleanup(NOON), 0)
        self.assertEqual(Job.objects.cleanup(NOON + timedelta(microseconds=1)), 1)

    def test_every_settled_status_goes_unless_some_are_named(self):
        for status in SETTLED:
            settled(status)
        self.assertEqual(Job.objects.cleanup(NOON + DAY, statuses=["done"]), 1)
        self.assertEqual(Job.objects.cleanup(NOON + DAY, statuses="failed"), 1)
        self.assertEqual(Job.objects.get().status, "cancelled")
        self.assertEqual(Job.objects.cleanup(NOON + DAY), 1)

    def test_live_jobs_stay_however_old_they_are(self):
        running, waiting = run(), put(run_at=NOON + 365 * DAY)
        ancient = NOON - 3650 * DAY
        Job.objects.update(created_at=ancient, updated_at=ancient, started_at=ancient)
        self.assertEqual(Job.objects.cleanup(NOON + 10_000 * DAY), 0)
        self.assertEqual(set(Job.objects.all()), {running, waiting})

    def test_live_statuses_are_refused(self):
        for status in ("ready", "running", "blocked"):
            with (
                self.subTest(status=status),
                self.assertNumQueries(0),
                self.assertRaisesMessage(InvalidJob, "statuses"),
            ):
                Job.objects.cleanup(NOON, statuses=[status, "done"])

    def test_a_naive_instant_is_refused(self):
        with self.assertRaisesMessage(InvalidJob, "before"):
            Job.objects.cleanup(datetime(2026, 7, 1))  # noqa: DTZ001

    def test_the_history_goes_with_the_job(self):
        settled(at=NOON - DAY), settled(at=NOON)
        self.assertEqual(Attempt.objects.count(), 2)
        self.assertEqual(Job.objects.cleanup(NOON), 1)
        self.assertEqual(Attempt.objects.get().job, Job.objects.get())

    def test_many_go_in_batches_without_being_loaded(self):
        Job.objects.enqueue_many([(KIND, n) for n in range(1200)])
        Job.objects.filter(kind=KIND).cancel()
        with CaptureQueriesContext(connection) as queries:
            self.assertEqual(Job.objects.cleanup(datetime.now(UTC) + DAY), 1200)
        self.assertEqual(Job.objects.count(), 0)
        self.assertLess(len(queries), 40)
        loading = [query for query in queries.captured_queries if "payload" in query["sql"]]
        self.assertEqual(loading, [])

    def test_a_job_that_was_requeued_meanwhile_stays(self):
        job = settled(at=NOON - DAY)
        self.assertTrue(job.requeue())
        self.assertEqual(Job.objects.cleanup(NOON), 0)
