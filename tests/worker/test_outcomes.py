"""An outcome is stored: again after a passing fault, in short where its details are refused."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.models import Attempt, Job
from tests.processes import wait_until
from tests.testapp.models import Effect
from tests.worker.faulty import FaultTestCase

pytestmark = pytest.mark.processes

# How the statements begin that end a claim, or write the attempt's history.
SETTLING = ["SET finished_at"]
HISTORY = ['INSERT INTO "django_sqlqueue_attempt"', "INSERT INTO `django_sqlqueue_attempt`"]


class PassingFaultTests(FaultTestCase):
    """The database refuses to store an outcome for a while."""

    def run_with(self, error: str, times: int, kind: str = "faults.record") -> tuple[Job, str]:
        job = self.enqueue(kind, {"name": "done once"})
        fault = {"error": error, "where": SETTLING, "times": times}
        worker = self.spawn("--drain", FAULT=fault)
        self.assertEqual(worker.wait(60), 0, worker.output)
        job.refresh_from_db()
        return job, worker.output

    def test_an_outcome_is_stored_after_deadlocks_and_its_job_runs_once(self):
        # More than one call of the engine tries by itself.
        job, output = self.run_with("deadlock", times=11)
        self.assertEqual((job.status, job.attempts, job.result), ("done", 1, {"recorded": True}))
        self.assertEqual(Effect.objects.filter(name="done once").count(), 1)
        self.assertIn(f"Storing outcomes of jobs {job.pk} failed", output)

    def test_an_outcome_is_stored_after_its_session_was_ended(self):
        self.needs_server()
        job, output = self.run_with("drop", times=2)
        self.assertEqual((job.status, job.attempts, job.result), ("done", 1, {"recorded": True}))
        self.assertEqual(Effect.objects.filter(name="done once").count(), 1)
        self.assertIn(f"Storing outcomes of jobs {job.pk} failed", output)

    def test_a_group_survives_that_all_sessions_are_ended_again_and_again(self):
        self.needs_server()
        Job.objects.enqueue_many(
            [NewJob("faults.record", {"name": f"job {n}"}, max_attempts=50) for n in range(120)]
        )
        worker = self.start("--lease", "5", "--poll", "0.2")
        ended = 0
        for done in (1, 60):
            wait_until(lambda done=done: self.count("done") >= done, 30)
            ended += self.end_sessions()
        self.wait_for_all_done(120)
        self.assertGreater(ended, 2)
        self.end(worker)

    def wait_for_all_done(self, number: int) -> None:
        self.wait_for("done", *Job.objects.all(), timeout=60)
        self.assertEqual(self.count("done"), number)


class RefusedTests(FaultTestCase):
    """The database refuses the details of an outcome."""

    def test_a_refused_failure_is_stored_in_short_and_the_worker_goes_on(self):
        fault = {"error": "refuse", "where": HISTORY, "times": 1}
        failing = self.enqueue("faults.raise_a_reason", max_attempts=1)
        worker = self.start("--threads", "1", FAULT=fault)
        self.wait_for("failed", failing)
        self.assertEqual(failing.last_error, "outcome_not_stored (DataError)")
        self.assertEqual(failing.attempts, 1)
        attempt = Attempt.objects.get(job=failing)
        self.assertEqual((attempt.reason, attempt.traceback), (failing.last_error, ""))
        following = self.enqueue("faults.record", {"name": "next"})
        self.wait_for("done", following)
        self.assertIn(f"The outcome of job {failing.pk}", worker.output)
        self.end(worker)

    def test_a_job_with_attempts_left_waits_its_turn_after_a_refusal(self):
        fault = {"error": "refuse", "where": HISTORY, "times": 1}
        job = self.enqueue("faults.raise_a_reason", max_attempts=2)
        worker = self.spawn("--drain", FAULT=fault)
        self.assertEqual(worker.wait(60), 0, worker.output)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts), ("ready", 1))
        self.assertEqual(job.last_error, "outcome_not_stored (DataError)")
        self.assertGreater((job.run_at - job.updated_at).total_seconds(), 20)

    def test_a_refused_result_is_dropped_and_the_job_is_done(self):
        job = self.enqueue("faults.record", {"name": "once"})
        fault = {"error": "refuse", "where": SETTLING, "times": 1}
        worker = self.spawn("--drain", FAULT=fault)
        self.assertEqual(worker.wait(60), 0, worker.output)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts, job.result), ("done", 1, None))
        self.assertIn(f"The outcome of job {job.pk}", worker.output)

    def test_an_outcome_that_is_refused_without_a_clear_cause_holds_up_no_other(self):
        fault = {"error": "refuse oddly", "where": HISTORY, "times": 5}
        failing = self.enqueue("faults.raise_a_reason", max_attempts=1)
        worker = self.start(FAULT=fault)
        wait_until(lambda: "Storing outcomes" in worker.output)
        others = [self.enqueue("faults.record", {"name": "other"}) for _ in range(3)]
        self.wait_for("failed", failing)
        self.wait_for("done", *others)
        self.assertEqual(failing.last_error, "outcome_not_stored (OperationalError)")
        self.end(worker)

    def test_an_outcome_that_is_refused_in_every_form_is_given_up_until_its_lease_ends(self):
        fault = {"error": "refuse", "where": SETTLING, "times": 2}
        job = self.enqueue("faults.record", {"name": "again"})
        worker = self.start("--lease", "1", FAULT=fault)
        self.wait_for("done", job)
        self.assertEqual(job.attempts, 2, "run again after its lease")
        self.assertIn("cannot be stored (django.db.utils.DataError)", worker.output)
        self.end(worker)

    def test_the_engine_s_statement_is_the_one_that_meets_the_fault(self):
        """The faults above are looked for by the beginning of the statement."""
        job = self.enqueue("faults.noop")
        Job.objects.claim("me")
        job.refresh_from_db()
        with CaptureQueriesContext(connection) as captured:
            self.assertTrue(job.complete())
        self.assertTrue(any(SETTLING[0] in each["sql"] for each in captured))
