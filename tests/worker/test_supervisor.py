"""The parent of several workers: it replaces dead ones, passes signals on, and is never alone."""

import os
import re
import signal
import tempfile
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from django.db import connection, connections
from django.test import SimpleTestCase

from django_sqlqueue.worker.stopping import LAST_WORDS
from tests.processes import Process, kill_all, spawn_python, wait_until
from tests.worker.base import WorkerTestCase
from tests.worker.test_stopping import LOCK_TABLE

pytestmark = pytest.mark.processes

FAMILY = """
import os, sys, time
from pathlib import Path
from django_sqlqueue.worker import supervisor

supervisor.STARTING = 3
parent = supervisor.Parent()
if not parent.exists:
    sys.exit(supervisor.Supervisor(1, grace=1).run())
CHILD
parent.say(supervisor.READY)
print("ready")
parent.watch(lambda: os._exit(0))
time.sleep(600)
"""
"""A supervisor with a child that needs no database and starts at once."""


def children(parent: Process) -> dict[int, str]:
    """Return the states of a process's children, by their pids."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent.pid:
            found[int(stat.parent.name)] = fields[0]
    return found


class SupervisorTests(WorkerTestCase):
    def start_family(self, *arguments: str) -> Process:
        """Start two worker processes and wait until both serve."""
        parent = self.spawn("--processes", "2", *arguments)
        self.wait_for_lines(parent, " serves ", 2)
        # Should a test fail, no child outlives it.
        self.addCleanup(end_all, children(parent))
        return parent

    def wait_for_lines(self, process: Process, words: str, times: int) -> None:
        try:
            wait_until(lambda: process.output.count(words) >= times, 30)
        except AssertionError:
            self.fail(process.output)

    def test_a_killed_child_is_replaced_and_leaves_no_zombie(self):
        parent = self.start_family()
        first, second = children(parent)
        os.kill(first, signal.SIGKILL)
        self.wait_for_lines(parent, " serves ", 3)
        self.assertIn("exit code -9", parent.output)
        family = children(parent)
        self.assertEqual((len(family), first in family, second in family), (2, False, True))
        self.assertNotIn("Z", family.values())
        self.end(parent)
        self.assertFalse(alive(*family))

    def test_a_child_that_was_asked_to_stop_by_somebody_else_is_replaced(self):
        parent = self.start_family()
        os.kill(next(iter(children(parent))), signal.SIGTERM)
        self.wait_for_lines(parent, " serves ", 3)
        self.assertEqual(len(children(parent)), 2)
        self.end(parent)

    def test_children_end_their_jobs_and_stop_when_the_parent_is_killed(self):
        job = self.enqueue("worker.gate")
        parent = self.start_family()
        self.wait_for_start(job)
        family = children(parent)
        os.kill(parent.pid, signal.SIGKILL)
        self.wait_for_lines(parent, "parent process is gone", 2)
        self.open(job)
        wait_until(lambda: not alive(*family))
        self.wait_for("done", job)
        self.assertEqual(job.attempts, 1)

    def test_children_that_wait_for_the_database_end_when_the_parent_is_killed(self):
        parent = self.start_family("--grace", "0.5", "--poll", "0.1")
        family = children(parent)
        holder = connections["default"].copy()
        with closing(holder), holder.cursor() as cursor:
            for statement in LOCK_TABLE[connection.vendor]:
                cursor.execute(statement)
            time.sleep(1)  # Until they wait for the table.
            os.kill(parent.pid, signal.SIGKILL)
            wait_until(lambda: not alive(*family), 0.5 + LAST_WORDS + 15)

    def test_a_signal_to_the_parent_lets_running_jobs_end(self):
        job = self.enqueue("worker.gate")
        parent = self.start_family()
        self.wait_for_start(job)
        parent.send_signal(signal.SIGINT)
        self.wait_for_lines(parent, "asked to stop", 2)
        self.open(job)
        self.assertEqual(parent.wait(), 0, parent.output)
        self.wait_for("done", job)

    def test_a_second_signal_gives_the_jobs_back_and_ends_all(self):
        job = self.enqueue("worker.ignore")
        parent = self.start_family()
        self.wait_for_start(job)
        family = children(parent)
        parent.terminate()
        self.wait_for_lines(parent, "asked to stop", 2)
        parent.terminate()
        self.assertEqual(parent.wait(), 1, parent.output)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts), ("ready", 0))
        self.assertFalse(alive(*family))

    def test_a_service_manager_that_signals_every_process_is_one_request(self):
        job = self.enqueue("worker.gate")
        parent = self.start_family()
        self.wait_for_start(job)
        for pid in children(parent):
            os.kill(pid, signal.SIGTERM)
        self.wait_for_lines(parent, "asked to stop", 2)
        parent.terminate()
        time.sleep(0.5)  # By then a second request would have given the job back.
        self.open(job)
        self.assertEqual(parent.wait(), 0, parent.output)
        self.wait_for("done", job)
        self.assertEqual(job.attempts, 1)

    def test_a_child_that_cannot_stop_is_killed_and_the_exit_code_says_so(self):
        job = self.enqueue("worker.gate")
        parent = self.start_family("--grace", "0")
        self.wait_for_start(job)
        stuck = next(iter(children(parent)))
        os.kill(stuck, signal.SIGSTOP)
        parent.terminate()
        self.assertEqual(parent.wait(), 1, parent.output)
        self.assertIn(f"{stuck} does not end", parent.output)

    def test_it_ends_with_success_when_its_children_have_drained_the_queue(self):
        jobs = [self.enqueue("worker.noop") for _ in range(50)]
        parent = self.spawn("--processes", "2", "--drain")
        self.assertEqual(parent.wait(), 0, parent.output)
        self.wait_for("done", *jobs)
        self.assertEqual(len(set(re.findall(r"Worker (\d+) serves", parent.output))), 2)


class ReplacingTests(SimpleTestCase):
    def start_family(self, child: str, *arguments: str) -> Process:
        self.addCleanup(kill_all)
        return spawn_python("-c", FAMILY.replace("CHILD", child), *arguments)

    def test_a_child_that_does_not_become_ready_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            parent = self.start_family(
                "first = not Path(sys.argv[1]).exists()\n"
                "Path(sys.argv[1]).touch()\n"
                "if first: time.sleep(600)",
                f"{folder}/first",
            )
            wait_until(lambda: "ready" in parent.output.splitlines(), 30)
        self.assertEqual(parent.output.count("does not become ready"), 1)
        self.assertEqual(len(children(parent)), 1)
        parent.terminate()
        self.assertEqual(parent.wait(), 0, parent.output)

    def test_a_child_that_always_dies_is_replaced_at_growing_intervals(self):
        parent = self.start_family("print('born', time.monotonic()); sys.exit(3)")
        wait_until(lambda: parent.output.count("exit code 3") >= 4, 60)
        parent.terminate()
        self.assertEqual(parent.wait(), 0, parent.output)
        born = [float(at) for at in re.findall(r"born (\S+)", parent.output)]
        pauses = [later - sooner for sooner, later in pairwise(born)]
        self.assertGreater(pauses[1], 0.9)
        self.assertGreater(pauses[2], 1.9)


def alive(*pids: int) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]


def end_all(pids: dict[int, str]) -> None:
    for pid in alive(*pids):
        if b"runjobs" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
