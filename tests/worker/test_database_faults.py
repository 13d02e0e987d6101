"""The database goes away, comes back, refuses to write, or keeps another time than the host."""

import time
from unittest import SkipTest

import pytest
from django.db import connection

from tests.processes import Process, kill_all, spawn, wait_until
from tests.servers import Unavailable
from tests.storm.clocks import SKEW_LIBRARY
from tests.testapp.models import Effect
from tests.worker.faulty import FaultTestCase
from tests.worker.own_servers import OwnServer, own_server
from tests.worker.test_wakeup import cpu_seconds

pytestmark = pytest.mark.processes

MANY_LINES = 30
"""More than a worker may write about one outage: its five parts, each twice and back again."""


class RestartedServerTests(FaultTestCase):
    """The server is stopped and started again under a running worker."""

    server: OwnServer

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.server = own_server()
        except Unavailable as error:
            raise SkipTest(str(error)) from error
        cls.addClassCleanup(cls.server.remove)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.server.forget_jobs)
        self.addCleanup(kill_all)

    def spawn_there(self, *arguments: str) -> Process:
        return spawn(
            "runjobs", *arguments, env=self.server.environ(), settings="tests.worker.fault_settings"
        )

    def start_there(self, *arguments: str) -> Process:
        worker = self.spawn_there(*arguments)
        wait_until(lambda: " serves " in worker.output or worker.poll() is not None, 30)
        self.assertIsNone(worker.poll(), worker.output)
        return worker

    def wait_for_done(self, number: int) -> None:
        wait_until(lambda: self.server.stats().get("done") == number, 40, 0.1)

    def check_quiet(self, worker: Process) -> None:
        lines = self.warnings_in(worker)
        self.assertLess(len(lines), MANY_LINES, "\n".join(lines))
        self.assertNotIn("Traceback", worker.output)
        self.assertNotIn("An error of the worker itself", worker.output)

    def test_an_idle_worker_comes_back_with_all_its_parts(self):
        worker = self.start_there("--poll", "0.5")
        self.server.enqueue("faults.noop")
        self.wait_for_done(1)
        self.server.stop()
        time.sleep(3)
        self.server.start()
        self.server.enqueue("faults.noop")
        self.server.query(
            "INSERT INTO django_sqlqueue_job (kind, status, lease_owner, lease_until, attempts)"
            " VALUES ('faults.noop', 'running', 'gone', '2020-01-01 00:00:00', 1)"
        )
        self.wait_for_done(3)
        self.check_quiet(worker)
        self.end(worker)

    def test_what_ran_meanwhile_is_stored_and_renewed_afterwards(self):
        worker = self.start_there("--poll", "0.5", "--lease", "10", "--threads", "2")
        self.server.enqueue("faults.sleep_without_queries", "2")
        self.server.enqueue("faults.sleep_without_queries", "12")
        wait_until(lambda: self.server.stats().get("running") == 2, 20)
        self.server.stop()
        time.sleep(4)
        self.server.start()
        self.wait_for_done(2)
        self.assertEqual(
            {tuple(row) for row in self.server.query("SELECT attempts FROM django_sqlqueue_job")},
            {(1,)},
            "neither ran twice",
        )
        self.check_quiet(worker)
        self.end(worker)

    def test_a_worker_that_starts_while_the_server_is_away_waits_for_it(self):
        self.server.enqueue("faults.noop")
        self.server.stop()
        # On MariaDB Django's own checks of models ask the server for its version.
        worker = self.spawn_there("--poll", "0.5", "--skip-checks")
        wait_until(lambda: "trying again" in worker.output)
        time.sleep(1)
        self.server.start()
        self.wait_for_done(1)
        self.check_quiet(worker)
        self.end(worker)

    def test_claims_and_outcomes_wait_while_a_fail_over_takes_no_writes(self):
        self.server.enqueue("faults.sleep_without_queries", "1.5")
        worker = self.start_there("--poll", "0.3")
        wait_until(lambda: self.server.stats().get("running") == 1, 20)
        self.server.refuse_writes()
        time.sleep(5)
        self.assertIsNone(worker.poll(), worker.output)
        self.assertEqual(self.server.stats(), {"running": 1})
        self.server.allow_writes()
        self.server.enqueue("faults.noop")
        self.wait_for_done(2)
        rows = self.server.query("SELECT attempts FROM django_sqlqueue_job")
        self.assertEqual({tuple(row) for row in rows}, {(1,)})
        self.check_quiet(worker)
        self.end(worker)

    def test_a_worker_is_stopped_while_the_server_is_away(self):
        worker = self.start_there("--poll", "0.5", "--grace", "2")
        self.server.stop()
        time.sleep(1)
        worker.terminate()
        self.assertEqual(worker.wait(20), 0, worker.output)


@pytest.mark.skipif(SKEW_LIBRARY is None, reason="libfaketime is not installed")
class SkewedClockTests(FaultTestCase):
    """Workers whose hosts are ten minutes early or late: the server's clock is the one."""

    def setUp(self):
        super().setUp()
        self.needs_server()

    def start_at(self, offset: str, *arguments: str) -> Process:
        return self.start(
            *arguments,
            LD_PRELOAD=str(SKEW_LIBRARY),
            FAKETIME=offset,
            # Time-outs and waiting go by the monotonic clock, which no skew moves.
            FAKETIME_DONT_FAKE_MONOTONIC="1",
        )

    def test_no_job_runs_early_and_no_live_lease_is_taken(self):
        held = self.enqueue("faults.wait_until_opened")
        late = self.start_at("-10m", "--threads", "1", "--lease", "60")
        self.wait_for_start(held)
        early = self.start_at("+10m", "--poll", "0.2", "--lease", "60")
        future = self.enqueue("faults.noop", delay=300)
        soon = self.enqueue("faults.noop", delay=2)
        now = self.enqueue("faults.noop")
        self.wait_for("done", now, soon)
        self.assertGreaterEqual(soon.started_at, soon.run_at)
        future.refresh_from_db()
        held.refresh_from_db()
        self.assertEqual((future.status, held.status, held.claims), ("ready", "running", 1))
        self.open(held)
        self.wait_for("done", held)
        self.assertEqual(held.attempts, 1)
        self.assertLess(abs((held.finished_at - now.finished_at).total_seconds()), 60)
        for worker in (early, late):
            # To end in order takes time.sleep, which the faked clock breaks.
            worker.kill()


class FileTests(FaultTestCase):
    """SQLite's way of being away: the file may not be written."""

    def setUp(self):
        super().setUp()
        if connection.vendor != "sqlite":
            self.skipTest("only SQLite is a file")

    def test_a_worker_whose_connections_only_read_waits_without_a_flood(self):
        job = self.enqueue("faults.noop")
        only_read = {"default": {"OPTIONS": {"init_command": "PRAGMA query_only=1"}}}
        worker = self.start("--poll", "0.2", DATABASE_CHANGES=only_read)
        wait_until(lambda: "Claiming failed" in worker.output)
        time.sleep(2)
        self.assertLess(len(self.warnings_in(worker)), MANY_LINES, worker.output)
        job.refresh_from_db()
        self.assertEqual((job.status, job.claims), ("ready", 0))
        self.end(worker)

    def test_pauses_after_failures_grow_whatever_others_commit(self):
        only_read = {"default": {"OPTIONS": {"init_command": "PRAGMA query_only=1"}}}
        self.enqueue("faults.noop")
        worker = self.start("--poll", "0.2", DATABASE_CHANGES=only_read)
        wait_until(lambda: "Claiming failed" in worker.output)
        before = cpu_seconds(worker)
        ends = time.monotonic() + 4
        while time.monotonic() < ends:
            Effect.objects.create(name="a commit")
            time.sleep(0.01)
        self.assertLess(cpu_seconds(worker) - before, 1.0)
        self.end(worker)
