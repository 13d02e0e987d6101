"""Leases are renewed while jobs run, whatever happens to a single renewal."""

import threading
from datetime import timedelta
from unittest import mock

import pytest
from django.db import OperationalError, transaction

from django_sqlqueue.models import Job
from django_sqlqueue.worker.holdings import Holdings
from tests.processes import wait_until
from tests.worker.base import ELSEWHERE, RunnerTestCase, WorkerTestCase


@pytest.mark.processes
class LongerThanTheLeaseTests(WorkerTestCase):
    def test_ten_jobs_longer_than_their_lease_run_once_while_two_workers_look(self):
        jobs = [self.enqueue("worker.gate") for _ in range(10)]
        for _ in range(2):
            self.start("--lease", "1", "--threads", "10", "--poll", "0.1")
        for job in jobs:
            self.wait_for_start(job)
        first = Job.objects.latest("lease_until").lease_until
        wait_until(
            lambda: (Job.objects.earliest("lease_until").lease_until - first).total_seconds() > 3
        )
        for job in jobs:
            self.open(job)
        self.wait_for("done", *jobs)
        self.assertEqual({(job.attempts, job.claims) for job in jobs}, {(1, 1)})


class RenewalTests(RunnerTestCase):
    def setUp(self):
        super().setUp()
        self.gate = threading.Event()
        self.handle("t.wait", lambda job: self.gate.wait(30) and "mine")
        self.job = self.enqueue("t.wait")

    def start(self, **options):
        runner = super().start(**options)
        self.addCleanup(self.gate.set)
        return runner

    def wait_for_renewals(self, runner, times):
        real = runner.table().__class__.renew
        renewed = threading.Semaphore(0)

        def counted(*args, **kwargs):
            held = real(*args, **kwargs)
            renewed.release()
            return held

        with mock.patch.object(runner.table().__class__, "renew", counted):
            for _ in range(times):
                self.assertTrue(renewed.acquire(timeout=20))

    def test_a_renewal_that_fails_is_made_up_for_before_the_lease_ends(self):
        failures = []
        real = Job.objects.none().__class__.renew

        def fails_twice(table, *args, **kwargs):
            if len(failures) < 2:
                failures.append(True)
                raise OperationalError("the connection is gone")
            return real(table, *args, **kwargs)

        with mock.patch.object(Job.objects.none().__class__, "renew", fails_twice):
            for _ in range(2):
                self.start(lease=2)
            wait_until(lambda: len(failures) == 2)
            owner = Job.objects.get().lease_owner
            first = Job.objects.get().lease_until
            wait_until(lambda: (Job.objects.get().lease_until - first).total_seconds() > 2)
        self.assertEqual(Job.objects.get().lease_owner, owner)
        self.gate.set()
        self.wait_for("done", self.job)
        self.assertEqual((self.job.attempts, self.job.claims), (1, 1))

    def test_a_claim_that_somebody_else_has_taken_is_let_go_and_settles_nothing(self):
        runner = self.start(lease=1)
        # The table knows of a claim before its runner does.
        wait_until(lambda: runner.holdings)
        Job.objects.update(lease_owner=ELSEWHERE, claims=2, attempts=2)
        with self.assertLogs("django_sqlqueue", "WARNING") as logged:
            wait_until(lambda: not runner.holdings)
        self.assertIn("is lost: its claim is over", logged.output[0])
        self.gate.set()
        self.stop(runner)
        self.job.refresh_from_db()
        self.assertEqual((self.job.status, self.job.result), ("running", None))

    def test_a_job_whose_outcome_is_being_stored_is_not_taken_for_lost(self):
        runner = self.start(lease=0.4)
        reported = threading.Event()
        real = runner.settler._report

        def late(*args):
            self.assertTrue(reported.wait(20))
            real(*args)

        with (
            mock.patch.object(runner.settler, "_report", late),
            self.assertNoLogs("django_sqlqueue", "WARNING"),
        ):
            self.gate.set()
            self.wait_for("done", self.job)
            self.wait_for_renewals(runner, 3)
            reported.set()
            wait_until(lambda: not runner.holdings)

    def test_a_claim_that_its_own_handler_has_ended_is_not_taken_for_lost(self):
        def wait():
            self.gate.wait(30)

        def completes(job):
            job.complete("own")
            wait()

        self.handle("t.completes", completes)
        self.handle("t.commits", lambda job: transaction.on_commit(wait), atomic=True)
        ended = [self.enqueue("t.completes"), self.enqueue("t.commits")]
        with self.assertNoLogs("django_sqlqueue", "WARNING"):
            runner = self.start(lease=0.4, threads=3)
            self.wait_for("done", *ended)
            self.wait_for_renewals(runner, 3)
            self.gate.set()
            wait_until(lambda: not runner.holdings)


class OwnObjectTests(RunnerTestCase):
    def test_a_handler_that_deletes_its_job_costs_no_other_job_its_lease(self):
        deleted, end = threading.Event(), threading.Event()
        self.addCleanup(end.set)

        def deletes(job):
            job.delete()
            deleted.set()
            end.wait(20)

        self.handle("t.deletes", deletes)
        self.handle("t.waits", lambda job: end.wait(20) and None)
        waiting, _ = self.enqueue("t.waits"), self.enqueue("t.deletes")
        self.start(threads=2, lease=1)
        self.assertTrue(deleted.wait(20))
        waiting.refresh_from_db()
        first = waiting.lease_until
        assert first is not None
        later = Job.objects.filter(pk=waiting.pk, lease_until__gt=first + timedelta(seconds=1.5))
        wait_until(later.exists)
        end.set()
        self.wait_for("done", waiting, *(self.enqueue("t.waits") for _ in range(2)))
        self.assertEqual((waiting.attempts, waiting.claims), (1, 1))


class HoldingsTests(RunnerTestCase):
    def test_a_second_claim_of_the_same_job_is_another_holding(self):
        first, second = Job(pk=1, claims=1), Job(pk=1, claims=2)
        holdings = Holdings()
        holdings.add([first])
        self.assertFalse(holdings.holds(second))
        holdings.drop([second])
        self.assertTrue(holdings.holds(first))
        holdings.drop([first])
        holdings.drop([first])
        self.assertEqual((len(holdings), holdings.ended), (0, 1))
