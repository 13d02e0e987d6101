"""Stopping: one signal lets running jobs end, a second does not, and no claim is left half made."""

import signal
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

import pytest
from django.db import connection
from django.test import SimpleTestCase

from django_sqlqueue.models import Job, Worker
from django_sqlqueue.worker.bell import Bell
from django_sqlqueue.worker.stopping import LAST_WORDS, Stop
from tests.processes import wait_until
from tests.worker.base import RunnerTestCase, WorkerTestCase

# What keeps everybody else from the table of jobs until the connection is closed.
LOCK_TABLE = {
    "sqlite": ["BEGIN EXCLUSIVE"],
    "postgresql": ["BEGIN", "LOCK TABLE django_sqlqueue_job IN ACCESS EXCLUSIVE MODE"],
    "mysql": ["LOCK TABLES django_sqlqueue_job WRITE"],
}


@pytest.mark.processes
class SignalTests(WorkerTestCase):
    def test_an_idle_worker_stops_at_once_at_sigterm_and_at_sigint(self):
        for signum in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signum):
                worker = self.start("--poll", "30")
                wait_until(lambda: Worker.objects.exists())
                sent = time.monotonic()
                worker.send_signal(signum)
                self.assertEqual(worker.wait(), 0, worker.output)
                self.assertLess(time.monotonic() - sent, 3)  # on a machine that is busy, too
                self.assertNotIn("Traceback", worker.output)
                self.assertFalse(Worker.objects.exists())

    def test_a_second_signal_ends_it_at_once_and_gives_the_job_back(self):
        job = self.enqueue("worker.ignore")
        worker = self.start("--grace", "60")
        self.wait_for_start(job)
        worker.send_signal(signal.SIGINT)
        wait_until(lambda: "asked to stop" in worker.output)
        sent = time.monotonic()
        worker.send_signal(signal.SIGINT)
        self.assertEqual(worker.wait(), 1, worker.output)
        self.assertLess(time.monotonic() - sent, 5)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts, job.claims), ("ready", 0, 1))

    def test_a_job_longer_than_the_grace_is_given_back_and_starts_at_once_elsewhere(self):
        jobs = [self.enqueue("worker.ignore"), self.enqueue("worker.gate")]
        worker = self.start("--grace", "1", "--lease", "600")
        for job in jobs:
            self.wait_for_start(job)
        sent = time.monotonic()
        self.end(worker)
        self.assertLess(time.monotonic() - sent, 5)
        self.wait_for("ready", *jobs)
        self.assertEqual([job.attempts for job in jobs], [0, 0])
        self.start("--kind", "worker.gate")
        self.wait_for_start(jobs[1], times=2)

    def lock_table(self):
        other = connection.copy()
        self.addCleanup(other.close)
        with other.cursor() as cursor:
            for statement in LOCK_TABLE[connection.vendor]:
                cursor.execute(statement)

    def test_a_worker_that_waits_for_the_database_stops_within_its_grace(self):
        worker = self.start("--grace", "1", "--poll", "0.1")
        self.lock_table()
        time.sleep(1)
        sent = time.monotonic()
        worker.terminate()
        self.assertEqual(worker.wait(), 0, worker.output)
        self.assertLess(time.monotonic() - sent, 1 + LAST_WORDS + 2)

    def test_a_worker_that_waits_for_the_database_is_forced_by_a_second_signal(self):
        worker = self.start("--grace", "60", "--poll", "0.1")
        self.lock_table()
        time.sleep(1)
        sent = time.monotonic()
        worker.terminate()
        time.sleep(0.2)
        worker.terminate()
        self.assertEqual(worker.wait(), 1, worker.output)
        self.assertLess(time.monotonic() - sent, LAST_WORDS + 2)

    def test_a_signal_to_what_a_handler_has_forked_is_none_to_the_worker(self):
        worker = self.start("--grace", "0")
        self.wait_for("done", self.enqueue("worker.forks"))
        time.sleep(LAST_WORDS + 1)
        self.wait_for("done", self.enqueue("worker.noop"))
        self.end(worker)

    def test_leases_are_renewed_until_the_last_job_has_ended(self):
        job = self.enqueue("worker.gate")
        worker = self.start("--lease", "1", "--grace", "60")
        self.wait_for_start(job)
        self.start("--lease", "1")
        worker.terminate()
        wait_until(lambda: "asked to stop" in worker.output)
        job.refresh_from_db()
        first = job.lease_until
        wait_until(lambda: (lease_of(job) - first).total_seconds() > 3)
        self.open(job)
        self.assertEqual(worker.wait(), 0, worker.output)
        self.wait_for("done", job)
        self.assertEqual((job.attempts, job.result), (1, {"pid": worker.pid}))

    def test_a_signal_in_the_middle_of_claims_leaves_none_half_made(self):
        Job.objects.enqueue_many(("worker.noop", None) for _ in range(20_000))
        worker = self.start("--lease", "600")
        wait_until(lambda: Job.objects.filter(status="done").exists())
        self.end(worker)
        found = set(Job.objects.values_list("status", "attempts").distinct())
        self.assertEqual(found, {("ready", 0), ("done", 1)})

    def test_handlers_threads_that_go_on_do_not_keep_the_process(self):
        job = self.enqueue("worker.leaves_thread")
        worker = self.start()
        self.wait_for("done", job)
        sent = time.monotonic()
        self.end(worker)
        self.assertLess(time.monotonic() - sent, 10)


def lease_of(job):
    return Job.objects.values_list("lease_until", flat=True).get(pk=job.pk)


@pytest.mark.processes
class ReloadTests(WorkerTestCase):
    def setUp(self):
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        app = self.folder / "reloaded_app"
        app.mkdir()
        (app / "__init__.py").touch()
        self.code = app / "jobs.py"
        self.write(1)

    def write(self, version):
        self.code.write_text(
            "from django_sqlqueue import handler\n"
            f"@handler('reloaded')\ndef reloaded(job):\n    return {version}\n"
        )

    def test_a_change_lets_running_jobs_end_and_is_then_in_force(self):
        old = self.enqueue("reloaded")
        running = self.enqueue("worker.gate")
        worker = self.start("--reload", PYTHONPATH=str(self.folder), EXTRA_APPS="reloaded_app")
        self.wait_for("done", old)
        self.wait_for_start(running)
        time.sleep(1.1)  # What is changed within a second of the first look has not changed.
        self.write(2)
        wait_until(lambda: "asked to stop" in worker.output)
        self.open(running)
        self.wait_for("done", running)
        new = self.enqueue("reloaded")
        self.wait_for("done", new)
        self.assertEqual((old.result, new.result, running.attempts), (1, 2, 1))
        self.end(worker)

    def test_a_signal_stops_it_in_order(self):
        job = self.enqueue("worker.gate")
        worker = self.start("--reload", "--grace", "1")
        self.wait_for_start(job)
        self.end(worker)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts), ("ready", 0))


class ThreadTests(RunnerTestCase):
    """In a thread nothing takes signals: stop.request() does what a signal would do."""

    def test_a_request_lets_what_runs_end(self):
        began, end = threading.Event(), threading.Event()
        self.handle("t.wait", lambda job: began.set() or end.wait(20))
        job = self.enqueue("t.wait")
        runner = self.start()
        self.assertTrue(began.wait(10))
        runner.stop.request()
        self.assertFalse(runner.join(0.3))
        end.set()
        self.assertTrue(runner.join(10))
        self.wait_for("done", job)

    def test_the_second_request_does_not_wait(self):
        began, end = threading.Event(), threading.Event()
        self.addCleanup(end.set)
        self.handle("t.wait", lambda job: began.set() or end.wait(20))
        job = self.enqueue("t.wait")
        runner = self.start(grace=60)
        self.assertTrue(began.wait(10))
        runner.stop.request()
        runner.stop.request()
        self.assertTrue(runner.join(10))
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts), ("ready", 0))

    def test_a_stopped_worker_leaves_no_connection_and_no_thread(self):
        self.handle("t.noop", lambda job: None)
        job = self.enqueue("t.noop")
        runner = self.start()
        self.wait_for("done", job)
        self.stop(runner)
        left = [t.name for t in threading.enumerate() if t.name.startswith("sqlqueue-")]
        self.assertEqual(left, [])

    def test_a_job_that_cannot_be_given_back_does_not_hold_up_the_stop(self):
        began, end = threading.Event(), threading.Event()
        self.addCleanup(end.set)
        self.handle("t.wait", lambda job: began.set() or end.wait(20))
        self.enqueue("t.wait")
        runner = self.start(grace=0)
        self.assertTrue(began.wait(10))
        with mock.patch.object(runner, "_release", side_effect=lambda jobs: end.wait(20)):
            runner.stop.request()
            self.assertTrue(runner.join(10))


class StopTests(SimpleTestCase):
    def test_requests_are_counted_and_the_second_is_forceful(self):
        stop = Stop(Bell())
        self.assertEqual((stop.requested, stop.forced), (False, False))
        stop.request()
        self.assertEqual((stop.requested, stop.forced), (True, False))
        stop.request()
        self.assertEqual((stop.requested, stop.forced), (True, True))

    def test_a_supervised_worker_is_forced_by_its_parent_only(self):
        stop = Stop(Bell())
        stop.supervised = True
        stop.request()
        stop.request()
        self.assertFalse(stop.forced)
        stop.force()
        self.assertTrue(stop.forced)

    def test_signals_are_taken_and_given_back(self):
        before = signal.getsignal(signal.SIGTERM)
        stop = Stop(Bell())
        stop.listen()
        signal.raise_signal(signal.SIGTERM)
        stop.restore()
        self.assertTrue(stop.requested)
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)


class BellTests(SimpleTestCase):
    def test_a_ring_before_the_wait_is_not_missed(self):
        bell = Bell()
        bell.ring()
        bell.ring()
        self.assertLess(seconds_of(lambda: bell.wait(20)), 5)
        self.assertGreaterEqual(seconds_of(lambda: bell.wait(0.05)), 0.04)

    def test_a_look_that_is_true_ends_the_wait(self):
        looks = iter([False, False, True])
        self.assertLess(seconds_of(lambda: Bell().wait(20, 0.01, lambda: next(looks))), 5)

    def test_a_ring_from_another_thread_ends_the_wait(self):
        bell = Bell()
        timer = threading.Timer(0.05, bell.ring)
        timer.start()
        self.assertLess(seconds_of(lambda: bell.wait(20)), 5)
        timer.join()


def seconds_of(work):
    started = time.monotonic()
    work()
    return time.monotonic() - started
