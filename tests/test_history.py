"""The history of attempts: which leave a row, what it says, and how it stays small."""

from datetime import timedelta

from django.test import TestCase, override_settings
from django.utils import timezone

from django_sqlqueue import Abandon, Defer, Retry
from django_sqlqueue.managers.settling import KEPT_ATTEMPTS
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.testing import run_jobs
from tests.handling import HandlingMixin, raiser


class HistoryTests(HandlingMixin, TestCase):
    def outcomes(self) -> list[str]:
        return list(Attempt.objects.values_list("outcome", flat=True))

    def test_by_default_only_failures_leave_a_row(self):
        self.run_one(lambda job: None)
        self.run_one(raiser(Defer(600)))
        self.assertEqual(Attempt.objects.count(), 0)
        self.run_one(raiser(ValueError()))
        self.run_one(raiser(Abandon("enough")))
        self.assertEqual(self.outcomes(), ["retried", "failed"])

    def test_a_lost_attempt_leaves_a_row_and_a_released_one_does_not(self):
        self.enqueue()
        Job.objects.claim_next("runner")
        Job.objects.release_owned("runner")
        self.assertEqual(Attempt.objects.count(), 0)
        Job.objects.claim_next("runner", lease=0)
        Job.objects.reclaim_expired(now=timezone.now() + timedelta(seconds=5))
        attempt = Attempt.objects.get()
        self.assertEqual(
            (attempt.outcome, attempt.reason, attempt.runner, attempt.number, attempt.traceback),
            ("lost", "lease_expired", "runner", 1, ""),
        )

    @override_settings(SQLQUEUE={"HISTORY": "all"})
    def test_all_attempts_leave_a_row_where_the_settings_say_so(self):
        def cancels(job):
            Job.objects.filter(pk=job.pk).cancel()

        self.run_one(lambda job: None)
        self.run_one(raiser(Defer(600)))
        self.run_one(raiser(Retry(600)))
        self.run_one(raiser(Abandon()))
        self.run_one(cancels)
        self.run_one(lambda job: None, atomic=True)
        self.enqueue()
        Job.objects.claim_next("runner")
        Job.objects.release_owned("runner")
        self.assertEqual(
            self.outcomes(),
            ["done", "deferred", "retried", "failed", "cancelled", "done", "released"],
        )

    @override_settings(SQLQUEUE={"HISTORY": "none"})
    def test_no_attempt_leaves_a_row_where_the_settings_say_so(self):
        job = self.run_one(raiser(ValueError()))
        self.assertEqual((Attempt.objects.count(), job.last_error), (0, "ValueError"))

    def test_a_row_tells_when_who_and_why(self):
        before = timezone.now()
        job = self.run_one(raiser(ValueError("secret")))
        attempt = job.history.get()
        self.assertEqual((attempt.number, attempt.outcome), (1, "retried"))
        self.assertEqual((attempt.reason, attempt.started_at), ("ValueError", job.started_at))
        self.assertTrue(attempt.runner.startswith("run_jobs:"))
        self.assertLess(abs(attempt.ended_at - before), timedelta(seconds=10))
        self.assertIn("ValueError", attempt.traceback)
        self.assertNotIn("secret", attempt.traceback)

    def test_attempts_are_numbered_as_they_are_counted(self):
        self.handle(raiser(ValueError()), backoff=lambda attempt: 0, max_attempts=3)
        self.enqueue()
        self.assertEqual(run_jobs(), 3)
        rows = Attempt.objects.values_list("number", "outcome")
        self.assertEqual(list(rows), [(1, "retried"), (2, "retried"), (3, "failed")])

    def test_only_the_newest_attempts_of_a_job_are_kept(self):
        other = self.run_one(raiser(KeyError()), max_attempts=1)
        self.handle(raiser(ValueError()), backoff=lambda attempt: 0, max_attempts=1000)
        self.enqueue()
        self.assertEqual(run_jobs(limit=KEPT_ATTEMPTS + 20), KEPT_ATTEMPTS + 20)
        job = Job.objects.exclude(pk=other.pk).get()
        numbers = list(job.history.values_list("number", flat=True))
        self.assertEqual(len(numbers), KEPT_ATTEMPTS)
        self.assertEqual(numbers[-1], job.attempts)
        self.assertEqual(other.history.count(), 1, "those of other jobs are left alone")

    def test_a_deleted_job_takes_its_history_with_it(self):
        self.run_one(raiser(Abandon()))
        self.assertEqual(Job.objects.cleanup(timezone.now() + timedelta(days=1)), 1)
        self.assertEqual(Attempt.objects.count(), 0)
