"""Many workers, and all that is done to jobs beside them, at the same rows."""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome
from tests.processes import Process
from tests.testapp.models import Effect
from tests.worker.faulty import FaultTestCase

pytestmark = pytest.mark.processes


class Beside:
    """Does some things over and over, each in a thread of its own, while the block runs."""

    def __init__(self, *works: Callable[[], Any]) -> None:
        self.errors: list[BaseException] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]

    def _repeat(self, work: Callable[[], Any]) -> None:
        try:
            while not self._over.wait(0.02):
                work()
        except BaseException as error:
            self.errors.append(error)
        finally:
            connections.close_all()

    def __enter__(self) -> "Beside":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)


class CrowdTests(FaultTestCase):
    def check(self, workers: int, jobs: int) -> None:
        """Let workers drain tiny jobs while others sweep, delete and cancel."""
        doomed = [NewJob("faults.noop", ref="doomed", delay=3600) for _ in range(jobs // 4)]
        Job.objects.enqueue_many([NewJob("faults.noop", ref="old") for _ in range(jobs // 4)])
        settled = Job.objects.claim("the past", limit=jobs // 4)
        Job.objects.settle_many([(job, Outcome(move="complete")) for job in settled])
        past = Job.objects.all().engine.now()
        Job.objects.enqueue_many(doomed)
        ready = [NewJob("faults.record", {"name": "ran"}, delay=3) for _ in range(jobs)]
        Job.objects.enqueue_many(ready)
        crowd = [self.spawn("--poll", "0.3", "--threads", "2") for _ in range(workers)]

        def delete_old() -> None:
            Job.objects.cleanup(past, ["done"], batches=1)

        with Beside(Job.objects.reclaim_expired, self._cancel_some, delete_old) as beside:
            self.wait_for_done(jobs, crowd)
        self.assertEqual(beside.errors, [])
        ran = Effect.objects.filter(name="ran")
        self.assertEqual((ran.count(), ran.values("n").distinct().count()), (jobs, jobs))
        self.assertEqual(self.count("cancelled", ref="doomed"), jobs // 4)
        self.assertFalse(Job.objects.filter(ref="old").exists())
        self.assertFalse(Job.objects.filter(status__in=("ready", "running")).exists())
        for worker in crowd:
            self.end(worker)
            self.assertNotIn("An error of the worker itself", worker.output)

    def wait_for_done(self, jobs: int, crowd: list[Process]) -> None:
        ends = time.monotonic() + 150
        while self.count("done", kind="faults.record") < jobs or Job.objects.filter(ref="old"):
            self.assertLess(time.monotonic(), ends, Job.objects.stats())
            self.assertEqual([worker.poll() for worker in crowd], [None] * len(crowd))
            time.sleep(0.1)
        while Job.objects.filter(ref="doomed", status="ready").exists():
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.1)

    def _cancel_some(self) -> None:
        Job.objects.filter(ref="doomed").order_by("?")[:40].cancel()

    def test_a_crowd_of_workers_runs_each_job_once_whatever_is_done_beside(self):
        self.check(workers=3, jobs=400)

    @pytest.mark.slow
    @pytest.mark.timeout(600)
    def test_ten_workers_run_each_of_thousands_of_jobs_once(self):
        self.check(workers=10, jobs=4000)


WAL = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
ROLLBACK_JOURNAL = "PRAGMA journal_mode=DELETE;"


class FileLockTests(FaultTestCase):
    """SQLite with Django's own way of beginning transactions: deferred."""

    def setUp(self):
        super().setUp()
        if connection.vendor != "sqlite":
            self.skipTest("only SQLite locks a file")

    def use_journal(self, pragma: str) -> None:
        options = connection.settings_dict["OPTIONS"]
        self.addCleanup(options.__setitem__, "init_command", options["init_command"])
        self.addCleanup(connection.close)
        options["init_command"] = pragma
        connection.close()
        connection.ensure_connection()

    def check(self, pragma: str, seconds: float) -> None:
        self.use_journal(pragma)
        changes = {"default": {"OPTIONS": {"init_command": pragma, "timeout": 20}}}
        workers = [
            self.start("--threads", "2", "--poll", "0.3", DATABASE_CHANGES=changes)
            for _ in range(4)
        ]
        enqueued = 0
        ends = time.monotonic() + seconds
        with Beside(self._write) as beside:
            while time.monotonic() < ends:
                enqueued += Job.objects.enqueue_many(
                    [NewJob("faults.record", {"name": "ran"}) for _ in range(20)]
                )
                time.sleep(0.2)
            self.wait_for("done", *Job.objects.all(), timeout=90)
        self.assertEqual(beside.errors, [])
        ran = Effect.objects.filter(name="ran")
        self.assertEqual((ran.count(), ran.values("n").distinct().count()), (enqueued, enqueued))
        self.assertEqual(set(Job.objects.values_list("attempts", flat=True)), {1})
        for worker in workers:
            self.assertNotIn("ERROR", worker.output)
            self.end(worker)

    def _write(self) -> None:
        """Write as a web process does: read first, then write, and try again when refused."""
        with suppress(OperationalError), transaction.atomic():
            Effect.objects.count()
            Effect.objects.create(name="web")

    def test_workers_and_a_web_process_share_a_file_with_a_write_ahead_log(self):
        self.check(WAL, 3)

    def test_workers_and_a_web_process_share_a_file_with_a_rollback_journal(self):
        self.check(ROLLBACK_JOURNAL, 3)

    @pytest.mark.slow
    @pytest.mark.timeout(400)
    def test_a_minute_with_a_write_ahead_log(self):
        self.check(WAL, 60)

    @pytest.mark.slow
    @pytest.mark.timeout(400)
    def test_a_minute_with_a_rollback_journal(self):
        self.check(ROLLBACK_JOURNAL, 60)

    def test_a_file_that_is_locked_for_long_costs_no_outcome(self):
        job = self.enqueue("faults.sleep_without_queries", 1)
        changes = {"default": {"OPTIONS": {"timeout": 0.5}}}
        worker = self.start("--poll", "0.3", DATABASE_CHANGES=changes)
        self.wait_for("running", job)
        name = connection.settings_dict["NAME"]
        with closing(sqlite3.connect(name, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(5)
            other.execute("ROLLBACK")
        following = self.enqueue("faults.noop")
        self.wait_for("done", job, following)
        self.assertEqual(job.attempts, 1)
        self.end(worker)
