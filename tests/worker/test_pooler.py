"""Behind a pooler that lends a server session for one transaction at a time."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job
from django_sqlqueue.worker.links import that_end_in_silence
from tests.processes import Process, kill_all, wait_until
from tests.testapp.models import Effect
from tests.worker.faulty import FaultTestCase, query
from tests.worker.own_servers import free_port

BINARY = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(BINARY is None, reason="pgbouncer is not installed"),
]


class PgBouncer:
    """A PgBouncer of one test, in transaction mode, with few server sessions."""

    def __init__(self, target: dict[str, Any], sessions: int) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="sqlqueue-pgbouncer-"))
        self.folder.chmod(0o755)
        config = self.folder / "pgbouncer.ini"
        host = target["HOST"] or target["OPTIONS"].get("host", "")
        config.write_text(
            "[databases]\n"
            f"* = host={host or '/var/run/postgresql'} port={target['PORT'] or 5432}"
            f" user={target['USER']}\n"
            "[pgbouncer]\n"
            "pool_mode = transaction\nauth_type = any\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\ndefault_pool_size = {sessions}\nunix_socket_dir =\n"
        )
        # It refuses to run as root.
        account = ["-u", "nobody"] if os.geteuid() == 0 else []
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(BINARY), *account, str(config)], stdout=log, stderr=log
            )

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=connection.settings_dict["USER"],
            dbname=connection.settings_dict["NAME"],
            autocommit=True,
        )

    def answers(self) -> bool:
        import psycopg

        assert self.process.poll() is None, self.log.read_text()
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def remove(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


class PoolerTests(FaultTestCase):
    sessions_of_pool = 3

    def setUp(self):
        super().setUp()
        if connection.vendor != "postgresql":
            self.skipTest("PgBouncer is for PostgreSQL")
        self.pooler = PgBouncer(connection.settings_dict, self.sessions_of_pool)
        self.addCleanup(self.pooler.remove)
        self.addCleanup(kill_all)
        wait_until(self.pooler.answers)

    def start_behind(self, *arguments: str, **environ: Any) -> Process:
        change = {"HOST": "127.0.0.1", "PORT": self.pooler.port, "CONN_MAX_AGE": None}
        return self.start(*arguments, DATABASE_CHANGES={"default": change}, **environ)

    def test_jobs_are_found_by_polling_and_nothing_fails(self):
        worker = self.start_behind("--poll", "0.5")
        for number in range(3):
            job = self.enqueue("faults.record", {"name": str(number)})
            self.wait_for("done", job)
            self.assertLess((job.started_at - job.created_at).total_seconds(), 3)
            time.sleep(0.3)
        delayed = self.enqueue("faults.noop", delay=1)
        atomic = self.enqueue("faults.hold_a_transaction", 0.1)
        self.wait_for("done", delayed, atomic)
        self.assertEqual(self.warnings_in(worker), [])
        self.end(worker)

    def test_two_workers_share_few_sessions_and_no_job_runs_twice(self):
        Job.objects.enqueue_many([NewJob("faults.record", {"name": "one"}) for _ in range(300)])
        workers = [self.start_behind("--poll", "0.5", "--threads", "4") for _ in range(2)]
        self.wait_for("done", *Job.objects.all())
        self.assertEqual(Effect.objects.values("n").distinct().count(), 300)
        self.assertEqual(Effect.objects.count(), 300)
        self.assertLessEqual(len(self.sessions()), self.sessions_of_pool)
        for worker in workers:
            self.assertEqual(self.warnings_in(worker), [])
            self.end(worker)

    def test_no_setting_of_a_claim_stays_in_a_session(self):
        worker = self.start_behind("--poll", "0.2")
        self.wait_for("done", self.enqueue("faults.noop"))
        for name in ("enable_bitmapscan", "enable_seqscan", "jit"):
            expected = query(f"SHOW {name}")
            for _ in range(2 * self.sessions_of_pool):
                with closing(self.pooler.connect()) as borrowed:
                    self.assertEqual(borrowed.execute(f"SHOW {name}").fetchall(), expected)
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        self.assertEqual(query(locks), [(0,)])
        self.end(worker)

    def test_a_session_that_others_borrow_too_is_not_asked_to_watch_its_link(self):
        expected = query("SHOW tcp_user_timeout")
        behind = connections["default"].copy()
        behind.settings_dict.update(HOST="127.0.0.1", PORT=self.pooler.port)
        with that_end_in_silence(), closing(behind):
            behind.ensure_connection()
        with closing(self.pooler.connect()) as borrowed:
            self.assertEqual(borrowed.execute("SHOW tcp_user_timeout").fetchall(), expected)

    def test_the_pooler_is_restarted_and_the_worker_comes_back(self):
        worker = self.start_behind("--poll", "0.5")
        self.wait_for("done", self.enqueue("faults.noop"))
        port = self.pooler.port
        self.pooler.process.terminate()
        self.pooler.process.wait(10)
        time.sleep(1)
        with self.pooler.log.open("ab") as log:
            self.pooler.process = subprocess.Popen(self.pooler.process.args, stdout=log, stderr=log)
        self.assertEqual(self.pooler.port, port)
        self.wait_for("done", self.enqueue("faults.noop"))
        self.end(worker)

    def test_without_notify_no_session_is_ever_asked_to_listen(self):
        worker = self.start_behind("--poll", "0.5", SQLQUEUE={"NOTIFY": False})
        job = self.enqueue("faults.noop")
        self.wait_for("done", job)
        for _ in range(2 * self.sessions_of_pool):
            with closing(self.pooler.connect()) as borrowed:
                found = borrowed.execute("SELECT pg_listening_channels()").fetchall()
            self.assertEqual(found, [])
        self.end(worker)
