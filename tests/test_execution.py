"""One attempt: what a handler returns or raises becomes the outcome of its job."""

import time
from datetime import timedelta
from typing import Any

from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from django_sqlqueue import Abandon, Backoff, Defer, Retry, execution
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.testing import run_jobs
from tests.handling import HandlingMixin, looking, raiser


class Unforeseen(Exception):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message for you")

    __repr__ = __str__


class Leaving(BaseException):
    """Neither an Exception nor known to anyone."""


class Outcomes(HandlingMixin):
    """The same inside a test's transaction and outside."""

    def assert_waits(self, job: Job, seconds: float, spread: float = 5) -> None:
        self.assertEqual(job.status, "ready")
        waited = (job.run_at - timezone.now()).total_seconds()
        self.assertGreater(waited, seconds - spread)
        self.assertLess(waited, seconds + spread)

    def test_a_handler_that_returns_is_done(self):
        job = self.run_one(lambda job: None)
        self.assertEqual((job.status, job.attempts, job.last_error), ("done", 1, ""))
        self.assertEqual((job.result, job.lease_owner, job.lease_until), (None, None, None))
        self.assertIsNotNone(job.finished_at)

    def test_the_handler_sees_its_job(self):
        seen: list[Any] = []
        self.handle(looking(seen, "id", "payload", "attempts", "status", "kind"))
        job = self.enqueue({"a": [1, 2.5]})
        run_jobs()
        self.assertEqual(seen, [(job.id, {"a": [1, 2.5]}, 1, "running", job.kind)])

    def test_a_job_whose_lease_was_over_before_it_began_is_not_begun(self):
        seen: list[Any] = []
        self.handle(looking(seen, "id", "attempts"))
        job = self.enqueue()
        (claimed,) = Job.objects.claim("stood still", lease=0.01)
        time.sleep(0.02)
        with self.assertLogs("django_sqlqueue", "WARNING") as logged:
            self.assertEqual(execution.run(claimed), "release")
        self.assertIn("its lease is over", logged.output[0])
        job.refresh_from_db()
        self.assertEqual((seen, job.status, job.attempts), ([], "ready", 0))
        run_jobs()
        self.assertEqual(seen, [(job.id, 1)])

    def test_a_job_whose_lease_was_renewed_meanwhile_is_begun(self):
        job = self.enqueue()
        (claimed,) = Job.objects.claim("slow", lease=0.01)
        time.sleep(0.02)
        self.assertEqual(Job.objects.renew([claimed], 60), {job.id})
        self.handle(lambda job: None)
        self.assertEqual(execution.run(claimed), "complete")

    def test_what_it_returns_is_the_result(self):
        job = self.run_one(lambda job: {"message_id": "…", "n": [1, (2, 3)]})
        self.assertEqual(job.result, {"message_id": "…", "n": [1, [2, 3]]})

    def test_a_result_of_false_or_nothing_much_is_kept(self):
        for value in (False, 0, "", [], {}):
            with self.subTest(repr(value)):
                self.assertEqual(self.run_one(lambda job, value=value: value).result, value)

    def test_a_result_that_json_cannot_hold_is_dropped_and_the_job_done(self):
        for value in ({1, 2}, float("nan"), "\ud800", object(), {"a": "\x00"}, (n for n in ())):
            with self.subTest(type(value).__name__):
                with self.assertLogs("django_sqlqueue", "WARNING"):
                    job = self.run_one(lambda job, value=value: value)
                self.assertEqual((job.status, job.result, job.last_error), ("done", None, ""))

    def test_a_result_set_on_the_way_is_stored_however_the_attempt_ends(self):
        def sets(job):
            job.set_result({"seen": 3})
            raise endings.pop(0)

        endings = [Defer(0), Retry(0), Unforeseen(), Abandon("enough")]
        self.handle(sets, backoff=lambda attempt: 0)
        self.enqueue()
        for status in ("ready", "ready", "ready", "failed"):
            job = self.run_one()
            self.assertEqual((job.status, job.result), (status, {"seen": 3}))
        self.assertFalse(endings)

    def test_what_it_returns_replaces_the_result_set_on_the_way(self):
        def sets(job):
            job.set_result("on the way")
            return job.payload.get("returned")

        self.assertEqual(self.run_one(sets).result, "on the way")
        self.enqueue({"returned": "at the end"})
        self.assertEqual(self.run_one().result, "at the end")

    def test_an_exception_is_a_failed_attempt_and_its_class_the_reason(self):
        job = self.run_one(raiser(Unforeseen("secret")), backoff=Backoff(40, 2, 3600, 0))
        self.assertEqual((job.attempts, job.last_error), (1, f"{__name__}.Unforeseen"))
        self.assert_waits(job, 40)
        self.assertEqual((job.lease_owner, job.finished_at), (None, None))

    def test_a_builtin_exception_goes_by_its_bare_name(self):
        self.assertEqual(self.run_one(raiser(KeyError("secret"))).last_error, "KeyError")

    def test_the_last_attempt_fails_for_good(self):
        self.handle(raiser(ValueError), max_attempts=2, backoff=lambda attempt: 0)
        self.enqueue()
        self.assertEqual(self.run_one().status, "ready")
        job = self.run_one()
        self.assertEqual((job.status, job.attempts, job.last_error), ("failed", 2, "ValueError"))
        self.assertIsNotNone(job.finished_at)
        self.assertEqual(run_jobs(), 0)

    def test_success_after_failures_clears_the_reason(self):
        failures = [ValueError(), TypeError()]

        def fails_twice(job):
            if failures:
                raise failures.pop(0)

        self.handle(fails_twice, backoff=lambda attempt: 0)
        self.enqueue()
        self.assertEqual(run_jobs(), 3)
        job = Job.objects.get()
        self.assertEqual((job.status, job.attempts, job.last_error), ("done", 3, ""))

    def test_defer_puts_the_job_back_without_spending_the_attempt(self):
        job = self.run_one(raiser(Defer(90)))
        self.assertEqual((job.attempts, job.last_error, job.claims), (0, "", 1))
        self.assert_waits(job, 90)
        self.assertEqual(Attempt.objects.count(), 0)

    def test_defer_takes_a_timedelta_and_may_be_raised_as_a_class(self):
        self.assert_waits(self.run_one(raiser(Defer(timedelta(minutes=3)))), 180)
        self.assert_waits(self.run_one(raiser(Defer)), 0)

    def test_defer_keeps_the_reason_of_the_last_failure(self):
        endings: list[Exception] = [ValueError(), Defer(0)]
        self.handle(lambda job: raiser(endings.pop(0))(job), backoff=lambda attempt: 0)
        self.enqueue()
        self.run_one()
        job = self.run_one()
        self.assertEqual((job.status, job.attempts, job.last_error), ("ready", 1, "ValueError"))

    def test_retry_ends_the_attempt_as_failed(self):
        job = self.run_one(raiser(Retry(70, "busy")), backoff=Backoff(40, 2, 3600, 0))
        self.assertEqual((job.attempts, job.last_error), (1, "busy"))
        self.assert_waits(job, 70)

    def test_retry_without_a_delay_waits_for_the_backoff(self):
        job = self.run_one(raiser(Retry), backoff=Backoff(40, 2, 3600, 0))
        self.assertEqual(job.last_error, "retry")
        self.assert_waits(job, 40)

    def test_retry_with_its_attempts_spent_fails(self):
        job = self.run_one(raiser(Retry(0, "busy")), max_attempts=1)
        self.assertEqual((job.status, job.last_error), ("failed", "busy"))

    def test_abandon_fails_the_job_for_good(self):
        job = self.run_one(raiser(Abandon("no such order")))
        self.assertEqual((job.status, job.attempts, job.last_error), ("failed", 1, "no such order"))
        job = self.run_one(raiser(Abandon))
        self.assertEqual((job.status, job.last_error), ("failed", "abandoned"))

    def test_what_is_no_exception_fails_the_job_for_good_and_stops_nothing(self):
        for error in (
            SystemExit(0),
            SystemExit(1),
            SystemExit("message"),
            KeyboardInterrupt(),
            GeneratorExit(),
            Leaving("secret"),
            BaseExceptionGroup("secret", [KeyboardInterrupt()]),
        ):
            with self.subTest(repr(error)):
                job = self.run_one(raiser(error))
                name = type(error).__name__
                expected = f"{__name__}.{name}" if isinstance(error, Leaving) else name
                self.assertEqual((job.status, job.last_error), ("failed", expected))
                self.assertEqual(self.run_one(lambda job: None).status, "done")

    def test_odd_exceptions_are_failures_like_any_other(self):
        def recurses(job):
            return recurses(job)

        cyclic = ValueError()
        cyclic.__cause__ = KeyError()
        cyclic.__cause__.__context__ = cyclic
        odd = type("Odd\nname" + "x" * 300, (Exception,), {})
        cases = {
            "RecursionError": recurses,
            f"{__name__}.Unspeakable": raiser(Unspeakable()),
            "ExceptionGroup": raiser(ExceptionGroup("secret", [ValueError(), KeyError()])),
            "StopIteration": raiser(StopIteration()),
            "ValueError": raiser(cyclic),
            f"{__name__}.Odd name{'x' * 300}"[:200]: raiser(odd("\ud800\x00")),
        }
        for reason, function in cases.items():
            for messages in (False, True):
                with (
                    self.subTest(reason[:40], messages=messages),
                    override_settings(SQLQUEUE={"STORE_MESSAGES": messages}),
                ):
                    job = self.run_one(function)
                    self.assertEqual((job.status, job.last_error), ("ready", reason))
                    self.assertIn(
                        "raises" if reason != "RecursionError" else "recurses",
                        job.history.get().traceback,
                    )

    def test_a_wrong_delay_is_a_failure_of_the_handler(self):
        def defers(job):
            raise Defer(-5)

        job = self.run_one(defers)
        self.assertEqual(job.last_error, "django_sqlqueue.exceptions.InvalidJob")

    def test_classify_of_the_handler_names_reasons_by_class_or_base_class(self):
        classify = {LookupError: "not there", Exception: "other"}
        for error, reason in ((KeyError(), "not there"), (ValueError(), "other")):
            self.assertEqual(self.run_one(raiser(error), classify=classify).last_error, reason)
        job = self.run_one(raiser(SystemExit()), classify=classify)
        self.assertEqual(job.last_error, "SystemExit")

    def test_classify_of_the_project_names_what_the_handler_does_not(self):
        def of_project(error):
            return "theirs" if isinstance(error, ValueError) else None

        with override_settings(SQLQUEUE={"CLASSIFY": of_project}):
            cases: tuple[tuple[BaseException, str], ...] = (
                (ValueError(), "theirs"),
                (KeyError(), "ours"),
                (TypeError(), "TypeError"),
            )
            for error, reason in cases:
                job = self.run_one(raiser(error), classify={KeyError: "ours"})
                self.assertEqual(job.last_error, reason)

    def test_a_classifier_that_fails_hides_nothing(self):
        def broken(error):
            raise RuntimeError("secret")

        with override_settings(SQLQUEUE={"CLASSIFY": broken}):
            self.assertEqual(self.run_one(raiser(ValueError())).last_error, "ValueError")

    def test_a_reason_is_stored_as_one_line_that_fits(self):
        for given, stored in (
            ("two\nlines\ttabbed\x00\x1b", "two lines tabbed\\x00"),
            ("x" * 500, "x" * 200),
            ("🐘" * 201, "🐘" * 200),
            ("half \ud800 a pair", "half \\ud800 a pair"),
            ("", ""),
            (5, "5"),
        ):
            with self.subTest(repr(given)[:30]):
                for ending in (Abandon(given), Retry(0, given)):
                    job = self.run_one(raiser(ending), max_attempts=1)
                    self.assertEqual((job.status, job.last_error), ("failed", stored))

    def test_a_passed_deadline_retires_the_job_without_running_it(self):
        seen: list[Any] = []
        self.handle(looking(seen, "id"))
        self.enqueue(deadline=timezone.now() - timedelta(seconds=60), dedup_key="one")
        job = self.run_one()
        self.assertEqual((job.status, job.last_error), ("failed", "deadline_passed"))
        self.assertEqual(seen, [])
        self.assertIsNone(Job.objects.find_live(job.kind, "one"))

    def test_a_deadline_to_come_is_seen_by_the_handler(self):
        seen: list[Any] = []
        self.handle(looking(seen, "deadline"))
        deadline = timezone.now() + timedelta(hours=1)
        self.enqueue(deadline=deadline)
        self.assertEqual(self.run_one().status, "done")
        self.assertEqual(seen, [(deadline,)])

    def test_a_retry_or_deferral_beyond_the_deadline_is_retired_when_its_time_comes(self):
        for ending in (Retry(600), Defer(600)):
            with self.subTest(type(ending).__name__):
                deadline = timezone.now() + timedelta(seconds=60)
                self.handle(raiser(ending))
                self.enqueue(deadline=deadline)
                self.assertEqual(self.run_one().status, "ready")
                self.assertEqual(run_jobs(), 0)
                job = self.run_one(now=timezone.now() + timedelta(seconds=700))
                self.assertEqual((job.status, job.last_error), ("failed", "deadline_passed"))

    def test_cancel_requested_is_asked_of_the_database(self):
        seen: list[bool] = []

        def stops_when_asked(job):
            seen.append(job.cancel_requested())
            Job.objects.filter(pk=job.pk).cancel()
            seen.append(job.cancel_requested())
            return "stopped early"

        job = self.run_one(stops_when_asked)
        self.assertEqual(seen, [False, True])
        self.assertEqual((job.status, job.result), ("cancelled", "stopped early"))

    def test_a_cancelled_job_is_not_retried(self):
        for ending in (ValueError(), Retry(0), Defer(0), Abandon("x")):
            with self.subTest(type(ending).__name__):

                def fails(job, ending=ending):
                    Job.objects.filter(pk=job.pk).cancel()
                    raise ending

                job = self.run_one(fails)
                self.assertEqual(job.status, "cancelled")
                self.assertIsNotNone(job.finished_at)
                self.assertEqual(run_jobs(), 0)

    def test_progress_is_seen_while_the_handler_runs(self):
        seen: list[Any] = []

        def reports(job):
            for percent, note in ((0, ""), (12.7, "half\x00way \ud800"), (100, "n" * 300)):
                job.report_progress(percent, note)
                row = Job.objects.get(pk=job.pk)
                seen.append((row.progress, row.progress_note))

        self.run_one(reports)
        self.assertEqual(seen, [(0, ""), (12, "half\\x00way \\ud800"), (100, "n" * 200)])

    def test_a_requeued_job_starts_afresh(self):
        job = self.run_one(raiser(Abandon("enough")))
        self.assertTrue(job.requeue())
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts, job.last_error), ("ready", 0, ""))
        self.handle(lambda job: "at last")
        job = self.run_one()
        self.assertEqual((job.status, job.attempts, job.result), ("done", 1, "at last"))


class OutcomesInTestCase(Outcomes, TestCase):
    pass


class OutcomesInTransactionTestCase(Outcomes, TransactionTestCase):
    pass
