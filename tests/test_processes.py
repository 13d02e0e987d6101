"""Processes that tests start share the tests' database and do not outlive their test."""

import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from django_sqlqueue.models import Job
from tests.processes import ProcessTestCase, outputs, spawn, spawn_python, wait_until
from tests.testapp.models import Effect

pytestmark = pytest.mark.processes

COUNT = "import django; django.setup(); from tests.testapp.models import Effect; "


class SpawnTests(ProcessTestCase):
    def test_a_process_reads_and_writes_the_tables_of_the_test(self):
        Effect.objects.create(name="from the test")
        process = spawn_python(
            "-c", COUNT + "Effect.objects.create(name='from outside', n=Effect.objects.count())"
        )
        self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(Effect.objects.get(name="from outside").n, 1)

    def test_a_management_command_runs_with_the_tests_settings(self):
        process = spawn("diffsettings", "--default", "tests.settings")
        self.assertEqual(process.wait(), 0, process.output)
        self.assertNotIn("SECRET_KEY", process.output)

    def test_killing_a_process_kills_its_children(self):
        process = spawn_python(
            "-c",
            "import subprocess, sys, time; "
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
            "print(child.pid); time.sleep(60)",
        )
        child = int(wait_until(lambda: process.output.endswith("\n") and process.output))
        process.kill()
        wait_until(lambda: not is_running(child))

    def test_a_process_ends_with_the_code_or_signal_that_ended_it(self):
        for arguments, code in ((["check"], 0), (["no_such_command"], 1)):
            with self.subTest(arguments):
                process = spawn(*arguments)
                self.assertEqual(process.wait(), code, process.output)
        server = spawn_python("-m", "http.server", "0", "--bind", "127.0.0.1")
        wait_until(lambda: "Serving" in server.output)
        self.assertIsNone(server.poll())
        server.kill()
        self.assertEqual(server.poll(), -signal.SIGKILL)

    def test_a_worker_starts_on_its_own_beside_all_apps(self):
        job = Job.objects.enqueue("testapp.noop")
        # Such a variable counts from the first moment: this is no fork of a process under test.
        worker = spawn("runjobs", "--drain", env={"PYTHONHASHSEED": "0"})
        self.assertEqual(worker.wait(), 0, worker.output)
        self.assertIsInstance(worker.popen, subprocess.Popen)
        job.refresh_from_db()
        self.assertEqual(job.status, "done")

    def test_it_has_its_own_variables_arguments_and_session(self):
        code = (
            "import os, sys; print(os.environ['COLOUR'], sys.argv[1:], os.getsid(0) == os.getpid())"
        )
        script = Path(self.enterContext(TemporaryDirectory())) / "script.py"
        script.write_text(code)
        for arguments in (["-c", code], [str(script)]):
            with self.subTest(arguments):
                process = spawn_python(*arguments, "red", env={"COLOUR": "blue"})
                self.assertEqual(process.wait(), 0, process.output)
                self.assertEqual(process.output, "blue ['red'] True\n")

    def test_the_output_of_a_process_is_there_for_the_report(self):
        spawn_python("-c", "print('what went wrong')").wait()
        self.assertIn("what went wrong", outputs()[-1][1])


def is_running(pid: int) -> bool:
    """Whether a process with this id runs; one that nobody waited for yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
