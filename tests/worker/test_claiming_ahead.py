"""A worker takes what it can start: more only where jobs are so short that all start at once."""

import threading
import time
from unittest.mock import patch

import pytest
from django.test import SimpleTestCase

from django_sqlqueue.managers import JobQuerySet
from django_sqlqueue.models import Job
from django_sqlqueue.worker.pace import MOST, Pace
from django_sqlqueue.worker.settler import BEHIND
from tests.processes import wait_until
from tests.testapp.models import Effect
from tests.worker.base import RunnerTestCase, WorkerTestCase


class LongJobsTests(WorkerTestCase):
    @pytest.mark.processes
    def test_of_a_thousand_jobs_of_two_seconds_no_more_run_than_there_are_threads(self):
        Job.objects.enqueue_many(("worker.sleep", 2) for _ in range(1000))
        worker = self.start("--threads", "4", "--grace", "0")
        most = 0
        until = time.monotonic() + 30
        while Effect.objects.filter(name="started").count() < 9 and time.monotonic() < until:
            most = max(most, self.count("running"))
            time.sleep(0.02)
        self.assertEqual(most, 4)
        self.end(worker)
        self.assertEqual(self.count("running"), 0)
        self.assertEqual(self.count("ready", attempts__gt=0), 0)


class ChangingJobsTests(RunnerTestCase):
    def setUp(self):
        super().setUp()
        self.gate = threading.Event()
        self.addCleanup(self.gate.set)
        self.handle("t.short", lambda job: None)
        self.handle("t.long", lambda job: self.gate.wait(60) and None)

    def test_short_jobs_are_claimed_ahead(self):
        Job.objects.enqueue_many(("t.short", None) for _ in range(2000))
        claim, claimed = JobQuerySet.claim, []

        def noted(*args, **options):
            jobs = claim(*args, **options)
            claimed.append(len(jobs))
            return jobs

        with patch.object(JobQuerySet, "claim", noted):
            self.start(threads=2)
            wait_until(lambda: self.count("done") == 2000, 60)
        self.assertGreater(max(claimed), 10)
        self.assertEqual(Job.objects.filter(claims__gt=1).count(), 0)

    def test_no_more_is_run_than_can_be_stored_soon(self):
        Job.objects.enqueue_many(("t.short", None) for _ in range(6000))
        settle_many, behind = JobQuerySet.settle_many, []

        def slowly(*args, **options):
            behind.append(runner.settler.backlog)
            time.sleep(0.02)
            return settle_many(*args, **options)

        with patch.object(JobQuerySet, "settle_many", slowly):
            runner = self.start(threads=4)
            wait_until(lambda: self.count("done") == 6000, 60)
        self.assertLess(max(behind), BEHIND + MOST + 100)

    def test_the_surplus_is_given_back_when_jobs_turn_out_long(self):
        short = [("t.short", None)] * 300
        Job.objects.enqueue_many([*short, *[("t.long", None)] * 100])
        self.start(threads=4)
        wait_until(lambda: self.count("done") == 300, 60)
        wait_until(lambda: self.count("running") == 4, 10)
        given_back = Job.objects.filter(status="ready", kind="t.long")
        self.assertEqual(given_back.count(), 96)
        self.assertFalse(given_back.exclude(attempts=0).exists())
        self.gate.set()
        wait_until(lambda: self.count("done") == 400, 60)
        self.assertEqual(set(Job.objects.values_list("attempts", flat=True)), {1})

    def test_what_was_given_back_does_not_count_towards_max_jobs(self):
        Job.objects.enqueue_many([*[("t.short", None)] * 300, *[("t.long", None)] * 100])
        runner = self.start(threads=4, max_jobs=350)
        wait_until(lambda: self.count("done") == 300, 60)
        wait_until(lambda: self.count("running") == 4, 10)
        self.gate.set()
        self.assertTrue(runner.join(30))
        self.assertEqual((self.count("done"), self.count("ready")), (350, 50))

    def test_what_was_claimed_ahead_is_given_back_by_a_stop(self):
        self.handle("t.medium", lambda job: time.sleep(0.01))
        Job.objects.enqueue_many(("t.medium", None) for _ in range(500))
        runner = self.start(threads=1)
        wait_until(lambda: runner.pool.waiting.qsize() > 3, 30)
        self.stop(runner)
        left = Job.objects.exclude(status="done")
        self.assertGreater(left.count(), 0)
        self.assertEqual(set(left.values_list("status", "attempts")), {("ready", 0)})
        self.assertTrue(left.filter(claims=1).exists())


class PaceTests(SimpleTestCase):
    def test_nothing_is_claimed_ahead_before_anything_was_measured(self):
        self.assertEqual(Pace(4).ahead, 0)

    def test_short_jobs_are_claimed_ahead_as_far_as_they_start_soon(self):
        pace = Pace(4)
        pace.note(0.01)
        self.assertEqual(pace.ahead, 80)

    def test_it_has_a_bound(self):
        pace = Pace(4)
        pace.note(0.0)
        self.assertEqual(pace.ahead, MOST)

    def test_long_jobs_are_not_claimed_ahead(self):
        pace = Pace(4)
        pace.note(2)
        self.assertEqual(pace.ahead, 0)

    def test_one_long_job_outweighs_many_short_ones(self):
        pace = Pace(4)
        for _ in range(100):
            pace.note(0.001)
        pace.note(2)
        self.assertEqual(pace.ahead, 0)

    def test_after_long_jobs_short_ones_are_trusted_by_and_by(self):
        pace = Pace(4)
        pace.note(2)
        for _ in range(200):
            pace.note(0.001)
        self.assertGreater(pace.ahead, 100)

    def test_what_proved_wrong_is_forgotten(self):
        pace = Pace(4)
        pace.note(0.001)
        pace.forget()
        self.assertEqual(pace.ahead, 0)
