"""Connections of a worker: few, its own, healthy, and never left in a transaction."""

import multiprocessing
import sqlite3
import time
from contextlib import closing

import pytest
from django.db import connection

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job
from tests.processes import kill_all, spawn_python, wait_until
from tests.servers import Unavailable
from tests.testapp.models import Effect
from tests.worker.faulty import FaultTestCase
from tests.worker.own_servers import EncryptedPostgresServer, OwnPostgres

pytestmark = pytest.mark.processes

FOREVER = {"default": {"CONN_MAX_AGE": None}, "other": {"CONN_MAX_AGE": None}}
AFTER_SECONDS = 2
"""How long the servers of these tests let a session be idle."""
IDLE_LIMITS = {
    "postgresql": {"options": f"-c idle_session_timeout={AFTER_SECONDS}s"},
    "mysql": {"init_command": f"SET SESSION wait_timeout={AFTER_SECONDS}"},
}


class LeftoverTests(FaultTestCase):
    """What a handler leaves in its connection does not reach the next job."""

    KINDS = (
        "faults.autocommit_off",
        "faults.atomic_never_left",
        "faults.transaction_by_sql",
        "faults.swallowed_error",
        "faults.closed_by_django",
        "faults.closed_by_driver",
        "faults.closed_in_atomic",
    )

    def test_whatever_state_a_handler_leaves_the_next_job_starts_in_autocommit(self):
        """Each order is tried with a fresh thread, too: the leaving job is its first."""
        for changes in ({}, FOREVER):
            left, following = [], []
            for kind in self.KINDS:
                left.append(self.enqueue(kind))
                following.append(self.enqueue("faults.state_of_connection"))
            worker = self.spawn("--drain", "--threads", "1", DATABASE_CHANGES=changes)
            self.assertEqual(worker.wait(60), 0, worker.output)
            self.wait_for("done", *left, *following)
            for job in following:
                self.assertEqual(job.result, {"autocommit": True, "in_atomic": False})
        self.assertFalse(Effect.objects.filter(name="left open").exists(), "rolled back")
        self.assertEqual(Effect.objects.filter(name="next").count(), 2 * len(self.KINDS))

    def test_the_first_job_of_a_thread_leaves_nothing_either(self):
        for kind in ("faults.autocommit_off", "faults.atomic_never_left"):
            job = self.enqueue(kind)
            worker = self.spawn("--drain", "--threads", "1")
            self.assertEqual(worker.wait(60), 0, worker.output)
            self.wait_for("done", job)
            self.assertNotIn("ERROR", worker.output)
        self.assertFalse(Effect.objects.exists())

    def test_an_open_transaction_holds_no_lock_once_the_job_has_ended(self):
        job = self.enqueue("faults.autocommit_off")
        worker = self.start("--threads", "1")
        self.wait_for("done", job)
        Effect.objects.create(name="by another")
        if connection.vendor != "sqlite":
            wait_until(lambda: self.open_transactions() == 0)
        self.end(worker)


class DuringHandlersTests(FaultTestCase):
    """What is held while a handler runs."""

    def test_no_transaction_is_open_while_a_handler_runs(self):
        job = self.enqueue("faults.sleep_without_queries", 3)
        worker = self.start("--poll", "0.2")
        self.wait_for("running", job)
        ends = time.monotonic() + 2
        looks = 0
        while time.monotonic() < ends:
            looks += self._look()
        self.assertEqual(self.count("running"), 1)
        self.assertGreater(looks, 10)
        self.end(worker)

    def _look(self) -> int:
        if connection.vendor == "sqlite":
            self._write_at_once()
        elif self.open_transactions():
            # The worker's own short transactions may be seen between two of their statements.
            wait_until(lambda: self.open_transactions() == 0, timeout=1, interval=0.005)
        time.sleep(0.02)
        return 1

    def _write_at_once(self) -> None:
        name = connection.settings_dict["NAME"]
        with closing(sqlite3.connect(name, timeout=1, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")

    def test_an_atomic_handler_does_not_hold_up_the_renewal_of_other_jobs(self):
        self.needs_server()
        holder = self.enqueue("faults.hold_a_transaction", 5)
        others = [self.enqueue("faults.sleep_without_queries", 5) for _ in range(3)]
        worker = self.start("--threads", "4", "--lease", "2")
        rival = self.start("--threads", "4", "--lease", "2")
        self.wait_for("done", holder, *others)
        for job in (holder, *others):
            self.assertEqual((job.attempts, job.claims), (1, 1), worker.output)
        self.end(worker)
        self.end(rival)


class IdleLimitTests(FaultTestCase):
    """A server that ends idle sessions."""

    def setUp(self):
        super().setUp()
        self.needs_server()
        if connection.vendor == "postgresql" and connection.pg_version < 140000:
            self.skipTest("idle_session_timeout came with PostgreSQL 14")
        self.changes = {
            "default": {"CONN_MAX_AGE": None, "OPTIONS": IDLE_LIMITS[connection.vendor]}
        }

    def test_a_quiet_worker_and_a_quiet_handler_find_their_sessions_again(self):
        worker = self.start("--poll", "20", DATABASE_CHANGES=self.changes)
        first = self.enqueue("faults.record", {"name": "first"})
        self.wait_for("done", first)
        time.sleep(2 * AFTER_SECONDS)
        second = self.enqueue("faults.record", {"name": "second"})
        sleeping = self.enqueue("faults.sleep_between_queries", 2 * AFTER_SECONDS)
        self.wait_for("done", second, sleeping)
        self.assertEqual((second.attempts, sleeping.attempts), (1, 1))
        self.assertEqual(Effect.objects.filter(name="after").count(), 1)
        self.assertLessEqual(len(self.failures_in(worker)), 1 + 4, worker.output)
        self.end(worker)

    def failures_in(self, worker) -> list[str]:
        return [line for line in self.warnings_in(worker) if "Listening" not in line]


class CountTests(FaultTestCase):
    """How many sessions a worker has."""

    databases = {"default", "other"}

    def test_sessions_are_bounded_by_the_threads_and_none_is_left(self):
        self.needs_server()
        Job.objects.enqueue_many([NewJob("faults.use_all_aliases")] * 300)
        both = {alias: {**self._server(), "CONN_MAX_AGE": None} for alias in ("default", "other")}
        worker = self.start("--threads", "8", DATABASE_CHANGES=both)
        most = 0
        ends = time.monotonic() + 30
        while self.count("done") < 300 and time.monotonic() < ends:
            most = max(most, len(self.sessions()))
            time.sleep(0.02)
        self.assertEqual(self.count("done"), 300, worker.output)
        # Two aliases for each thread; the loop, settler, renewal, housekeeping and listener.
        self.assertLessEqual(most, 2 * 8 + 5)
        self.assertGreaterEqual(most, 2 * 8)
        self.end(worker)
        wait_until(lambda: not self.sessions(), timeout=5)

    def _server(self) -> dict:
        names = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
        return {name: connection.settings_dict[name] for name in names}

    def test_a_killed_worker_s_sessions_end_too(self):
        self.needs_server()
        worker = self.start("--threads", "2")
        self.assertGreater(len(self.sessions()), 0)
        worker.kill()
        wait_until(lambda: not self.sessions(), timeout=10)


class EncryptedForkTests(FaultTestCase):
    """As ForkTests, over TLS, where a shared session breaks at once."""

    def test_no_child_speaks_on_its_parent_s_encrypted_session(self):
        if connection.vendor != "postgresql":
            self.skipTest("only a PostgreSQL with TLS is made for this")
        try:
            server = OwnPostgres(EncryptedPostgresServer())
        except Unavailable as error:
            self.skipTest(str(error))
        self.addCleanup(server.remove)
        self.addCleanup(kill_all)
        server.migrate()
        server.query(
            "INSERT INTO django_sqlqueue_job (kind) SELECT 'testapp.noop'"
            " FROM generate_series(1, 200)"
        )
        process = spawn_python("-m", "tests.worker.forked", "fork", env=server.environ())
        self.assertEqual(process.wait(60), 0, process.output)
        self.assertIn("the parent counts 200", process.output)
        self.assertNotIn("failed", process.output)


class ForkTests(FaultTestCase):
    """A parent that has a connection open when it starts workers."""

    def test_children_have_sessions_of_their_own_however_they_are_started(self):
        methods = multiprocessing.get_all_start_methods()
        self.assertIn("fork", methods)
        for method in methods:
            Job.objects.all().delete()
            Job.objects.enqueue_many(
                [NewJob("testapp.record", {"name": method, "n": n}) for n in range(200)]
            )
            process = spawn_python("-m", "tests.worker.forked", method)
            self.assertEqual(process.wait(60), 0, process.output)
            self.assertIn("the parent counts 200", process.output)
            self.assertEqual(Effect.objects.filter(name=method).count(), 200)
