"""One sentence says why a job is not running: each cause, and which of two comes first."""

from datetime import timedelta
from io import StringIO

from django.core.management import CommandError, call_command
from django.test import TestCase

from django_sqlqueue.explanation import explain
from django_sqlqueue.models import Job, PausedQueue, Worker
from django_sqlqueue.models.job import Job as JobModel

HOUR = timedelta(hours=1)


def worker(kinds=("testapp.noop",), queues=None, seen_ago=timedelta(0)):
    return Worker.objects.create(
        runner=f"host:{Worker.objects.count()}",
        host="host",
        pid=1,
        kinds=list(kinds),
        queues=queues,
        threads=1,
        last_seen_at=Job.objects.all().engine.now() - seen_ago,
    )


def enqueue(**options):
    return Job.objects.get(pk=Job.objects.enqueue("testapp.noop", **options).pk)


def cause(job):
    return explain(Job.objects.get(pk=job.pk)).cause


class Ready(TestCase):
    def test_a_due_job_that_is_first_is_next(self):
        worker()
        self.assertEqual(cause(enqueue()), "next")

    def test_a_job_that_is_not_due_says_when(self):
        explanation = explain(enqueue(delay=2 * HOUR))
        self.assertEqual(explanation.cause, "not_due")
        self.assertIn("1\xa0hour", explanation.sentence)

    def test_an_instant_that_ends_with_a_full_stop_ends_the_sentence(self):
        job = enqueue()
        afternoon = Job.objects.all().engine.now().replace(hour=15, minute=30)
        PausedQueue.objects.create(name="default")
        PausedQueue.objects.update(paused_at=afternoon)
        self.assertRegex(explain(job).sentence, r" p\.m\.$")

    def test_a_job_that_waits_for_its_next_attempt_says_how_many_are_used(self):
        job = Job.objects.enqueue("testapp.noop")
        Job.objects.claim_next("runner").fail("Broken")
        self.assertIn("1 of 5 attempts", explain(Job.objects.get(pk=job.pk)).sentence)

    def test_without_workers_that_is_the_cause(self):
        self.assertEqual(cause(enqueue()), "no_worker")

    def test_a_worker_that_has_been_silent_does_not_count(self):
        worker(seen_ago=HOUR)
        self.assertEqual(cause(enqueue()), "no_worker")

    def test_a_kind_that_no_worker_knows(self):
        worker(kinds=["other"])
        self.assertEqual(cause(enqueue()), "kind_unserved")

    def test_a_queue_that_no_worker_serves(self):
        worker(queues=["mail"])
        self.assertEqual(cause(enqueue()), "queue_unserved")
        self.assertEqual(cause(enqueue(queue="mail")), "behind")

    def test_a_paused_queue_comes_before_missing_workers(self):
        PausedQueue.objects.pause("default")
        self.assertEqual(cause(enqueue()), "queue_paused")

    def test_a_passed_deadline(self):
        job = enqueue(delay=HOUR, deadline=timedelta(0))
        self.assertEqual(cause(job), "deadline_passed")

    def test_a_paused_schedule(self):
        job = Job.objects.schedule("hourly", "testapp.noop", every=HOUR)
        Job.objects.filter(pk=job.pk).pause_schedules()
        self.assertEqual(cause(job), "schedule_paused")

    def test_the_jobs_ahead_are_counted_by_priority_then_time(self):
        worker()
        first = enqueue()
        job = enqueue()
        enqueue(priority=-1)
        enqueue(delay=HOUR, priority=9)
        self.assertEqual(cause(first), "next")
        self.assertIn("behind 1 other job.", explain(job).sentence)
        enqueue(priority=1)
        self.assertIn("behind 2 other jobs.", explain(job).sentence)

    def test_jobs_of_paused_queues_are_not_ahead(self):
        worker()
        enqueue(queue="mail", priority=1)
        PausedQueue.objects.pause("mail")
        self.assertEqual(cause(enqueue()), "next")


class NotReady(TestCase):
    def test_a_running_job_names_its_runner(self):
        job = enqueue()
        Job.objects.claim_next("host:7")
        self.assertIn("host:7", explain(Job.objects.get(pk=job.pk)).sentence)
        Job.objects.filter(pk=job.pk).cancel()
        self.assertEqual(cause(job), "stopping")

    def test_a_lease_that_is_over(self):
        job = enqueue()
        Job.objects.claim_next("host:7", lease=0)
        self.assertEqual(cause(job), "lease_over")

    def test_settled_jobs(self):
        for end, expected in (
            (lambda job: job.complete(), "done"),
            (lambda job: job.abandon("Broken"), "failed"),
        ):
            job = enqueue()
            end(Job.objects.claim_next("runner"))
            self.assertEqual(cause(job), expected)
        job = enqueue()
        Job.objects.filter(pk=job.pk).cancel()
        self.assertEqual(cause(job), "cancelled")

    def test_a_status_of_a_newer_version(self):
        job = enqueue()
        JobModel.objects.filter(pk=job.pk).update(status="<b>odd")
        self.assertEqual(cause(job), "unknown")


class Command(TestCase):
    def test_jobs_why_prints_the_sentence(self):
        out = StringIO()
        call_command("jobs", "why", str(enqueue().pk), stdout=out)
        self.assertIn("No worker is running", out.getvalue())

    def test_a_job_that_does_not_exist_is_an_error(self):
        with self.assertRaisesMessage(CommandError, "no job 123"):
            call_command("jobs", "why", "123")


class InAnotherDatabase(TestCase):
    databases = {"default", "other"}

    def test_all_that_matters_is_looked_up_beside_the_job(self):
        worker()
        job = Job.objects.using("other").enqueue("testapp.noop", queue="mail")
        for sentence in ("No worker is running", "is paused since"):
            out = StringIO()
            call_command("jobs", "why", str(job.pk), database="other", stdout=out)
            self.assertIn(sentence, out.getvalue())
            PausedQueue.objects.using("other").pause("mail")
