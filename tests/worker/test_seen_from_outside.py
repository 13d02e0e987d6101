"""What a worker shows: its first line, a line a job, its row, and that it is stuck."""

import logging
import os
import re
import threading
from unittest import mock

from django.core.management import call_command
from django.db import connection

from django_sqlqueue import Abandon, Defer
from django_sqlqueue.models import Job, Worker
from django_sqlqueue.worker import presence
from tests.processes import wait_until
from tests.worker.base import RunnerTestCase

SECRET = "sesame-4711"


class LogTests(RunnerTestCase):
    def drained(self, *arguments: str) -> list[str]:
        """Return the lines of a worker that runs until nothing is due."""
        with self.assertLogs("django_sqlqueue", logging.DEBUG) as logged:
            call_command("runjobs", "--drain", *arguments)
        return [record.getMessage() for record in logged.records]

    def test_the_first_line_says_what_is_served_and_how(self):
        self.handle("t.one", lambda job: None)
        first = self.drained("--threads", "3", "--lease", "45", "--queue", "mail", "post")[0]
        self.assertRegex(
            first,
            rf"^Worker {os.getpid()} serves queue mail, post for \d+ kinds with 3 threads"
            rf" on {re.escape(connection.display_name)}, lease 45 s\.$",
        )
        self.assertIn("serves all queues for", self.drained()[0])

    def test_each_job_is_one_line_with_outcome_and_duration(self):
        def fails(job):
            raise {"value": ValueError(SECRET), "abandon": Abandon("no use"), "defer": Defer(60)}[
                job.payload["what"]
            ]

        self.handle("t.fine", lambda job: SECRET)
        self.handle("t.fails", fails)
        fine = self.enqueue("t.fine", {"token": SECRET}, queue="mail")
        failing = [
            self.enqueue("t.fails", {"what": what, "token": SECRET}, max_attempts=3)
            for what in ("value", "abandon", "defer")
        ]
        lines = self.drained()
        about = [
            (fine, "t.fine, queue mail", "attempt 1 of 5: complete in"),
            (failing[0], "t.fails, queue default", "attempt 1 of 3: retry (ValueError) in"),
            (failing[1], "t.fails, queue default", "attempt 1 of 3: abandon (no use) in"),
            (failing[2], "t.fails, queue default", "attempt 1 of 3: defer in"),
        ]
        for job, kind, outcome in about:
            of_job = [line for line in lines if line.startswith(f"Job {job.pk} ")]
            self.assertEqual(len(of_job), 1, of_job)
            self.assertRegex(
                of_job[0], rf"^Job \d+ \({kind}\) {re.escape(outcome)} \d+\.\d\d\d s\.$"
            )
        self.assertNotIn(SECRET, "\n".join(lines))

    def test_an_atomic_job_is_a_line_too_and_one_whose_claim_was_lost_is_not_called_complete(self):
        def loses_its_claim(job):
            Job.objects.filter(pk=job.pk).update(claims=7)

        self.handle("t.atomic", lambda job: None, atomic=True)
        self.handle("t.loses", loses_its_claim)
        self.handle("t.atomic_loses", loses_its_claim, atomic=True)
        kept = self.enqueue("t.atomic")
        lost = [self.enqueue("t.loses"), self.enqueue("t.atomic_loses")]
        lines = self.drained()
        self.assertTrue(
            [line for line in lines if f"Job {kept.pk} " in line and "complete" in line]
        )
        for job in lost:
            of_lost = [line for line in lines if f"Job {job.pk} " in line]
            self.assertEqual(len(of_lost), 1, of_lost)
            self.assertRegex(of_lost[0], "claim was lost|lost its claim")

    def test_slots_that_are_busy_for_long_are_mentioned_once(self):
        gate = threading.Event()
        self.handle("t.hangs", lambda job: gate.wait(30) and None)
        job = self.enqueue("t.hangs")
        with (
            mock.patch.object(presence, "BUSY_AFTER", 0.3),
            self.assertLogs("django_sqlqueue", "WARNING") as logged,
        ):
            runner = self.start(threads=1)
            wait_until(lambda: logged.records)
            gate.set()
            self.wait_for("done", job)
            self.stop(runner)
        self.assertEqual(len(logged.records), 1)
        self.assertRegex(
            logged.records[0].getMessage(),
            rf"All 1 slots are busy for \d+ s; they run job {job.pk}\.",
        )


class RowTests(RunnerTestCase):
    def test_a_worker_shows_itself_while_it_runs(self):
        self.handle("t.one", lambda job: None)
        for _ in range(3):
            self.enqueue("t.one")
        with mock.patch("django_sqlqueue.worker.housekeeping.CHECK_IN", 0.1):
            runner = self.start(threads=3, queues=("default", "mail"))
            wait_until(lambda: Worker.objects.filter(jobs_done=3).exists())
        row = Worker.objects.get()
        self.assertEqual(
            (row.runner, row.pid, row.queues, row.threads),
            (runner.name, os.getpid(), ["default", "mail"], 3),
        )
        self.assertIn("t.one", row.kinds)
        self.assertLessEqual(row.started_at, row.last_seen_at)
        self.assertNotEqual(row.host, "")
        self.stop(runner)
        self.assertFalse(Worker.objects.exists())

    def test_nothing_is_lost_where_the_rows_are_deleted(self):
        gate = threading.Event()
        self.handle("t.wait", lambda job: gate.wait(30) and None)
        job = self.enqueue("t.wait")
        self.start()
        wait_until(lambda: self.count("running") == 1)
        Worker.objects.all().delete()
        gate.set()
        self.wait_for("done", job)
