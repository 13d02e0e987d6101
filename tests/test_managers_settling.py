"""Ending a claim: each move by itself, what it writes, and what remains of the attempt."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.policy import Outcome

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=7)
HOUR = timedelta(hours=1)
KIND = "shop.send_receipt"
NO_JITTER = {"base": 30, "factor": 2, "cap": 3600, "jitter": 0}


def run(now: datetime = NOON, **options: Any) -> Job:
    """Enqueue a job and claim it."""
    job = Job.objects.enqueue(KIND, **{"run_at": NOON, **options})
    assert job is not None
    (claim,) = Job.objects.claim("runner", now=now)
    assert claim.id == job.id
    return claim


def settle(job: Job, move: str, **values: Any) -> Job:
    """Settle the claim at LATER, and return the row."""
    assert Job.objects.settle(job, Outcome(move=move, **values), LATER)
    return Job.objects.get(pk=job.pk)


class MoveTests(TestCase):
    def assert_ended(self, job: Job, status: str, finished_at: datetime | None) -> None:
        self.assertEqual(job.status, status)
        self.assertEqual((job.lease_owner, job.lease_until), (None, None))
        self.assertEqual((job.finished_at, job.updated_at), (finished_at, LATER))

    def test_complete_ends_it_as_done_with_its_result(self):
        job = settle(run(), "complete", result='{"sent": [1, 2]}')
        self.assert_ended(job, "done", LATER)
        self.assertEqual((job.result, job.attempts, job.last_error), ({"sent": [1, 2]}, 1, ""))

    def test_complete_clears_the_reason_of_an_earlier_failure(self):
        settle(run(), "retry", reason="timeout", run_at=NOON)
        (job,) = Job.objects.claim("runner", now=LATER)
        self.assertEqual(job.last_error, "timeout")
        self.assertEqual(settle(job, "complete").last_error, "")

    def test_retry_makes_it_ready_at_its_time_with_the_attempt_spent(self):
        job = settle(run(), "retry", reason="timeout", run_at=NOON + HOUR)
        self.assert_ended(job, "ready", None)
        self.assertEqual((job.run_at, job.attempts, job.last_error), (NOON + HOUR, 1, "timeout"))

    def test_a_delay_counts_from_the_settlement(self):
        job = settle(run(), "retry", reason="timeout", delay=90.5)
        self.assertEqual(job.run_at, LATER + timedelta(seconds=90.5))

    def test_abandon_ends_it_as_failed(self):
        job = settle(run(), "abandon", reason="no_such_order")
        self.assert_ended(job, "failed", LATER)
        self.assertEqual((job.attempts, job.last_error), (1, "no_such_order"))

    def test_defer_makes_it_ready_later_and_gives_the_attempt_back(self):
        job = settle(run(), "defer", reason=None, delay=60)
        self.assert_ended(job, "ready", None)
        self.assertEqual((job.run_at, job.attempts), (LATER + timedelta(minutes=1), 0))
        self.assertEqual(job.claims, 1)

    def test_defer_keeps_the_reason_of_an_earlier_failure(self):
        settle(run(), "retry", reason="timeout", run_at=NOON)
        (job,) = Job.objects.claim("runner", now=LATER)
        job = settle(job, "defer", reason=None, delay=60)
        self.assertEqual((job.attempts, job.last_error), (1, "timeout"))

    def test_reschedule_makes_it_ready_as_a_fresh_occurrence(self):
        settle(run(), "retry", reason="timeout", run_at=NOON)
        (job,) = Job.objects.claim("runner", now=LATER)
        job = settle(job, "reschedule", run_at=NOON + HOUR)
        self.assert_ended(job, "ready", None)
        self.assertEqual((job.run_at, job.attempts, job.last_error), (NOON + HOUR, 0, ""))

    def test_a_settlement_keeps_the_result_of_an_earlier_attempt(self):
        job = settle(run(), "retry", reason="timeout", run_at=NOON, result='"half"')
        self.assertEqual(job.result, "half")
        (job,) = Job.objects.claim("runner", now=LATER)
        self.assertEqual(settle(job, "complete").result, "half")

    def test_many_claims_end_in_one_call_each_its_own_way(self):
        moves = ["complete", "retry", "abandon", "defer", "reschedule"]
        jobs = [run() for _ in moves]
        pairs = [
            (job, Outcome(move=move, reason="why", run_at=NOON + HOUR))
            for job, move in zip(jobs, moves, strict=True)
        ]
        statuses = Job.objects.settle_many(pairs, LATER)
        expected = ["done", "ready", "failed", "ready", "ready"]
        self.assertEqual([statuses[job.id] for job in jobs], expected)
        stored = Job.objects.order_by("id").values_list("status", flat=True)
        self.assertEqual(list(stored), expected)

    def test_completions_of_a_group_take_one_update(self):
        jobs = [run() for _ in range(20)]
        with CaptureQueriesContext(connection) as queries:
            ended = Job.objects.settle_many([(job, Outcome(move="complete")) for job in jobs])
        self.assertEqual(len(ended), 20)
        updates = [query for query in queries.captured_queries if " SET " in query["sql"]]
        self.assertEqual(len(updates), 1, queries.captured_queries)

    def test_long_tracebacks_of_a_group_are_more_than_one_statement(self):
        Job.objects.enqueue_many([NewJob(KIND, run_at=NOON) for _ in range(400)])
        jobs = Job.objects.claim("runner", limit=400, now=LATER)
        failed = Outcome(move="abandon", reason="why", traceback="…" * 16_000)
        self.assertEqual(len(Job.objects.settle_many([(job, failed) for job in jobs])), 400)
        self.assertEqual(Attempt.objects.count(), 400)


class LockTests(TransactionTestCase):
    """What one runner does to its claims locks none of another's."""

    def setUp(self):
        if not connection.features.has_select_for_update_skip_locked:
            self.skipTest("This engine has no locks on rows.")
        Job.objects.enqueue_many([NewJob(KIND) for _ in range(40)])
        self.mine = Job.objects.claim("me", limit=16)
        self.others = Job.objects.claim("another", limit=14)

    def free(self) -> list[str]:
        """Return the owners, in another transaction, of the claims that can be locked."""

        def look() -> list[str | None]:
            try:
                with transaction.atomic():
                    rows = Job.objects.select_for_update(skip_locked=True)
                    return [job.lease_owner for job in rows]
            finally:
                connection.close()

        with ThreadPoolExecutor(1) as pool:
            return sorted(filter(None, pool.submit(look).result()))

    def check(self, call: Callable[[], Any]) -> None:
        with transaction.atomic():
            self.assertTrue(call())
            self.assertEqual(self.free(), ["another"] * len(self.others))

    def test_settling_those_that_are_alike(self):
        pairs = [(job, Outcome(move="complete")) for job in self.mine]
        self.check(lambda: Job.objects.settle_many(pairs))

    def test_settling_those_that_differ(self):
        pairs = [(job, Outcome(move="complete", result=str(job.id))) for job in self.mine]
        self.check(lambda: Job.objects.settle_many(pairs))

    def test_renewing(self):
        self.check(lambda: Job.objects.renew(self.mine, 60))

    def test_claiming(self):
        Job.objects.filter(pk__in=[job.pk for job in self.mine]).cancel()
        with transaction.atomic():
            self.assertTrue(Job.objects.claim("me", limit=5))
            self.assertLessEqual({"another"}, set(self.free()))
            self.assertEqual(self.free().count("another"), len(self.others))


class VerbTests(TestCase):
    """The verbs of a claimed job, by the database's clock."""

    def assert_run_at(self, job: Job, seconds: float) -> None:
        waits = (job.run_at - job.updated_at).total_seconds()
        self.assertLess(abs(waits - seconds), 20)

    def stored(self, job: Job, status: str) -> Job:
        job.refresh_from_db()
        self.assertEqual(job.status, status)
        return job

    def test_complete(self):
        job = run()
        self.assertTrue(job.complete({"id": "ü"}))
        self.assertEqual(self.stored(job, "done").result, {"id": "ü"})

    def test_complete_without_a_result_stores_none(self):
        job = run()
        self.assertTrue(job.complete())
        self.assertTrue(Job.objects.filter(pk=job.pk, result__isnull=True).exists())

    def test_a_result_that_json_cannot_hold_is_dropped_with_a_log_line(self):
        job = run()
        with self.assertLogs("django_sqlqueue", "WARNING") as logs:
            self.assertTrue(job.complete({"secret": {1, 2}}))
        self.assertIsNone(self.stored(job, "done").result)
        self.assertNotIn("secret': {", "".join(logs.output))
        self.assertIn(f"job {job.pk} ({job.kind})", logs.output[0])

    @override_settings(SQLQUEUE={"BACKOFF": NO_JITTER})
    def test_fail_waits_longer_each_time_and_fails_for_good_when_spent(self):
        job = run(max_attempts=3)
        for attempt, delay in ((1, 30), (2, 60)):
            self.assertTrue(job.fail("timeout"))
            self.assert_run_at(self.stored(job, "ready"), delay)
            self.assertEqual((job.attempts, job.last_error), (attempt, "timeout"))
            (job,) = Job.objects.claim("runner", now=datetime.now(UTC) + HOUR)
        self.assertTrue(job.fail("timeout"))
        self.assertEqual(self.stored(job, "failed").attempts, 3)

    def test_retry(self):
        job = run()
        self.assertTrue(job.retry(NOON + HOUR, "timeout"))
        self.assertEqual(self.stored(job, "ready").run_at, NOON + HOUR)

    def test_retry_refuses_a_naive_instant_and_keeps_the_claim(self):
        job = run()
        with self.assertRaises(InvalidJob):
            job.retry(datetime(2026, 7, 1), "timeout")  # noqa: DTZ001
        self.assertTrue(job.complete())

    def test_abandon(self):
        job = run()
        self.assertTrue(job.abandon("no_such_order"))
        self.assertEqual(self.stored(job, "failed").last_error, "no_such_order")

    def test_a_reason_is_stored_as_one_line_of_at_most_200_characters(self):
        job = run()
        self.assertTrue(job.abandon("two\nlines\x00\udcff " + "é" * 300))
        reason = self.stored(job, "failed").last_error
        self.assertEqual(len(reason), 200)
        self.assertTrue(reason.startswith("two lines"))
        self.assertEqual(len(reason.splitlines()), 1)

    def test_defer(self):
        job = run()
        self.assertTrue(job.defer(timedelta(minutes=5)))
        self.assert_run_at(self.stored(job, "ready"), 300)
        self.assertEqual(job.attempts, 0)

    def test_fifty_deferrals_spend_no_attempt(self):
        job = run(max_attempts=3)
        for _ in range(50):
            self.assertTrue(job.defer(0))
            (job,) = Job.objects.claim("runner")
        self.assertEqual((job.attempts, job.claims), (1, 51))

    def test_reschedule(self):
        job = run()
        self.assertTrue(job.reschedule(NOON + HOUR))
        self.assertEqual(self.stored(job, "ready").run_at, NOON + HOUR)

    def test_progress_is_stored_while_the_claim_holds(self):
        job = run()
        self.assertTrue(job.report_progress(41.7, "page 5 of 12"))
        stored = Job.objects.get(pk=job.pk)
        self.assertEqual((stored.progress, stored.progress_note), (41, "page 5 of 12"))
        job.complete()
        self.assertFalse(job.report_progress(50))


class CancelRequestedTests(TestCase):
    """Whatever ends a claim that was asked to stop ends the job as cancelled."""

    def test_every_settlement_ends_it_as_cancelled(self):
        for move in ("complete", "retry", "abandon", "defer", "reschedule"):
            with self.subTest(move=move):
                job = run(dedup_key="7")
                self.assertFalse(job.cancel_requested())
                self.assertEqual(Job.objects.filter(pk=job.pk).cancel(), 1)
                self.assertTrue(job.cancel_requested())
                outcome = Outcome(move=move, reason="why", run_at=NOON, result='"kept"')
                self.assertEqual(
                    Job.objects.settle_many([(job, outcome)], LATER), {job.id: "cancelled"}
                )
                job.refresh_from_db()
                self.assertEqual((job.status, job.finished_at), ("cancelled", LATER))
                self.assertEqual((job.lease_owner, job.result), (None, "kept"))

    def test_it_ends_the_schedule(self):
        Job.objects.schedule("nightly", KIND, every=60, run_at=NOON)
        (job,) = Job.objects.claim("runner", now=NOON)
        self.assertTrue(Job.objects.unschedule("nightly"))
        self.assertTrue(job.complete())
        job.refresh_from_db()
        self.assertEqual(job.status, "cancelled")


class AdvanceTests(TestCase):
    """What would end a schedule moves it to its next occurrence instead."""

    def occurrence(self, **options: Any) -> Job:
        Job.objects.schedule("nightly", KIND, every=HOUR, run_at=NOON, **options)
        (job,) = Job.objects.claim("runner", now=NOON)
        return job

    def assert_next(self, job: Job, reason: str) -> None:
        self.assertEqual((job.status, job.attempts, job.last_error), ("ready", 0, reason))
        self.assertEqual((job.run_at, job.due_at), (NOON + HOUR, NOON + HOUR))
        self.assertIsNone(job.finished_at)

    def test_a_success_leads_to_the_next_due_time(self):
        self.assert_next(settle(self.occurrence(), "complete"), "")

    def test_an_abandoned_occurrence_leaves_its_reason(self):
        self.assert_next(settle(self.occurrence(), "abandon", reason="broken"), "broken")

    def test_a_retry_keeps_the_due_time_of_the_occurrence(self):
        job = settle(self.occurrence(), "retry", reason="timeout", delay=10)
        self.assertEqual((job.due_at, job.attempts), (NOON, 1))
        self.assertEqual(job.run_at, LATER + timedelta(seconds=10))

    def test_a_spent_budget_ends_the_occurrence_only(self):
        job = self.occurrence(max_attempts=1)
        self.assertTrue(Job.objects.settle(job, Job.objects.failure(job, "timeout"), LATER))
        job.refresh_from_db()
        self.assert_next(job, "timeout")

    def test_a_deadline_moves_with_the_occurrence(self):
        job = self.occurrence(deadline=timedelta(minutes=10))
        self.assertEqual(job.deadline, NOON + timedelta(minutes=10))
        job = settle(job, "complete")
        self.assertEqual(job.deadline, NOON + HOUR + timedelta(minutes=10))


class HistoryTests(TestCase):
    def outcomes(self, **given: Any) -> list[tuple[str, str]]:
        for move in ("complete", "retry", "abandon", "defer", "reschedule"):
            settle(run(), move, reason=move, run_at=NOON + HOUR, traceback="", **given)
        rows = Attempt.objects.order_by("id").values_list("outcome", "reason")
        return list(rows)

    def test_failures_leave_a_row(self):
        self.assertEqual(self.outcomes(), [("retried", "retry"), ("failed", "abandon")])

    @override_settings(SQLQUEUE={"HISTORY": "all"})
    def test_all_attempts_leave_a_row_where_the_settings_say_so(self):
        names = [name for name, _ in self.outcomes()]
        self.assertEqual(names, ["done", "retried", "failed", "deferred", "done"])

    @override_settings(SQLQUEUE={"HISTORY": "none"})
    def test_no_attempt_leaves_a_row_where_the_settings_say_so(self):
        self.assertEqual(self.outcomes(), [])

    def test_the_row_tells_who_ran_when_and_where_it_failed(self):
        job = run()
        settle(job, "abandon", reason="timeout", traceback="  jobs.py:3 in run\nTimeoutError\n")
        attempt = Attempt.objects.get()
        self.assertEqual((attempt.job, attempt.number, attempt.runner), (job, 1, "runner"))
        self.assertEqual((attempt.started_at, attempt.ended_at), (NOON, LATER))
        self.assertEqual(attempt.traceback, "  jobs.py:3 in run\nTimeoutError\n")

    def test_a_lost_claim_leaves_no_row(self):
        job = run()
        self.assertEqual(Job.objects.release_owned("runner"), 1)
        self.assertFalse(job.fail("timeout"))
        self.assertFalse(Attempt.objects.exists())
