"""What a provably dead runner left running is taken back when a worker starts, not later."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from django.test import SimpleTestCase

from django_sqlqueue.models import Job
from django_sqlqueue.worker import identity
from django_sqlqueue.worker.identity import Identity
from tests.worker.base import ELSEWHERE, WorkerTestCase

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="nothing is provable without /proc"
)


@needs_proc
@pytest.mark.processes
class RestartTests(WorkerTestCase):
    def test_a_killed_worker_s_job_starts_at_once_and_a_living_one_s_is_left_alone(self):
        lost, kept = self.enqueue("worker.gate"), self.enqueue("worker.gate", queue="other")
        dead = self.start("--lease", "600", "--queue", "default")
        self.start("--lease", "600", "--queue", "other")
        self.wait_for_start(lost)
        self.wait_for_start(kept)
        foreign = self.enqueue("worker.noop", run_at=None, delay=3600)
        Job.objects.filter(pk=foreign.pk).update(
            status="running", lease_owner=ELSEWHERE, lease_until=foreign.run_at
        )
        dead.kill()
        self.start("--lease", "600", "--queue", "default", "other")
        self.wait_for_start(lost, times=2)
        for job in (lost, kept, foreign):
            job.refresh_from_db()
        self.assertEqual((lost.attempts, lost.claims), (2, 2))
        self.assertEqual((kept.status, kept.claims), ("running", 1))
        self.assertEqual((foreign.status, foreign.lease_owner), ("running", ELSEWHERE))


@needs_proc
class IdentityTests(SimpleTestCase):
    def setUp(self):
        self.mine = Identity.of_this_process()
        self.addCleanup(self.mine.retire)

    def ended(self) -> Identity:
        """Return the identity of a process of this machine that has ended."""
        code = (
            "from django_sqlqueue.worker.identity import Identity as I; print(I.of_this_process())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        found = Identity.parse(done.stdout.strip())
        assert found is not None
        return found

    def test_the_name_of_a_runner_fits_its_column_and_reads_back(self):
        self.assertLessEqual(len(str(self.mine)), 200)
        self.assertEqual(Identity.parse(str(self.mine)), self.mine)

    def test_each_start_has_a_name_of_its_own(self):
        other = Identity.of_this_process()
        self.addCleanup(other.retire)
        self.assertNotEqual(str(other), str(self.mine))

    def test_a_process_that_has_ended_is_dead_and_this_one_is_not(self):
        self.assertTrue(self.ended().is_provably_dead())
        self.assertFalse(self.mine.is_provably_dead())

    def test_a_process_that_got_the_pid_of_a_dead_one_is_not_taken_for_it(self):
        self.assertTrue(replace(self.mine, started="1").is_provably_dead())

    def test_this_process_is_dead_under_a_name_from_before_it_replaced_itself(self):
        self.assertTrue(replace(self.mine, token="before").is_provably_dead())

    def test_a_runner_that_has_ended_in_a_living_process_is_dead(self):
        over = Identity.of_this_process()
        over.retire()
        self.assertTrue(over.is_provably_dead())

    def test_nothing_is_proved_about_other_machines_boots_and_namespaces(self):
        dead = self.ended()
        for elsewhere in ({"host": "other"}, {"boot": "other"}, {"namespace": "1"}):
            with self.subTest(**elsewhere):
                self.assertFalse(replace(dead, **elsewhere).is_provably_dead())

    def test_a_process_whose_files_are_hidden_counts_as_alive(self):
        hidden = replace(self.mine, pid=os.getppid(), token="other")
        with mock.patch.object(identity, "_read", side_effect=all_but(f"/proc/{hidden.pid}/")):
            self.assertFalse(hidden.is_provably_dead())

    def test_a_machine_that_does_not_say_who_it_is_proves_nothing(self):
        dead = self.ended()
        with mock.patch.object(identity, "_read", return_value=""):
            self.assertFalse(dead.is_provably_dead())

    def test_an_owner_that_is_no_runner_of_ours_is_no_identity(self):
        for owner in ("", "somebody", "a|b|c|d|e|f", "a|b|c|1|e"):
            with self.subTest(owner):
                self.assertIsNone(Identity.parse(owner))


def all_but(hidden):
    """Read files as ever, but for those below a folder."""
    read = identity._read
    return lambda path: "" if path.startswith(hidden) else read(path)
