"""What the tests of the worker stand on: runjobs processes, and runners in a thread."""

import threading
from collections.abc import Callable
from typing import Any

from django.test import TransactionTestCase

from django_sqlqueue import handlers
from django_sqlqueue.models import Job
from django_sqlqueue.worker.loop import Runner
from django_sqlqueue.worker.options import WorkerOptions
from tests.processes import Process, ProcessTestCase, spawn, wait_until
from tests.testapp.models import Effect

ELSEWHERE = "elsewhere|0123456789abcdef|4026531836|4711|100|0123456789ab"
"""The name of a runner on another machine."""


class JobTests(TransactionTestCase):
    """Questions about jobs that others run meanwhile."""

    def enqueue(self, kind: str, payload: Any = None, **options: Any) -> Job:
        job = Job.objects.enqueue(kind, payload, **options)
        assert job is not None
        return job

    def wait_for(self, status: str, *jobs: Job, timeout: float = 30) -> None:
        """Wait until the jobs have this status, and read them again."""
        ids = [job.pk for job in jobs]

        def there() -> bool:
            return Job.objects.filter(pk__in=ids, status=status).count() == len(ids)

        try:
            wait_until(there, timeout)
        except AssertionError:
            found = Job.objects.filter(pk__in=ids).values_list("pk", "status", "last_error")
            self.fail(f"not {status} within {timeout} s: {list(found)}")
        for job in jobs:
            job.refresh_from_db()

    def count(self, status: str, **where: Any) -> int:
        return Job.objects.filter(status=status, **where).count()


class WorkerTestCase(JobTests, ProcessTestCase):
    """Starts real worker processes, with the handlers of jobs.py."""

    def start(self, *arguments: str, **environ: str) -> Process:
        """Start runjobs and wait until it serves."""
        worker = self.spawn(*arguments, **environ)
        wait_until(lambda: " serves " in worker.output or worker.poll() is not None, 30)
        self.assertIsNone(worker.poll(), worker.output)
        return worker

    def spawn(self, *arguments: str, **environ: str) -> Process:
        return spawn("runjobs", *arguments, env=environ, settings="tests.worker.settings")

    def wait_for_start(self, job: Job, times: int = 1) -> None:
        """Wait until the handler of a job has begun, for the so-manieth time."""
        begun = Effect.objects.filter(name="started", n=job.pk)
        wait_until(lambda: begun.count() >= times, 30)

    def open(self, job: Job, attempt: int | None = None) -> None:
        """Let a job of kind worker.gate, or one attempt of it, come to its end."""
        Effect.objects.create(name="open" if attempt is None else f"open {attempt}", n=job.pk)

    def end(self, worker: Process, code: int = 0) -> None:
        """Ask a worker to stop and check how it ends."""
        worker.terminate()
        self.assertEqual(worker.wait(), code, worker.output)
        self.assertNotIn("Traceback", worker.output)


class RunnerTestCase(JobTests):
    """Runs workers in threads of this process, with handlers made in the test."""

    def handle(self, kind: str, function: Callable[[Job], Any], **options: Any) -> None:
        """Let a function handle the jobs of a kind until the test ends."""
        handlers.handler(kind, **options)(function)
        self.addCleanup(handlers.unregister, kind)

    def start(self, **options: Any) -> Runner:
        """Start a worker in a thread; it is stopped when the test ends."""
        runner = Runner(WorkerOptions(**{"poll": 0.2, "grace": 5.0, **options}))
        self.threads = getattr(self, "threads", [])
        thread = threading.Thread(target=runner.run, name="runner")
        thread.start()
        self.addCleanup(self.stop, runner)
        self.threads.append(thread)
        return runner

    def stop(self, runner: Runner) -> None:
        runner.stop.request()
        self.assertTrue(runner.join(20), "the runner does not end")
        for thread in self.threads:
            thread.join(5)

    def drain(self, **options: Any) -> Runner:
        """Run a worker here until nothing is due."""
        runner = Runner(WorkerOptions(**{"poll": 0.2, "drain": True, **options}))
        runner.run()
        return runner
