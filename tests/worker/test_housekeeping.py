"""Retention and the sweep in a worker, beside its jobs."""

import time
from datetime import timedelta
from unittest import mock

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.policy import Outcome
from django_sqlqueue.worker import housekeeping
from django_sqlqueue.worker.bell import Bell
from django_sqlqueue.worker.housekeeping import Housekeeping
from tests.processes import wait_until
from tests.worker.base import ELSEWHERE, JobTests
from tests.worker.faulty import FaultTestCase

DAY = timedelta(days=1)


class Table(JobTests):
    def settled(self, status: str, finished: timedelta, number: int = 1, **options) -> list[int]:
        """Make settled jobs that were finished so long ago; return their ids."""
        moves = {"done": "complete", "failed": "abandon"}
        ref = f"{status} {finished}"
        Job.objects.enqueue_many([NewJob("faults.noop", ref=ref, **options) for _ in range(number)])
        mine = Job.objects.filter(ref=ref, status="ready")
        ids = list(mine.values_list("pk", flat=True))
        if status == "cancelled":
            mine.cancel()
        else:
            outcome = Outcome(move=moves[status], reason="")
            Job.objects.settle_many(
                [(job, outcome) for job in Job.objects.claim("me", limit=number)]
            )
        at = Job.objects.all().engine.now() - finished
        Job.objects.filter(pk__in=ids).update(finished_at=at)
        return ids

    def left(self) -> set[int]:
        return set(Job.objects.values_list("pk", flat=True))


class RetentionTests(Table):
    """The part itself, in a thread of this process."""

    def run_until(self, condition) -> None:
        with mock.patch.object(housekeeping, "RETENTION_FIRST", 0.0):
            part = Housekeeping(Job.objects.all, Bell(), lambda: None)
        part.start()
        try:
            wait_until(condition)
            # What must stay would go in the next pass.
            wait_until(lambda: part._due[part._retain] > time.monotonic() + 60)
        finally:
            part.finish()
            part.join(10)
            self.assertFalse(part.is_alive())

    def test_each_status_is_kept_as_long_as_its_retention_says_since_it_was_settled(self):
        settings = {"RETENTION": {"done": 7 * DAY, "cancelled": 86400, "failed": None}}
        gone = [*self.settled("done", 8 * DAY, 2), *self.settled("cancelled", 2 * DAY)]
        kept = [
            *self.settled("done", 6 * DAY),
            *self.settled("cancelled", DAY / 2),
            *self.settled("failed", 9999 * DAY),
        ]
        (created_long_ago,) = self.settled("done", timedelta(0))
        long_ago = Job.objects.all().engine.now() - 1000 * DAY
        Job.objects.filter(pk=created_long_ago).update(created_at=long_ago, run_at=long_ago)
        running = self.enqueue("faults.noop", queue="running")
        Job.objects.claim("a runner", queues=["running"], lease=99999)
        deferred = self.enqueue("faults.noop", delay=365 * DAY)
        live = Job.objects.filter(pk__in=(running.pk, deferred.pk))
        live.update(created_at=long_ago, started_at=long_ago, updated_at=long_ago)
        with self.settings(SQLQUEUE=settings):
            self.run_until(lambda: not self.left() & set(gone))
        self.assertEqual(self.left(), {*kept, created_long_ago, running.pk, deferred.pk})

    def test_by_default_done_and_cancelled_are_kept_a_week_and_failed_a_quarter(self):
        gone = [
            *self.settled("done", 8 * DAY),
            *self.settled("cancelled", 8 * DAY),
            *self.settled("failed", 91 * DAY),
        ]
        kept = [
            *self.settled("done", 6 * DAY),
            *self.settled("cancelled", 6 * DAY),
            *self.settled("failed", 89 * DAY),
        ]
        self.run_until(lambda: not self.left() & set(gone))
        self.assertEqual(self.left(), set(kept))

    def test_history_goes_with_its_job(self):
        (job_id,) = self.settled("failed", 91 * DAY)
        self.assertTrue(Attempt.objects.filter(job_id=job_id).exists())
        self.run_until(lambda: not self.left())
        self.assertFalse(Attempt.objects.exists())

    def test_many_go_in_batches_and_the_sweep_is_not_held_up(self):
        self.settled("done", 8 * DAY, 1200)
        batches: list[int] = []
        swept_between = []

        class Watched:
            def __getattr__(self, name):
                return getattr(Job.objects.all(), name)

            def cleanup(self, *args, **kwargs):
                found = Job.objects.cleanup(*args, **kwargs)
                batches.append(found)
                return found

            def reclaim_expired(self):
                swept_between.append(len(batches))
                return Job.objects.reclaim_expired()

        with mock.patch.multiple(housekeeping, RETENTION_FIRST=0.0, SWEEP=0.05):
            part = Housekeeping(Watched, Bell(), lambda: None)
            part.start()
            wait_until(lambda: not self.left())
            part.finish()
            part.join(10)
        self.assertEqual(sum(batches), 1200)
        self.assertLessEqual(max(batches), 500)
        self.assertGreater(len(set(swept_between)), 2)

    def test_a_failing_chore_does_not_keep_the_others_from_their_turn(self):
        shown, cleaned = [], []

        class Broken:
            def __getattr__(self, name):
                return getattr(Job.objects.all(), name)

            def reclaim_expired(self):
                raise RuntimeError

            def cleanup(self, *args, **kwargs):
                cleaned.append(args)
                return 0

        with mock.patch.multiple(housekeeping, RETENTION_FIRST=0.0, SWEEP=0.05, CHECK_IN=0.05):
            part = Housekeeping(Broken, Bell(), lambda: shown.append(True))
            part.start()
            try:
                wait_until(lambda: len(shown) > 2 and cleaned)
            finally:
                part.finish()
                part.join(15)


class CleanupPlanTests(Table):
    def test_a_batch_is_found_by_an_index(self):
        self.settled("done", 8 * DAY, 2000)
        with CaptureQueriesContext(connection) as captured:
            Job.objects.cleanup(Job.objects.all().engine.now(), ["done"], batches=1)
        select = next(each["sql"] for each in captured if "finished_at" in each["sql"])
        explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("ANALYZE django_sqlqueue_job")
            cursor.execute(explain + select.replace("%", "%%"))
            plan = str(cursor.fetchall())
        self.assertIn("sqlqueue_settled_idx", plan)


@pytest.mark.processes
class BusyWorkerTests(FaultTestCase, Table):
    """A worker that is never idle keeps house, too."""

    @pytest.mark.slow
    def test_retention_is_applied_within_a_minute_of_a_start_by_a_busy_worker(self):
        old = self.settled("done", 8 * DAY, 1500)
        worker = self.start("--threads", "2")
        ends = time.monotonic() + 60
        while Job.objects.filter(pk__in=old).exists() and time.monotonic() < ends:
            Job.objects.enqueue_many([NewJob("faults.noop") for _ in range(100)])
            time.sleep(0.2)
        self.assertFalse(Job.objects.filter(pk__in=old).exists())
        wait_until(lambda: "past their retention" in worker.output)
        self.end(worker)

    def test_an_expired_lease_is_taken_back_by_a_worker_whose_threads_are_all_busy(self):
        blocker = self.enqueue("worker.gate")
        worker = self.start("--threads", "1")
        self.wait_for_start(blocker)
        lost = self.enqueue("faults.noop", max_attempts=1)
        long_ago = Job.objects.all().engine.now() - DAY
        Job.objects.filter(pk=lost.pk).update(
            status="running", lease_owner=ELSEWHERE, lease_until=long_ago, attempts=1, claims=1
        )
        self.wait_for("failed", lost)
        self.assertEqual(lost.last_error, "lease_expired")
        self.open(blocker)
        self.wait_for("done", blocker)
        self.end(worker)

    @pytest.mark.slow
    @pytest.mark.timeout(600)
    def test_claims_stay_quick_while_a_huge_table_is_pruned(self):
        for _ in range(10):
            self.settled("done", 8 * DAY, 10_000)
        worker = self.start("--poll", "0.2")
        delays = []
        ends = time.monotonic() + 90
        while time.monotonic() < ends and self.count("done") > 1000:
            job = self.enqueue("faults.noop")
            self.wait_for("done", job)
            delays.append((job.started_at - job.created_at).total_seconds())
            time.sleep(0.1)
        self.assertLess(self.count("done"), 1001)
        delays.sort()
        print(f"median {delays[len(delays) // 2]:.3f} s, longest {delays[-1]:.3f} s")
        self.assertLess(delays[len(delays) // 2], 0.5)
        self.assertLess(delays[-1], 5)
        self.end(worker)
