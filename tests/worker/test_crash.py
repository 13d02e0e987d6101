"""Workers that are killed, stopped or brought down by their handlers lose no job."""

import sys
import threading
from datetime import timedelta
from unittest import mock

import pytest

from django_sqlqueue.models import Job
from django_sqlqueue.worker.pool import Slot
from tests.processes import wait_until
from tests.testapp.models import Effect
from tests.worker.base import ELSEWHERE, RunnerTestCase, WorkerTestCase

pytestmark = pytest.mark.processes


class KilledTests(WorkerTestCase):
    def test_a_job_of_a_worker_killed_on_another_machine_runs_again_after_its_lease(self):
        job = self.enqueue("worker.gate")
        first = self.start("--lease", "3")
        self.wait_for_start(job)
        first.kill()
        Job.objects.update(lease_owner=ELSEWHERE)
        job.refresh_from_db()
        lease_until = job.lease_until
        self.start("--lease", "3")
        self.wait_for_start(job, times=2)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts, job.claims), ("running", 2, 2))
        self.assertGreaterEqual(job.started_at, lease_until)
        self.assertLess(job.started_at - lease_until, timedelta(seconds=3))
        self.open(job)
        self.wait_for("done", job)
        self.assertEqual(job.attempts, 2)
        self.assertEqual(list(job.history.values_list("outcome", flat=True)), ["lost"])

    def test_a_worker_lost_on_the_last_attempt_fails_the_job_and_frees_its_key(self):
        job = self.enqueue("worker.gate", dedup_key="one", max_attempts=1)
        first = self.start("--lease", "1")
        self.wait_for_start(job)
        first.kill()
        Job.objects.update(lease_owner=ELSEWHERE)
        self.start()
        self.wait_for("failed", job)
        self.assertEqual((job.last_error, job.attempts), ("lease_expired", 1))
        self.assertIsNotNone(job.finished_at)
        self.assertIsNotNone(Job.objects.enqueue("worker.gate", dedup_key="one"))


class StoppedTests(WorkerTestCase):
    """A worker that stood still wakes up after its lease: SIGSTOP, then SIGCONT."""

    def lose(self):
        """Return a worker that lost its job while it stood still, the job, and its new worker."""
        job = self.enqueue("worker.gate")
        late = self.start("--lease", "1")
        self.wait_for_start(job)
        late.pause()
        new = self.start("--lease", "30")
        self.wait_for_start(job, times=2)
        return late, job, new

    def test_its_late_finish_changes_nothing_where_another_has_finished(self):
        late, job, new = self.lose()
        self.open(job, attempt=2)
        self.wait_for("done", job)
        settled = Job.objects.values().get()
        self.open(job, attempt=1)
        late.resume()
        wait_until(lambda: f"Job {job.pk} " in late.output)
        self.end(late)
        self.assertEqual(Job.objects.values().get(), settled)
        self.assertEqual(settled["result"], {"pid": new.pid})

    def test_its_late_finish_changes_nothing_while_another_still_runs(self):
        late, job, new = self.lose()
        self.open(job, attempt=1)
        late.resume()
        wait_until(lambda: f"Job {job.pk} " in late.output)
        self.end(late)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts), ("running", 2))
        self.open(job, attempt=2)
        self.wait_for("done", job)
        self.assertEqual(job.result, {"pid": new.pid})


class DeadlyHandlerTests(WorkerTestCase):
    def test_a_job_that_always_kills_its_worker_uses_up_its_attempts(self):
        deadly = self.enqueue("worker.kill", max_attempts=3)
        others = [self.enqueue("worker.noop") for _ in range(20)]
        parent = self.spawn("--processes", "2", "--drain")
        self.assertEqual(parent.wait(60), 0, parent.output)
        self.wait_for("failed", deadly)
        self.assertEqual((deadly.last_error, deadly.attempts), ("lease_expired", 3))
        self.assertEqual(Effect.objects.filter(name="started").count(), 3)
        self.wait_for("done", *others)

    def test_os_exit_0_is_no_success_and_the_dead_process_s_other_job_runs_again(self):
        self.check_that_only_the_culprit_fails("worker.exit", "exit code 0")

    def test_a_crash_of_the_interpreter_fails_only_the_job_that_caused_it(self):
        self.check_that_only_the_culprit_fails("worker.segfault", "exit code -11")

    def check_that_only_the_culprit_fails(self, kind, says):
        sibling = self.enqueue("worker.gate")
        parent = self.start("--processes", "2", "--threads", "2", "--queue", "default", "q")
        self.wait_for_start(sibling)
        # Whichever process takes them, one job of each dies with the sibling's process.
        culprits = [self.enqueue(kind, max_attempts=1, queue="q") for _ in range(2)]
        self.wait_for("failed", *culprits)
        self.open(sibling)
        self.wait_for("done", sibling)
        self.assertEqual({job.last_error for job in culprits}, {"lease_expired"})
        self.assertIn(says, parent.output)
        self.end(parent)


class RaisingHandlerTests(RunnerTestCase):
    def test_sys_exit_fails_its_job_and_the_slot_serves_the_next(self):
        self.handle("t.exit", lambda job: sys.exit(job.payload))
        self.handle("t.fine", lambda job: None)
        gone = [self.enqueue("t.exit", code) for code in (0, 1)]
        fine = self.enqueue("t.fine")
        self.start(threads=1)
        self.wait_for("failed", *gone)
        self.wait_for("done", fine)
        self.assertEqual({job.last_error for job in gone}, {"SystemExit"})
        self.assertEqual({job.attempts for job in gone}, {1})

    def test_after_fifty_errors_of_the_worker_s_own_code_all_slots_still_serve(self):
        together = threading.Barrier(4, timeout=20)
        self.handle("t.noop", lambda job: None)
        self.handle("t.together", lambda job: together.wait() and None)
        broken = [self.enqueue("t.noop", max_attempts=1) for _ in range(50)]
        with mock.patch.object(Slot, "_attempt", side_effect=ImportError("of the worker")):
            self.start(threads=4)
            self.wait_for("failed", *broken)
        self.assertEqual({job.last_error for job in broken}, {"ImportError"})
        self.wait_for("done", *[self.enqueue("t.together") for _ in range(4)])

    def test_a_recursion_without_end_is_a_failure_like_any_other(self):
        def recurse(job):
            return recurse(job)

        self.handle("t.recurse", recurse, max_attempts=1)
        self.handle("t.fine", lambda job: None)
        endless, fine = self.enqueue("t.recurse"), self.enqueue("t.fine")
        self.start(threads=1)
        self.wait_for("failed", endless)
        self.wait_for("done", fine)
        self.assertEqual(endless.last_error, "RecursionError")


class LostPartTests(WorkerTestCase):
    """A thread of the worker that dies takes the process with it: a fresh one takes over."""

    def check(self, name: str) -> None:
        worker = self.start("--lease", "2")
        self.enqueue("worker.ends_thread", name, max_attempts=1)
        wait_until(lambda: f"has lost {name}" in worker.output, 30)
        self.wait_for("done", self.enqueue("worker.noop"))
        wait_until(lambda: not self.count("running"), 15)
        self.assertEqual(worker.output.count(" serves "), 2, worker.output)
        worker.terminate()
        self.assertEqual(worker.wait(), 0, worker.output)

    def test_the_one_that_stores_outcomes(self):
        self.check("sqlqueue-settler")

    def test_the_one_that_renews_leases(self):
        self.check("sqlqueue-renewal")

    def test_the_one_that_keeps_house(self):
        self.check("sqlqueue-housekeeping")

    def test_under_a_supervisor(self):
        worker = self.spawn("--processes", "2", "--lease", "2")
        wait_until(lambda: worker.output.count(" serves ") == 2, 30)
        bad = self.enqueue("worker.ends_thread", "sqlqueue-settler", max_attempts=2)
        self.wait_for("failed", bad)
        self.wait_for("done", self.enqueue("worker.noop"))
        self.assertEqual((bad.attempts, bad.last_error), (2, "lease_expired"))
        self.assertEqual(worker.output.count("has lost"), 2)
        worker.terminate()
        self.assertEqual(worker.wait(), 0, worker.output)
