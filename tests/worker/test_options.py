"""What can be asked of `manage.py runjobs`, and how it refuses what it cannot do."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import SimpleTestCase, override_settings

from django_sqlqueue import Retry
from django_sqlqueue.exceptions import Defer
from django_sqlqueue.management.commands.runjobs import Command
from django_sqlqueue.models import Job
from django_sqlqueue.worker.loop import Runner
from tests.processes import wait_until
from tests.worker.base import RunnerTestCase


def refusal(*arguments: str) -> str:
    """Return what runjobs says to these arguments."""
    try:
        call_command("runjobs", *arguments)
    except CommandError as error:
        return str(error)
    raise AssertionError(f"runjobs took {arguments}")


class RefusedTests(SimpleTestCase):
    def test_each_wrong_value_is_answered_with_a_sentence_that_names_the_option(self):
        count = "must be a whole number from 1 up, not"
        for arguments, sentence in {
            ("--threads", "0"): f"--threads: {count} '0'.",
            ("--threads", "many"): f"--threads: {count} 'many'.",
            ("--coroutines", "-1"): f"--coroutines: {count} '-1'.",
            ("--processes", "1.5"): f"--processes: {count} '1.5'.",
            ("--max-jobs", "0"): f"--max-jobs: {count} '0'.",
            ("--lease", "0"): "--lease: must be more than 0 seconds.",
            ("--lease", "nan"): "--lease: must be seconds from 0 to 1e+06, not 'nan'.",
            ("--poll", "soon"): "--poll: must be seconds from 0 to 1e+06, not 'soon'.",
            ("--poll", "inf"): "--poll: must be seconds from 0 to 1e+06, not 'inf'.",
            ("--grace", "-1"): "--grace: must be seconds from 0 to 1e+06, not '-1'.",
            ("--database", "nowhere"): "--database: there is no alias 'nowhere'.",
            ("--kind", "t.none"): "--kind: no handler is registered for t.none.",
            ("--reload", "--processes", "2"): "--reload runs one process; leave out --processes.",
            ("--health-file", "/no/such/folder/x"): "--health-file: there is no folder",
        }.items():
            with self.subTest(arguments):
                self.assertIn(sentence, refusal(*arguments))

    @override_settings(SQLQUEUE={"QUEUES": ["default", "mail"]})
    def test_a_queue_that_nothing_can_be_put_into_is_refused(self):
        self.assertIn("--queue: QUEUES does not name post.", refusal("--queue", "mail", "post"))

    @override_settings(SQLQUEUE={"LEASE": "soon", "THREADS": 0})
    def test_a_wrong_setting_is_left_to_the_system_checks(self):
        given = Command().create_parser("manage.py", "runjobs").parse_args(["--drain"])
        self.assertEqual((given.drain, given.lease, given.threads), (True, None, None))


class ServingTests(RunnerTestCase):
    def setUp(self):
        super().setUp()
        self.ran = []
        self.handle("t.one", self.ran.append)
        self.handle("t.two", self.ran.append)

    def run_jobs(self, *arguments: str) -> None:
        call_command("runjobs", *arguments)

    def statuses(self) -> list[str]:
        return list(Job.objects.order_by("id").values_list("status", flat=True))

    def test_once_runs_at_most_one_job(self):
        async def coroutine(job):
            self.ran.append(job)

        self.handle("t.coroutine", coroutine)
        for kind in ("t.one", "t.coroutine", "t.two"):
            self.enqueue(kind)
        self.run_jobs("--once")
        self.assertEqual((len(self.ran), self.count("ready")), (1, 2))

    def test_once_ends_where_nothing_is_due(self):
        self.enqueue("t.one", delay=3600)
        self.run_jobs("--once")
        self.assertEqual(self.ran, [])

    def test_drain_runs_what_is_due_and_also_what_that_enqueues(self):
        self.handle("t.more", lambda job: Job.objects.enqueue("t.one") and None)
        for _ in range(20):
            self.enqueue("t.more")
        self.run_jobs("--drain")
        self.assertEqual((len(self.ran), self.count("done")), (20, 40))

    def test_drain_runs_what_a_lost_worker_held_once_its_lease_is_over(self):
        self.enqueue("t.one")
        Job.objects.claim("another machine's", lease=0.01)
        time.sleep(0.05)
        self.run_jobs("--drain")
        self.assertEqual((len(self.ran), self.statuses()), (1, ["done"]))

    def test_drain_does_not_wait_for_retries_deferred_jobs_and_other_workers(self):
        def again(job):
            raise Retry(3600)

        def later(job):
            raise Defer(3600)

        self.handle("t.again", again)
        self.handle("t.later", later)
        for kind in ("t.again", "t.later", "t.one"):
            self.enqueue(kind)
        Job.objects.claim("other", kinds=["t.one"], lease=3600)
        self.run_jobs("--drain")
        self.assertEqual(self.statuses(), ["ready", "ready", "running"])

    def test_max_jobs_ends_the_worker_after_so_many(self):
        for _ in range(5):
            self.enqueue("t.one")
        self.run_jobs("--max-jobs", "3", "--threads", "2")
        self.assertEqual((len(self.ran), self.count("ready")), (3, 2))

    def test_max_jobs_waits_for_that_many(self):
        thread = threading.Timer(0.5, lambda: None)
        thread.start()
        self.enqueue("t.one")
        runner = self.start(max_jobs=2)
        self.wait_for("done", *Job.objects.all())
        self.assertFalse(runner.join(0.2))
        self.enqueue("t.one")
        self.assertTrue(runner.join(10))
        thread.join()

    def test_a_long_last_job_is_waited_for_without_a_rush_of_queries(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.handle("t.long", lambda job: gate.wait(30) and None)
        self.enqueue("t.long", priority=1)
        self.enqueue("t.one")
        runner = self.start(max_jobs=1)
        wait_until(lambda: self.count("running") == 1)
        with mock.patch.object(runner, "_turn", side_effect=runner._turn) as turns:
            time.sleep(1)
        self.assertLess(turns.call_count, 10)
        gate.set()
        self.assertTrue(runner.join(10))

    def test_only_the_queues_named_are_served(self):
        for queue in ("default", "mail", "post", "other"):
            self.enqueue("t.one", queue=queue)
        self.run_jobs("--drain", "--queue", "mail", "post")
        self.assertEqual(self.statuses(), ["ready", "done", "done", "ready"])

    def test_only_the_kinds_named_are_served(self):
        self.enqueue("t.one")
        self.enqueue("t.two")
        self.run_jobs("--drain", "--kind", "t.two")
        self.assertEqual(self.statuses(), ["ready", "done"])

    def test_the_health_file_is_touched_after_a_good_pass_only(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "health"
            with mock.patch.object(Runner, "_pass", side_effect=RuntimeError):
                self.start(health_file=str(path))
                time.sleep(0.3)
                self.assertFalse(path.exists())
            wait_until(path.exists)

    def test_a_health_file_that_cannot_be_written_stops_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            self.start(health_file=f"{folder}/gone/health")
            self.wait_for("done", self.enqueue("t.one"))


class OtherDatabaseTests(RunnerTestCase):
    databases = {"default", "other"}

    def test_the_database_is_an_option(self):
        self.handle("t.where", lambda job: job._state.db)
        here = self.enqueue("t.where")
        there = Job.objects.db_manager("other").enqueue("t.where")
        call_command("runjobs", "--drain", "--database", "other")
        there.refresh_from_db()
        here.refresh_from_db()
        self.assertEqual((here.status, there.status, there.result), ("ready", "done", "other"))


class UnknownKindsTests(RunnerTestCase):
    def setUp(self):
        super().setUp()
        self.handle("t.known", lambda job: None)

    def test_they_are_left_alone_for_workers_that_know_them(self):
        unknown = self.enqueue("t.unknown")
        untouched = Job.objects.filter(pk=unknown.pk).values().get()
        known = [self.enqueue("t.known") for _ in range(3)]
        self.start()
        self.wait_for("done", *known)
        self.assertEqual(Job.objects.filter(pk=unknown.pk).values().get(), untouched)

    def test_a_worker_that_has_only_foreign_work_is_idle(self):
        for _ in range(20):
            self.enqueue("t.unknown")
        runner = self.start(poll=0.5)
        with mock.patch.object(runner, "_turn", side_effect=runner._turn) as turns:
            time.sleep(1)
        self.assertLess(turns.call_count, 10)

    @override_settings(SQLQUEUE={"UNKNOWN_KINDS": "fail"})
    def test_they_fail_visibly_where_that_is_set_and_hold_up_nobody(self):
        unknown = [self.enqueue("t.gone") for _ in range(30)]
        known = self.enqueue("t.known", priority=-1)
        call_command("runjobs", "--drain")
        self.wait_for("failed", *unknown)
        self.wait_for("done", known)
        self.assertEqual({(job.last_error, job.attempts) for job in unknown}, {("no_handler", 1)})

    @override_settings(SQLQUEUE={"UNKNOWN_KINDS": "fail"})
    def test_a_kind_that_turns_up_later_fails_too(self):
        self.start()
        self.wait_for("failed", self.enqueue("t.gone"))


class MissingTablesTests(SimpleTestCase):
    def test_a_database_that_was_never_migrated_is_refused_instead_of_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.run(
                [sys.executable, "-m", "django", "runjobs", "--drain"],
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "tests.settings",
                    "DATABASE_URL": f"sqlite:///{folder}/empty.sqlite3",
                    "TEST_DATABASE_NAMES": "{}",
                },
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        self.assertEqual(process.returncode, 1)
        self.assertIn("has no table of jobs; run migrate first", process.stderr)
