"""Many processes at one table: the database decides, and every count adds up."""

import json
from collections import Counter
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Count, Sum

from django_sqlqueue.lifecycle import LIVE, SETTLED
from django_sqlqueue.models import Job
from tests.processes import Process, ProcessTestCase, spawn_python, wait_until

pytestmark = pytest.mark.processes

PROCESSES = 8
KIND = "race"


class RollBack(Exception):
    pass


def start(*actors: list[Any]) -> Process:
    """Start the actors of tests/race_actors.py, each in a process."""
    return spawn_python("-m", "tests.race_actors", json.dumps(actors))


def results(process: Process) -> list[Any]:
    """Wait for the actors' end and return what each of them returned."""
    code = process.wait(150)
    if code:
        raise AssertionError(f"the race ended with {code}:\n{process.output}")
    found: list[Any] = json.loads(process.output.splitlines()[-1])
    return found


def race(*actors: list[Any]) -> list[Any]:
    return results(start(*actors))


def enqueue(number: int, **options: Any) -> list[int]:
    """Enqueue so many jobs and return their ids, in order."""
    for n in range(number):
        Job.objects.enqueue(KIND, {"n": n}, **options)
    return list(Job.objects.order_by("id").values_list("id", flat=True))


class ClaimRaceTests(ProcessTestCase):
    def test_eight_processes_claim_each_of_500_jobs_exactly_once(self):
        ids = enqueue(500)
        claimed = race(
            *(["claim_until_none_is_ready", f"runner {n}", 10] for n in range(PROCESSES))
        )
        everything = sorted(claim for one in claimed for claim in one)
        self.assertEqual(everything, [[pk, 1] for pk in ids])
        self.assertEqual(Job.objects.filter(status="running", attempts=1, claims=1).count(), 500)
        owners = Counter(Job.objects.values_list("lease_owner", flat=True))
        self.assertEqual(
            owners, Counter({f"runner {n}": len(one) for n, one in enumerate(claimed) if one})
        )

    def test_every_claim_ends_once_when_claim_cancel_and_reclaim_meet(self):
        ids = enqueue(200, max_attempts=1000)
        *completed, cancelled_a, cancelled_b, reclaimed_a, reclaimed_b = race(
            *(["claim_and_complete", f"runner {n}"] for n in range(4)),
            ["cancel_some", ids[0], ids[-1], 2],
            ["cancel_some", ids[0], ids[-1], 3],
            ["reclaim_until_none_is_live"],
            ["reclaim_until_none_is_live"],
        )
        accepted = [pk for one in completed for pk in one]
        self.assertEqual(len(accepted), len(set(accepted)), "a job was completed twice")
        jobs = Job.objects.all()
        claims = jobs.aggregate(total=Sum("claims"))["total"]
        self.assertEqual(claims, len(accepted) + reclaimed_a + reclaimed_b)
        self.assertEqual(
            jobs.filter(cancel_requested_at__isnull=False).count(), cancelled_a + cancelled_b
        )
        self.assertEqual(
            set(jobs.filter(status="cancelled")),
            set(jobs.filter(cancel_requested_at__isnull=False)),
        )
        self.assertEqual(set(jobs.values_list("status", flat=True)) - set(SETTLED), set())
        self.assertEqual(
            set(jobs.filter(result__isnull=False).values_list("id", flat=True)), set(accepted)
        )


class KeyRaceTests(ProcessTestCase):
    def assert_each_key_is_live_once(self, keys: int) -> None:
        live = Job.objects.filter(status__in=LIVE)
        per_key = live.values_list("dedup_key").annotate(Count("id"))
        self.assertEqual(dict(per_key), {f"key {n}": 1 for n in range(keys)})

    def test_eight_processes_enqueue_200_keys_and_each_is_live_once(self):
        inserted = race(*[["enqueue_each", KIND, 200]] * PROCESSES)
        winners = sorted(key for one in inserted for key in one)
        self.assertEqual(winners, sorted(f"key {n}" for n in range(200)))
        self.assert_each_key_is_live_once(200)

    def test_bulks_of_overlapping_keys_neither_deadlock_nor_lose_a_key(self):
        inserted = race(*[["enqueue_many_in_a_transaction", KIND, 300, 8]] * PROCESSES)
        self.assertEqual(sum(inserted), 300)
        self.assert_each_key_is_live_once(300)

    def test_requeue_and_enqueue_of_one_key_let_one_of_them_through(self):
        for number in range(60):
            Job.objects.enqueue(KIND, dedup_key=f"key {number}")
        ids = list(Job.objects.order_by("id").values_list("id", flat=True))
        self.assertEqual(Job.objects.all().cancel(), 60)
        moved = race(*[["requeue_or_enqueue", ids[0], ids[-1]]] * 6)
        self.assertEqual(sum(moved), 60)
        self.assert_each_key_is_live_once(60)


class RollBackRaceTests(ProcessTestCase):
    """Whoever enqueues a key that another transaction is about to insert waits for its end."""

    def enqueue_while_another_holds_the_key(self, waiters: int, *, commit: bool) -> list[Any]:
        try:
            with transaction.atomic():
                self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="wanted"))
                process = start(*[["enqueue_one", KIND, "wanted"]] * waiters)
                wait_until(lambda: process.output.count("trying") == waiters)
                with self.assertRaises(AssertionError):
                    process.wait(0.5)
                if not commit:
                    raise RollBack
        except RollBack:
            pass
        return results(process)

    def test_the_second_is_inserted_after_all_when_the_first_rolls_back(self):
        (inserted,) = self.enqueue_while_another_holds_the_key(1, commit=False)
        self.assertEqual([job.id for job in Job.objects.all()], [inserted])

    def test_one_of_several_is_inserted_when_the_first_rolls_back(self):
        inserted = self.enqueue_while_another_holds_the_key(4, commit=False)
        self.assertEqual([job.id for job in Job.objects.all()], [pk for pk in inserted if pk])

    def test_the_second_is_told_of_the_duplicate_when_the_first_commits(self):
        (inserted,) = self.enqueue_while_another_holds_the_key(1, commit=True)
        self.assertIsNone(inserted)
        self.assertEqual(Job.objects.count(), 1)


class ScheduleRaceTests(ProcessTestCase):
    def test_one_row_is_made_when_all_name_the_same_schedule(self):
        given_back = race(
            *(["schedule_repeatedly", "nightly", 60 + n, 10] for n in range(PROCESSES))
        )
        (schedule,) = Job.objects.all()
        self.assertEqual({pk for one in given_back for pk in one}, {schedule.id})
        self.assertEqual((schedule.name, schedule.status), ("nightly", "ready"))
