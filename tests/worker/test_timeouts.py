"""Handlers that take too long are told so, and then settled without."""

import random
import threading
import time
from contextlib import suppress
from unittest import mock

import pytest
from django.test import SimpleTestCase

from django_sqlqueue.exceptions import JobTimeout
from django_sqlqueue.models import Job
from django_sqlqueue.worker.timeouts import Watch
from tests.processes import wait_until
from tests.testapp.models import Effect
from tests.worker.base import RunnerTestCase, WorkerTestCase


class RaisedTests(RunnerTestCase):
    def test_the_handler_gets_a_job_timeout_and_the_attempt_counts_as_failed(self):
        seen = []

        def busy(job):
            try:
                while True:
                    sum(range(100))
            except JobTimeout:
                seen.append(job.pk)
                raise

        self.handle("t.busy", busy, timeout=0.3, max_attempts=2)
        job = self.enqueue("t.busy")
        self.start()
        wait_until(lambda: Job.objects.get().last_error)
        job.refresh_from_db()
        self.assertEqual(
            (job.status, job.last_error, job.attempts, seen), ("ready", "timeout", 1, [job.pk])
        )
        attempt = job.history.get()
        self.assertEqual((attempt.outcome, attempt.reason), ("retried", "timeout"))

    def test_a_handler_that_ends_well_after_it_is_done(self):
        def tidies_up(job):
            with suppress(JobTimeout):
                while True:
                    sum(range(100))
            return "tidy"

        self.handle("t.tidy", tidies_up, timeout=0.2)
        job = self.enqueue("t.tidy")
        self.start()
        self.wait_for("done", job)
        self.assertEqual((job.result, job.attempts), ("tidy", 1))

    def test_a_handler_in_time_is_left_alone(self):
        self.handle("t.quick", lambda job: time.sleep(0.1), timeout=30)
        job = self.enqueue("t.quick")
        self.start()
        self.wait_for("done", job)

    def test_one_that_comes_just_as_the_handler_ends_costs_neither_slot_nor_job(self):
        def about(job):
            until = time.monotonic() + random.uniform(0.001, 0.005)
            while time.monotonic() < until:
                sum(range(50))

        self.handle("t.about", about, timeout=0.003, max_attempts=1)
        together = threading.Barrier(4, timeout=20)
        self.handle("t.together", lambda job: together.wait() and None)
        jobs = [self.enqueue("t.about") for _ in range(300)]
        self.start(threads=4)
        wait_until(lambda: self.count("done") + self.count("failed") == len(jobs), 60)
        self.assertEqual(set(Job.objects.values_list("last_error", flat=True)), {"", "timeout"})
        self.wait_for("done", *[self.enqueue("t.together") for _ in range(4)])

    def test_one_that_comes_while_the_watch_is_being_finished_changes_no_outcome(self):
        finish = Watch.finish

        def finish_late(watch, by):
            watch.interrupt()
            return finish(watch, by)

        self.handle("t.quick", lambda job: "in time", timeout=60)
        jobs = [self.enqueue("t.quick") for _ in range(5)]
        with mock.patch.object(Watch, "finish", finish_late):
            self.start(threads=1)
            self.wait_for("done", *jobs)
        self.assertEqual({(job.result, job.attempts) for job in jobs}, {("in time", 1)})


@pytest.mark.processes
class HungTests(WorkerTestCase):
    def test_a_hung_handler_is_settled_without_and_its_process_replaced_after_the_others(self):
        hung = self.enqueue("worker.stubborn", max_attempts=1)
        other = self.enqueue("worker.gate")
        worker = self.start("--threads", "2")
        self.wait_for_start(hung)
        self.wait_for_start(other)
        self.wait_for("failed", hung)
        self.assertEqual((hung.last_error, hung.attempts), ("timeout", 1))
        late = self.enqueue("worker.noop")
        self.assertNotIn("replaced by a fresh process", worker.output)
        self.open(other)
        self.wait_for("done", other, late)
        self.assertIn("replaced by a fresh process", worker.output)
        self.assertEqual((other.attempts, late.result), (1, {"pid": worker.pid}))
        self.end(worker)

    def test_a_worker_whose_slots_are_all_hung_serves_again(self):
        hung = [self.enqueue("worker.stubborn", max_attempts=1) for _ in range(2)]
        late = self.enqueue("worker.noop")
        worker = self.start("--threads", "2", "--lease", "600")
        self.wait_for("failed", *hung)
        self.wait_for("done", late)
        self.assertEqual(late.attempts, 1)
        self.end(worker)

    def test_a_hung_transaction_ends_with_the_process_that_is_replaced(self):
        Effect.objects.create(name="wanted")
        hung = self.enqueue("worker.stubborn_atomic", max_attempts=1)
        others = [self.enqueue("worker.noop") for _ in range(2)]
        worker = self.start("--threads", "2", "--lease", "6")
        self.wait_for("failed", hung, timeout=90)
        self.wait_for("done", *others)
        wait_until(lambda: "replaced by a fresh process" in worker.output)
        self.assertEqual(Effect.objects.filter(name="wanted").update(n=-1), 1)
        self.assertTrue(Effect.objects.filter(name="wanted", n=-1).exists())
        self.end(worker)

    def test_a_supervised_process_with_a_hung_handler_is_replaced_by_its_parent(self):
        hung = self.enqueue("worker.stubborn", max_attempts=1)
        parent = self.spawn("--processes", "2", "--threads", "1", "--drain")
        self.assertEqual(parent.wait(60), 0, parent.output)
        self.wait_for("failed", hung)
        self.assertEqual(parent.output.count(" serves "), 3, parent.output)
        self.assertNotIn("unasked", parent.output)

    def test_a_replaced_process_goes_on_counting_towards_max_jobs(self):
        hung = self.enqueue("worker.stubborn", max_attempts=1)
        fine = [self.enqueue("worker.noop") for _ in range(3)]
        worker = self.start("--threads", "1", "--max-jobs", "2")
        self.assertEqual(worker.wait(60), 0, worker.output)
        self.wait_for("failed", hung)
        self.assertEqual((self.count("done"), self.count("ready")), (1, len(fine) - 1))

    def test_a_hung_job_that_was_the_last_to_run_lets_the_worker_end(self):
        self.enqueue("worker.stubborn", max_attempts=1)
        worker = self.spawn("--once")
        self.assertEqual(worker.wait(60), 0, worker.output)
        self.assertNotIn("replaced by a fresh process", worker.output)


class WatchTests(SimpleTestCase):
    def watch(self):
        self.raised = []
        return Watch(Job(pk=1), 10, lambda: self.raised.append(1))

    def test_whoever_ends_it_first_has_the_say_also_when_asking_again(self):
        watch = self.watch()
        self.assertTrue(watch.finish("handler"))
        self.assertFalse(watch.finish("timeouts"))
        self.assertTrue(watch.finish("handler"))

    def test_a_handler_is_interrupted_once_and_not_after_its_end(self):
        watch = self.watch()
        self.assertTrue(watch.interrupt())
        self.assertFalse(watch.interrupt())
        ended = self.watch()
        ended.finish("handler")
        self.assertFalse(ended.interrupt())
        self.assertEqual(self.raised, [])
