"""A worker that runs for long stays as large as it was."""

import itertools
import time
from pathlib import Path

import pytest

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job
from tests.processes import Process
from tests.worker.faulty import FaultTestCase

pytestmark = pytest.mark.processes

LONG = 200_000


class QueryLogTests(FaultTestCase):
    """Under DEBUG Django keeps the statements of each connection, parameters and all."""

    def check(self, number: int, most: float) -> None:
        worker = self.start("--threads", "2", "--lease", "60", DEBUG="1")
        # As many as are claimed ahead at once, with their payloads.
        self.run_jobs(100)
        before = megabytes(worker)
        self.run_jobs(number)
        self.assertLess(megabytes(worker) - before, most, worker.output[-2000:])
        self.end(worker)

    def run_jobs(self, number: int) -> None:
        kinds = ("faults.query_the_payload", "faults.query_the_payload_later")
        text = "x" * LONG
        for start in range(0, number, 100):
            Job.objects.enqueue_many(
                [NewJob(kinds[n % 2], text) for n in range(min(100, number - start))]
            )
        ends = time.monotonic() + 150
        while Job.objects.filter(status__in=("ready", "running")).exists():
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.1)
        self.assertEqual(Job.objects.exclude(status="done").count(), 0)
        Job.objects.all().delete()

    def test_the_log_of_queries_does_not_grow(self):
        self.check(300, most=40)

    @pytest.mark.slow
    @pytest.mark.timeout(900)
    def test_the_log_of_queries_does_not_grow_over_thousands_of_jobs(self):
        self.check(5000, most=50)


@pytest.mark.slow
@pytest.mark.timeout(1200)
class LongDrainTests(FaultTestCase):
    def test_a_hundred_thousand_jobs_are_drained_at_a_steady_pace(self):
        number = 100_000
        for _ in range(10):
            Job.objects.enqueue_many([NewJob("faults.noop")] * (number // 10))
        worker = self.start("--drain", "--threads", "4", SQLQUEUE={"HISTORY": "none"})
        marks, sizes = [time.monotonic()], []
        for tenth in range(1, 11):
            self.wait_for_left(number - number // 10 * tenth)
            marks.append(time.monotonic())
            if worker.poll() is None:
                sizes.append(megabytes(worker))
        self.assertEqual(worker.wait(60), 0)
        self.assertEqual(self.count("done"), number)
        paces = [number / 10 / (b - a) for a, b in itertools.pairwise(marks)]
        print("jobs/s by tenths:", *map(round, paces))
        print("megabytes by tenths:", *map(round, sizes))
        # The drivers keep so many prepared statements, which are all there after a while.
        self.assertLess(sizes[-1] - sizes[len(sizes) // 2], 15)
        self.assertLess(sizes[-1] - sizes[0], 25)
        self.assertGreater(min(paces[1:9]), max(paces[1:9]) / 4)

    def wait_for_left(self, left: int) -> None:
        while self.count("ready") > left:
            time.sleep(0.1)


def megabytes(process: Process) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6
