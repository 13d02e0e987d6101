"""The chain of occurrences in real workers: none twice, none lost, whoever dies."""

import json
from collections import Counter
from typing import Any

import pytest

from django_sqlqueue import schedules
from django_sqlqueue.models import Job
from tests.processes import Process, ProcessTestCase, spawn, wait_until
from tests.schedules.deadly import POINTS
from tests.testapp.models import Effect

pytestmark = pytest.mark.processes

WORKERS = 5


class ChainTestCase(ProcessTestCase):
    def start(self, *arguments: str, **environ: str) -> Process:
        return spawn("runjobs", *arguments, env=environ, settings="tests.schedules.settings")

    def occurrences(self, name: str) -> list[int]:
        """Return when each occurrence that ran was due, in milliseconds, in that order."""
        return sorted(Effect.objects.filter(name=name).values_list("n", flat=True))

    def wait_for_occurrences(self, name: str, count: int, timeout: float) -> None:
        ran = Effect.objects.filter(name=name)
        wait_until(lambda: ran.count() >= count, timeout, interval=0.1)

    def assert_unbroken(self, name: str, milliseconds: int) -> None:
        due = self.occurrences(name)
        self.assertEqual([n for n, count in Counter(due).items() if count > 1], [], "ran twice")
        expected = list(range(due[0], due[-1] + 1, milliseconds))
        self.assertEqual(due, expected, "occurrences are missing, or off the grid")


class ManyWorkersTests(ChainTestCase):
    TICK: dict[str, Any] = {"kind": "schedules.tick", "every": 0.1, "missed": "all"}

    def run_for(self, seconds: float) -> None:
        """Run five workers that all declare the same schedule, due each 100 ms."""
        Job.objects.schedule("yearly", "schedules.tick", every=365 * 86_400)
        wanted = json.dumps({"SCHEDULES": {"tick": self.TICK}})
        workers = [self.start(SQLQUEUE=wanted) for _ in range(WORKERS)]
        self.wait_for_occurrences("tick", int(seconds * 10), 60 + 2 * seconds)
        schedules.sync()  # without the settings of the workers it is declared no longer
        wait_until(lambda: Job.objects.filter(name="tick", status="cancelled").exists())
        for worker in workers:
            worker.terminate()
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.output)
            self.assertNotIn("Traceback", worker.output)
        self.assert_unbroken("tick", 100)
        tick = Job.objects.get(name="tick")
        ran = len(self.occurrences("tick"))
        self.assertEqual((tick.missed_count, tick.claims), (0, ran))
        self.assertEqual(tick.history.count(), min(ran, 100))
        self.assertEqual(len(self.occurrences("yearly")), 1)
        self.assertEqual(Job.objects.get(name="yearly").status, "ready")

    def test_each_occurrence_runs_once_and_none_is_lost(self):
        self.run_for(seconds=4)

    @pytest.mark.slow
    def test_each_occurrence_of_half_a_minute_runs_once_and_none_is_lost(self):
        self.run_for(seconds=30)


class KilledWorkerTests(ChainTestCase):
    def test_a_worker_killed_at_any_point_breaks_no_chain(self):
        for point in POINTS:
            Job.objects.schedule(point, "schedules.once_each", every=0.5, missed="all", queue=point)
        victims = {point: self.start("--queue", point, KILLED_AT=point) for point in POINTS}
        for point, victim in victims.items():
            self.assertEqual(victim.wait(60), -9, f"{point}: {victim.output}")
        ran = {point: len(self.occurrences(point)) for point in POINTS}
        self.start()
        for point in POINTS:
            self.wait_for_occurrences(point, ran[point] + 3, 30)
            with self.subTest(point):
                self.assert_unbroken(point, 500)
