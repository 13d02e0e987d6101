"""Questions about the queue: what lives, how many there are, how it is doing."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.test import TestCase

from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
KIND = "shop.send_receipt"


def put(**options: Any) -> Job:
    job = Job.objects.enqueue(KIND, **{"run_at": NOON, **options})
    assert job is not None
    return job


def end(move: str, reason: str = "", at: datetime = NOON) -> Job:
    """Enqueue, claim and settle a job."""
    put()
    (job,) = Job.objects.claim("runner", now=NOON)
    assert Job.objects.settle(job, Outcome(move=move, reason=reason), at)
    return job


class CountTests(TestCase):
    def setUp(self):
        end("complete"), end("abandon")
        put(dedup_key="7", ref="order:7")
        Job.objects.claim("runner", now=NOON)
        put(ref="order:7"), put(ref="order:77")
        Job.objects.enqueue("other", run_at=NOON)

    def test_the_live_jobs_of_a_kind_are_counted(self):
        self.assertEqual(Job.objects.count_live(KIND), 3)
        self.assertEqual(Job.objects.count_live("none"), 0)

    def test_all_jobs_of_a_kind_are_counted(self):
        self.assertEqual(Job.objects.count_for_kind(KIND), 5)

    def test_the_live_job_of_a_key_is_found(self):
        self.assertEqual(Job.objects.find_live(KIND, "7").status, "running")
        self.assertIsNone(Job.objects.find_live("other", "7"))
        self.assertIsNone(Job.objects.find_live(KIND, "8"))

    def test_a_settled_job_is_not_found_by_its_key(self):
        Job.objects.filter(dedup_key="7").reset_running()
        Job.objects.filter(dedup_key="7").cancel()
        self.assertIsNone(Job.objects.find_live(KIND, "7"))

    def test_the_jobs_about_something_are_found_whatever_their_status(self):
        statuses = Job.objects.for_ref("order:7").order_by("id").values_list("status", flat=True)
        self.assertEqual(list(statuses), ["running", "ready"])

    def test_an_empty_ref_is_refused(self):
        with self.assertRaisesMessage(InvalidJob, "ref"):
            Job.objects.for_ref("")


class StatsTests(TestCase):
    def test_every_status_is_named_even_where_there_is_none(self):
        nothing = {"ready": 0, "running": 0, "done": 0, "failed": 0, "cancelled": 0}
        self.assertEqual(Job.objects.stats(), nothing)

    def test_the_jobs_are_counted_by_status_in_one_statement(self):
        for move, number in (("complete", 3), ("abandon", 2)):
            for _ in range(number):
                end(move)
        put(), put()
        with self.assertNumQueries(1):
            stats = Job.objects.stats()
        self.assertEqual(stats, {"ready": 2, "running": 0, "done": 3, "failed": 2, "cancelled": 0})

    def test_a_queryset_counts_its_own_jobs(self):
        put(queue="mail"), put()
        self.assertEqual(Job.objects.filter(queue="mail").stats()["ready"], 1)


class DetailTests(TestCase):
    def test_nothing_waits_in_an_empty_queue(self):
        detail = Job.objects.detail()
        self.assertEqual((detail.oldest_pending_ms, detail.failed, detail.reasons), (None, (), {}))

    def test_the_longest_due_job_counts_from_its_run_at(self):
        Job.objects.enqueue(KIND, run_at=datetime.now(UTC) - timedelta(minutes=10), priority=-5)
        Job.objects.enqueue(KIND, run_at=datetime.now(UTC) - timedelta(minutes=5), priority=5)
        age = Job.objects.detail().oldest_pending_ms
        self.assertIsInstance(age, int)
        self.assertLess(abs(age - 600_000), 20_000)

    def test_what_is_not_due_does_not_wait(self):
        Job.objects.enqueue(KIND, delay=3600)
        self.assertIsNone(Job.objects.detail().oldest_pending_ms)

    def test_the_newest_failures_come_first_and_no_more_than_asked_for(self):
        jobs = [end("abandon", at=NOON + timedelta(seconds=n)) for n in (3, 1, 2, 2)]
        newest = [jobs[0], jobs[3], jobs[2], jobs[1]]
        self.assertEqual(list(Job.objects.detail().failed), newest)
        self.assertEqual(list(Job.objects.detail(limit=2).failed), newest[:2])
        self.assertEqual(Job.objects.detail(limit=0).failed, ())

    def test_the_reasons_count_all_failed_jobs(self):
        for reason in ("timeout", "timeout", "KeyError", ""):
            end("abandon", reason)
        detail = Job.objects.detail(limit=1)
        self.assertEqual(detail.reasons, {"timeout": 2, "KeyError": 1, "": 1})

    def test_it_cannot_be_changed(self):
        with self.assertRaises(FrozenInstanceError):
            Job.objects.detail().reasons = {}
