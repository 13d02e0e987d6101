"""An idle worker starts new work at once where the engine can tell, else within one poll."""

import time
from pathlib import Path

import pytest
from django.db import connection

from django_sqlqueue.engines import engine_for
from django_sqlqueue.models import Job, PausedQueue
from tests.processes import Process, wait_until
from tests.worker.faulty import FaultTestCase, query

pytestmark = pytest.mark.processes

LISTENING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND query = 'LISTEN django_sqlqueue'"
)


class WakeUpTests(FaultTestCase):
    def seconds_to_start(self, job: Job) -> float:
        self.wait_for("done", job)
        assert job.started_at is not None
        return (job.started_at - max(job.run_at, job.created_at)).total_seconds()

    def settle_down(self) -> None:
        """Let a worker that has started find that there is nothing to do."""
        job = self.enqueue("faults.noop")
        self.wait_for("done", job)
        time.sleep(0.3)

    def test_new_work_starts_at_once_where_the_engine_can_tell(self):
        if connection.vendor == "mysql":
            self.skipTest("MariaDB cannot tell: new work is seen within one poll")
        worker = self.start("--poll", "60")
        self.settle_down()
        delays = []
        for _ in range(10):
            delays.append(self.seconds_to_start(self.enqueue("faults.noop")))
            time.sleep(0.05)
        # The middle one: the machine of a test may be busy with others.
        self.assertLess(sorted(delays)[5], 0.5)
        self.end(worker)

    def test_what_people_make_due_starts_at_once_too(self):
        if connection.vendor == "mysql":
            self.skipTest("MariaDB cannot tell: new work is seen within one poll")
        worker = self.start("--poll", "60")
        self.settle_down()
        job = Job.objects.latest("pk")
        for requeue in (job.requeue, Job.objects.filter(pk=job.pk).requeue):
            self.assertTrue(requeue())
            self.wait_for("done", job)
        PausedQueue.objects.pause("default")
        held = self.enqueue("faults.noop")
        time.sleep(1)
        held.refresh_from_db()
        self.assertEqual(held.status, "ready")
        PausedQueue.objects.resume("default")
        self.wait_for("done", held)
        self.end(worker)

    def test_without_a_wake_up_new_work_is_seen_within_one_poll(self):
        worker = self.start("--poll", "0.5", SQLQUEUE={"NOTIFY": False})
        self.settle_down()
        with connection.cursor() as cursor:
            # By SQL alone, as NOTIFY would be sent by enqueue here.
            cursor.execute("INSERT INTO django_sqlqueue_job (kind) VALUES ('faults.noop')")
        job = Job.objects.latest("pk")
        self.assertLess(self.seconds_to_start(job), 2)
        if connection.vendor == "postgresql":
            self.assertEqual(query(LISTENING), [(0,)])
        self.end(worker)

    def test_known_due_times_are_met_exactly(self):
        worker = self.start("--poll", "60")
        job = self.enqueue("faults.noop", delay=3)
        later = self.enqueue("faults.noop", delay=3.5)
        if connection.vendor == "mysql":
            # It may sleep since before they were there.
            self.end(worker)
            worker = self.start("--poll", "60")
        # Where a busy machine lets it start late it cannot be sooner than that.
        serves = engine_for(connection).now()
        for each in (job, later):
            late = (serves - each.run_at).total_seconds()
            self.assertLess(self.seconds_to_start(each) - max(late, 0), 1)
        self.end(worker)

    def test_a_listener_whose_session_was_ended_listens_again(self):
        if connection.vendor != "postgresql":
            self.skipTest("only PostgreSQL has listeners")
        worker = self.start("--poll", "60")
        self.settle_down()
        for _ in range(2):
            wait_until(lambda: query(LISTENING) == [(1,)])
            self.end_sessions()
            wait_until(lambda: query(LISTENING) == [(1,)])
            self.assertLess(self.seconds_to_start(self.enqueue("faults.noop")), 5)
        self.assertIn("Listening for new jobs works again", worker.output)
        self.assertNotIn("An error of the worker itself", worker.output)
        self.end(worker)

    def test_an_idle_worker_needs_next_to_no_processor_and_writes_nothing(self):
        worker = self.start("--poll", "1")
        self.settle_down()
        before, changed = cpu_seconds(worker), self._changes()
        time.sleep(4)
        self.assertLess(cpu_seconds(worker) - before, 0.3)
        self.assertEqual(self._changes(), changed)
        self.end(worker)

    def test_what_is_due_but_held_by_somebody_else_is_not_rushed_at(self):
        """An operator's transaction holds the row of a due job for a while."""
        self.needs_server()
        from django.db import transaction

        job = self.enqueue("faults.noop", delay=3600)
        worker = self.start("--poll", "1")
        with transaction.atomic():
            Job.objects.filter(pk=job.pk).update(run_at=job.created_at)
            before = cpu_seconds(worker)
            time.sleep(4)
            spent = cpu_seconds(worker) - before
        self.assertLess(spent, 0.8)
        self.wait_for("done", job)
        self.end(worker)

    def _changes(self) -> list:
        """Return what a write of the worker would change: on SQLite any, else that of a job."""
        if connection.vendor == "sqlite":
            return query("PRAGMA data_version")
        return list(Job.objects.order_by("pk").values_list("pk", "updated_at", "claims"))


def cpu_seconds(process: Process) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
