"""Which database a verb works on: the manager's, the setting's, and never a replica."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.test import TestCase, override_settings

from django_sqlqueue import NewJob
from django_sqlqueue.models import Attempt, Job, PausedQueue
from django_sqlqueue.testing import run_jobs
from tests.testapp.jobs import noop

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
KIND = "shop.send_receipt"


class ReplicaRouter:
    """Reads go to a replica that knows of nothing."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "other"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


def live_through(jobs: Any) -> Job:
    """Put a job through many of the verbs of this manager; return it."""
    assert jobs.enqueue(KIND, {"uri": "a"}, dedup_key="7", ref="order:7", run_at=NOON)
    assert jobs.enqueue(KIND, dedup_key="7") is None
    assert jobs.enqueue_many([NewJob(KIND, dedup_key="7"), NewJob("other", run_at=NOON)]) == 1
    assert jobs.find_live(KIND, "7") is not None
    assert (
        jobs.count_live(KIND) == jobs.count_for_kind(KIND) == jobs.for_ref("order:7").count() == 1
    )
    assert jobs.count_for_uri("a") == 1
    assert jobs.next_due() == NOON
    (job,) = jobs.claim("runner", kinds=[KIND], now=NOON)
    assert jobs.renew([job], 30, now=NOON) == {job.id}
    assert job.report_progress(50)
    assert not job.cancel_requested()
    assert jobs.reclaim_expired(NOON + timedelta(minutes=1)) == 1
    (job,) = jobs.claim("runner", kinds=[KIND], now=NOON)
    assert jobs.release_owned("runner") == 1
    (job,) = jobs.claim("runner", kinds=[KIND], now=NOON)
    assert jobs.reset_running() == 1
    (job,) = jobs.claim("runner", kinds=[KIND], now=NOON)
    assert job.abandon("broken")
    assert jobs.stats()["failed"] == 1
    assert [failed.pk for failed in jobs.detail().failed] == [job.pk]
    assert job.requeue()
    assert jobs.filter(pk=job.pk).cancel() == 1
    assert jobs.filter(pk=job.pk).requeue() == 1
    job = jobs.claim_next("runner", kinds=[KIND])
    assert job.fail("timeout")
    schedule = jobs.schedule("nightly", KIND, every=60)
    assert jobs.schedule("nightly", KIND, every=60) == schedule
    assert jobs.unschedule("nightly")
    assert jobs.filter(kind="other").cancel() == 1
    assert jobs.cleanup(datetime.now(UTC) + timedelta(hours=1)) == 2
    return job


class ManagersDatabaseTests(TestCase):
    databases = {"default", "other"}

    def test_every_verb_works_on_the_managers_database(self):
        for jobs in (Job.objects.db_manager("other"), Job.objects.using("other")):
            with self.subTest(jobs=type(jobs).__name__), self.assertNumQueries(0, using="default"):
                job = live_through(jobs)
                self.assertEqual(job._state.db, "other")
                self.assertEqual(jobs.cancel_for_uri("a"), 1)
        self.assertEqual(Job.objects.using("other").count(), 0)

    def test_a_job_acts_on_the_database_it_came_from(self):
        job = Job.objects.using("other").enqueue(KIND)
        (claim,) = Job.objects.using("other").claim("runner")
        self.assertEqual(claim, job)
        self.assertTrue(claim.complete())
        self.assertEqual(Job.objects.using("other").get().status, "done")
        self.assertEqual(Job.objects.using("default").count(), 0)

    def test_keys_of_two_databases_are_apart(self):
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))
        self.assertIsNotNone(Job.objects.using("other").enqueue(KIND, dedup_key="7"))

    @override_settings(SQLQUEUE={"DATABASE": "other"})
    def test_the_setting_names_the_database_of_the_plain_manager(self):
        with self.assertNumQueries(0, using="default"):
            job = live_through(Job.objects)
            self.assertEqual(job._state.db, "other")
        self.assertIsNotNone(noop.enqueue())
        self.assertEqual(run_jobs(), 1)
        self.assertEqual(Job.objects.using("default").count(), 0)

    @override_settings(SQLQUEUE={"DATABASE": "other"})
    def test_an_alias_that_is_named_wins_over_the_setting(self):
        self.assertIsNotNone(Job.objects.using("default").enqueue(KIND))
        self.assertEqual(Job.objects.count(), 0)
        (job,) = Job.objects.using("default").claim("runner")
        self.assertTrue(job.abandon("broken"))
        job.refresh_from_db()
        self.assertEqual(job.status, "failed")
        self.assertEqual([attempt.reason for attempt in job.history.all()], ["broken"])


@override_settings(DATABASE_ROUTERS=["tests.test_managers_databases.ReplicaRouter"])
class ReplicaTests(TestCase):
    """Django refuses every statement on the replica: it is not among this test's databases."""

    databases = {"default"}

    def test_no_verb_asks_the_replica(self):
        job = live_through(Job.objects)
        self.assertEqual(job._state.db, "default")
        self.assertEqual(Job.objects.cancel_for_uri("a"), 1)

    def test_a_worker_does_not_ask_the_replica(self):
        noop.enqueue()
        self.assertEqual(run_jobs(), 1)
        self.assertEqual(Job.objects.get().status, "done")

    def test_plain_queries_are_answered_where_the_jobs_are_written(self):
        Job.objects.enqueue(KIND)
        self.assertEqual(Job.objects.filter(kind=KIND).count(), 1)
        self.assertEqual(len(Job.objects.order_by("id")[:5]), 1)

    def test_the_history_is_read_where_it_is_written(self):
        Job.objects.enqueue(KIND)
        (job,) = Job.objects.claim("runner")
        job.fail("timeout")
        self.assertEqual([attempt.reason for attempt in job.history.all()], ["timeout"])
        self.assertEqual(Attempt.objects.count(), 1)

    def test_paused_queues_are_looked_up_where_they_are_written(self):
        Job.objects.enqueue(KIND, queue="mail")
        PausedQueue.objects.create(name="mail")
        self.assertEqual(Job.objects.claim("runner"), [])

    def test_a_job_is_read_again_from_where_it_is_written(self):
        job = Job.objects.enqueue(KIND)
        Job.objects.filter(pk=job.pk).cancel()
        job.refresh_from_db()
        self.assertEqual(job.status, "cancelled")
