"""Attempts at the edges: spent and endless budgets, senseless backoffs, damaged rows."""

from datetime import timedelta
from typing import Any

from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from django_sqlqueue import Backoff, Defer
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.handling import HandlingMixin, looking, raiser


class BudgetTests(HandlingMixin, TestCase):
    def test_deferring_is_not_failing(self):
        # Deferred 500 times, then failed once, then done: two attempts.
        endings: list[Exception | None] = [*[Defer(0)] * 500, ValueError(), None]
        delays: list[int] = []

        def backoff(attempt):
            delays.append(attempt)
            return 0

        def defers(job):
            if (ending := endings.pop(0)) is not None:
                raise ending

        self.handle(defers, max_attempts=3, backoff=backoff)
        self.enqueue()
        self.assertEqual(run_jobs(), 502)
        job = Job.objects.get()
        self.assertEqual((job.status, job.attempts, job.claims), ("done", 2, 502))
        self.assertEqual(delays, [1], "the first failure waits like a first failure")

    def test_a_backoff_never_overflows(self):
        self.handle(raiser(ValueError), max_attempts=100_000, backoff=Backoff(30, 5, 3600, 0))
        for attempt in (38, 47, 255, 1_024, 2_000, 32_767, 32_768, 99_000):
            with self.subTest(attempt):
                job = self.enqueue()
                Job.objects.filter(pk=job.pk).update(attempts=attempt)
                job = self.run_one()
                self.assertEqual((job.status, job.attempts), ("ready", attempt + 1))
                waits = (job.run_at - timezone.now()).total_seconds()
                self.assertAlmostEqual(waits, 3600, delta=10)

    def test_a_broken_backoff_falls_back_to_the_default(self):
        for broken in (lambda attempt: 1 / 0, lambda attempt: None, lambda attempt: "soon"):
            with self.assertLogs("django_sqlqueue", "ERROR"):
                job = self.run_one(raiser(ValueError), backoff=broken)
            self.assertAlmostEqual((job.run_at - timezone.now()).total_seconds(), 31.5, delta=7)

    def test_a_senseless_backoff_is_bounded(self):
        for senseless in (float("inf"), -5, float("nan"), 1e300, 10**400):
            with self.subTest(repr(senseless)[:20]):
                job = self.run_one(raiser(ValueError), backoff=lambda attempt, s=senseless: s)
                self.assertEqual(job.status, "ready")

    def test_the_settings_give_the_budget_and_the_backoff(self):
        with override_settings(SQLQUEUE={"MAX_ATTEMPTS": 1}):
            self.assertEqual(self.run_one(raiser(ValueError)).status, "failed")
        backoff = {"base": 500, "jitter": 0}
        with override_settings(SQLQUEUE={"BACKOFF": backoff}):
            job = self.run_one(raiser(ValueError))
        self.assertAlmostEqual((job.run_at - timezone.now()).total_seconds(), 500, delta=5)


class DamageTests(HandlingMixin, TransactionTestCase):
    """Rows that someone's SQL has changed."""

    def test_a_payload_that_no_longer_parses_fails_with_a_clear_reason(self):
        if connection.vendor == "postgresql":
            self.skipTest("jsonb cannot be damaged")
        seen: list[Any] = []
        self.handle(looking(seen, "id"))
        job, other = self.enqueue({"a": 1}), self.enqueue()
        off, on = {
            "sqlite": ("PRAGMA ignore_check_constraints=1", "PRAGMA ignore_check_constraints=0"),
            "mysql": ("SET check_constraint_checks=0", "SET check_constraint_checks=1"),
        }[connection.vendor]
        with connection.cursor() as cursor:
            cursor.execute(off)
            cursor.execute(
                "UPDATE django_sqlqueue_job SET payload = %s WHERE id = %s", ['{"a": ', job.id]
            )
        try:
            self.assertEqual(run_jobs(), 2)
            job.refresh_from_db()
            self.assertEqual((job.status, job.last_error), ("failed", "damaged_payload"))
            self.assertEqual(job.attempts, 1)
            self.assertEqual(seen, [(other.id,)])
            self.assertEqual(Job.objects.count_for_uri("a"), 0)
            self.assertEqual(Job.objects.cleanup(timezone.now() + timedelta(days=1)), 2)
        finally:
            with connection.cursor() as cursor:
                cursor.execute(on)

    def test_a_payload_of_another_shape_is_a_failure_of_the_handler(self):
        self.handle(lambda job: job.payload["a"])
        for text, reason in (('"text"', "TypeError"), ("[]", "TypeError"), ("{}", "KeyError")):
            job = self.enqueue({"a": 1})
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE django_sqlqueue_job SET payload = %s WHERE id = %s", [text, job.id]
                )
            self.assertEqual(self.run_one().last_error, reason)

    def test_a_row_inserted_by_sql_alone_runs(self):
        seen: list[Any] = []
        self.handle(looking(seen, "payload", "attempts", "queue"))
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO django_sqlqueue_job (kind) VALUES ('test.handled')")
        self.assertEqual(run_jobs(), 1)
        self.assertEqual(seen, [({}, 1, "default")])
