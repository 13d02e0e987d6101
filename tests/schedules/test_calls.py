"""schedule() and unschedule() at awkward moments: paused, running, ended, and both at once."""

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection, transaction
from django.test import TransactionTestCase
from django.utils import timezone

from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome
from tests.handling import KIND, raiser
from tests.schedules.base import DAY, HOUR, MINUTE, NOON, ScheduleTestCase


class SecondCallTests(ScheduleTestCase):
    def test_each_part_of_a_rhythm_that_changes_moves_the_due_time(self):
        cron = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}
        for first, second, moves in (
            ({"every": HOUR}, {"every": HOUR}, False),
            ({"every": HOUR}, {"every": 3600.0, "missed": "all"}, False),
            ({"every": HOUR}, {"every": DAY}, True),
            ({"every": HOUR}, cron, True),
            (cron, cron, False),
            (cron, {**cron, "cron": "@daily"}, True),
            (cron, {**cron, "timezone": "America/New_York"}, True),
            (cron, {"every": HOUR}, True),
        ):
            with self.subTest(first=first, second=second):
                before = self.schedule(**{"run_at": NOON, **first})
                after = self.schedule(**{"run_at": NOON + MINUTE, **second})
                self.assertEqual(after.due_at - before.due_at, MINUTE if moves else 0 * MINUTE)
                self.assertEqual(after.run_at, after.due_at)
                after.delete()

    def test_a_shorter_interval_counts_from_the_last_due_time(self):
        self.schedule(every=DAY)
        self.run_at(NOON)
        self.assertEqual(Job.objects.get().due_at, NOON + DAY)
        job = Job.objects.schedule("hourly", KIND, every=HOUR)
        self.assertEqual(job.due_at, NOON + HOUR)

    def test_an_interval_in_place_of_a_yearly_expression_does_not_wait_for_its_next_match(self):
        yearly = {"cron": "0 0 1 1 *", "timezone": "UTC"}
        now = timezone.now()
        Job.objects.schedule("hourly", KIND, **yearly)
        job = Job.objects.schedule("hourly", KIND, every=HOUR)
        self.assertLess(abs(job.due_at - now), MINUTE, "it never ran: at once")
        job = self.run_at(now + MINUTE)
        Job.objects.schedule("hourly", KIND, **yearly)
        job = Job.objects.schedule("hourly", KIND, every=2 * HOUR)
        self.assertEqual(job.due_at, now + MINUTE + 2 * HOUR, "that long after the last run")

    def test_a_new_rhythm_gives_a_failing_occurrence_a_fresh_budget(self):
        self.handle(raiser(ValueError()), max_attempts=3)
        self.schedule()
        self.run_at(NOON)
        job = Job.objects.schedule("hourly", KIND, every=DAY, run_at=NOON + DAY)
        self.assertEqual((job.attempts, job.due_at, job.run_at), (0, NOON + DAY, NOON + DAY))
        self.assertEqual(job.last_error, "ValueError", "it is visible until a success")

    def test_a_paused_schedule_stays_paused_also_with_a_new_rhythm(self):
        job = self.schedule()
        Job.objects.filter(pk=job.pk).pause_schedules()
        self.schedule(every=DAY, run_at=NOON + DAY)
        self.assertEqual(Job.objects.claim("runner", now=NOON + 9 * DAY), [])
        Job.objects.filter(pk=job.pk).resume_schedules()
        job.refresh_from_db()
        self.assertEqual((job.run_at, job.due_at), (NOON + DAY, NOON + DAY))

    def test_kind_and_payload_change_between_two_attempts(self):
        self.schedule(payload={"page": 1})
        (claimed,) = Job.objects.claim("runner", now=NOON)
        Job.objects.schedule("hourly", "other", every=HOUR, payload={"page": 2})
        Job.objects.settle(claimed, Outcome(move="retry", delay=0), NOON)
        (again,) = Job.objects.claim("runner", now=NOON)
        self.assertEqual((again.kind, again.payload, again.attempts), ("other", {"page": 2}, 2))
        self.assertEqual(again.due_at, NOON)

    def test_a_cron_rhythm_given_while_it_runs_takes_effect_at_its_end(self):
        self.schedule()
        (claimed,) = Job.objects.claim("runner", now=NOON)
        changed = Job.objects.schedule("hourly", KIND, cron="30 4 * * *", timezone="UTC")
        self.assertEqual((changed.status, changed.due_at, changed.claims), ("running", NOON, 1))
        self.assertTrue(Job.objects.settle(claimed, Outcome(move="complete"), NOON))
        changed.refresh_from_db()
        self.assertEqual(changed.due_at, NOON + 16 * HOUR + 30 * MINUTE)

    def test_a_lost_worker_of_a_schedule_that_was_changed_goes_on_by_the_new_rhythm(self):
        self.schedule(max_attempts=1)
        Job.objects.claim("gone", lease=MINUTE, now=NOON)
        Job.objects.schedule("hourly", KIND, every=DAY, max_attempts=1)
        Job.objects.reclaim_expired(now=NOON + HOUR)
        self.assertEqual(Job.objects.get().due_at, NOON + DAY)


class EndedTests(ScheduleTestCase):
    def test_unschedule_while_it_runs_ends_it_with_the_run(self):
        for ending, outcome in (
            ("complete", Outcome(move="complete", result='"kept"')),
            ("retry", Outcome(move="retry", reason="timeout", delay=5)),
            ("reschedule", Outcome(move="reschedule", run_at=NOON + DAY)),
        ):
            with self.subTest(ending):
                job = self.schedule()
                (claimed,) = Job.objects.claim("runner", now=NOON)
                self.assertTrue(Job.objects.unschedule("hourly"))
                self.assertTrue(claimed.cancel_requested())
                self.assertTrue(Job.objects.settle(claimed, outcome, NOON))
                job.refresh_from_db()
                self.assertEqual(job.status, "cancelled")
                self.assertIsNotNone(job.finished_at)
                self.assertEqual(job.history.last().outcome, "cancelled")
                self.assertEqual(Job.objects.claim("runner", now=NOON + 9 * DAY), [])
                job.delete()

    def test_a_lost_worker_of_a_schedule_that_was_ended_ends_it(self):
        self.schedule(max_attempts=1)
        Job.objects.claim("gone", lease=MINUTE, now=NOON)
        Job.objects.unschedule("hourly")
        Job.objects.reclaim_expired(now=NOON + HOUR)
        self.assertEqual(Job.objects.get().status, "cancelled")

    def test_revived_it_has_a_fresh_budget_and_a_new_grid_and_keeps_its_history(self):
        self.handle(raiser(ValueError()), max_attempts=3)
        first = self.schedule()
        self.run_at(NOON)
        Job.objects.unschedule("hourly")
        job = self.schedule(run_at=NOON + 10 * MINUTE)
        self.assertEqual((job.pk, job.status, job.attempts), (first.pk, "ready", 0))
        self.assertEqual((job.last_error, job.finished_at), ("", None))
        self.handle(self.note)
        job = self.run_at(NOON + 10 * MINUTE)
        self.assertEqual((self.seen, job.due_at), ([NOON + 10 * MINUTE], NOON + 70 * MINUTE))
        self.assertEqual(list(job.history.values_list("outcome", flat=True)), ["retried", "done"])


class InTheHandlerTests(ScheduleTestCase):
    def test_an_occurrence_has_an_id_that_its_retries_share(self):
        seen = []

        def fails_once_each(job: Job) -> None:
            seen.append((job.occurrence_id, job.due_at))
            if job.attempts == 1:
                raise ValueError

        self.handle(fails_once_each, backoff=lambda attempt: 60)
        job = self.schedule()
        for minutes in (0, 1, 60, 61):
            self.run_at(NOON + minutes * MINUTE)
        first, second = f"{job.pk}@{NOON.isoformat()}", f"{job.pk}@{(NOON + HOUR).isoformat()}"
        self.assertEqual(
            seen, [(first, NOON), (first, NOON), (second, NOON + HOUR), (second, NOON + HOUR)]
        )

    def test_a_plain_job_has_one_too(self):
        seen: list[str] = []
        self.handle(lambda job: seen.append(job.occurrence_id))
        job = self.enqueue()
        self.run_at(NOON)
        self.assertEqual(seen, [str(job.pk)])

    def test_a_handler_may_change_its_own_schedule(self):
        def slows_down(job: Job) -> None:
            Job.objects.schedule("hourly", KIND, every=DAY)

        for atomic in (False, True):
            with self.subTest(atomic=atomic):
                self.handle(slows_down, atomic=atomic)
                self.schedule()
                self.assertEqual(self.run_at(NOON).due_at, NOON + DAY)
                Job.objects.all().delete()

    def test_a_handler_may_end_its_own_schedule(self):
        for atomic in (False, True):
            with self.subTest(atomic=atomic):
                self.handle(lambda job: Job.objects.unschedule("hourly"), atomic=atomic)
                self.schedule()
                self.assertEqual(self.run_at(NOON).status, "cancelled")
                Job.objects.all().delete()


class AtOnceTests(TransactionTestCase):
    """A change of the rhythm and the end of an occurrence in two transactions at once."""

    def test_a_change_that_commits_first_decides_the_next_due_time(self):
        job = self.running()
        with transaction.atomic():
            self.change()
            other = Other(lambda: Job.objects.settle(job, Outcome(move="complete"), NOON))
            self.assertTrue(other.waits(), "it read the rhythm that is being changed")
        self.assertTrue(other.result())
        self.assertEqual(Job.objects.get().due_at, NOON + DAY)

    def test_a_change_that_commits_second_decides_it_too(self):
        job = self.running()
        with transaction.atomic():
            self.assertTrue(Job.objects.settle(job, Outcome(move="complete"), NOON))
            other = Other(self.change)
            self.assertTrue(other.waits(), "it changed an occurrence that is being ended")
        other.result()
        self.assertEqual(Job.objects.get().due_at, NOON + DAY)

    def running(self) -> Job:
        Job.objects.schedule("hourly", KIND, every=HOUR, run_at=NOON)
        (job,) = Job.objects.claim("runner", now=NOON)
        return job

    def change(self) -> Job:
        return Job.objects.schedule("hourly", KIND, every=DAY)


class Other(threading.Thread):
    """Does something in another connection."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.found: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.found = self.work()
        finally:
            connection.close()

    def waits(self) -> bool:
        """Say whether it has not come to an end although it had the time."""
        self.join(0.7)
        return self.is_alive()

    def result(self) -> Any:
        self.join(20)
        assert not self.is_alive()
        return self.found
