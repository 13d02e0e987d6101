"""Downtime, long runs and clocks that are put back: what runs, what is passed over, the grid."""

import time
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from django_sqlqueue import Defer, execution
from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome
from django_sqlqueue.testing import run_jobs
from tests.handling import raiser
from tests.schedules.base import DAY, HOUR, MINUTE, NOON, SECOND, ScheduleTestCase

YEAR = 365 * DAY


class DowntimeTests(ScheduleTestCase):
    """An hourly schedule, due at noon, whose worker comes ten minutes after a later due time."""

    def come_back(self, after: timedelta, **options: Any) -> Job:
        """Run all that is due then; it takes no more than a moment, however long it was."""
        self.schedule(**options)
        began = time.process_time()
        job = self.run_at(NOON + after + 10 * MINUTE)
        self.assertLess(time.process_time() - began, 3)
        self.assertEqual((job.due_at, job.run_at), (NOON + after + HOUR,) * 2, "the grid is kept")
        self.assertEqual((job.status, job.attempts, job.last_error), ("ready", 0, ""))
        return job

    def test_none_was_missed_where_the_next_is_not_due(self):
        for missed in ("once", "all", "skip"):
            with self.subTest(missed):
                job = self.come_back(timedelta(), missed=missed, name=missed)
                self.assertEqual((self.seen.pop(), job.missed_count), (NOON, 0))
                job.delete()

    def test_once_is_one_run_for_all(self):
        for down, passed in ((HOUR, 1), (DAY, 24), (YEAR, 8760)):
            with self.subTest(down=down), self.assertLogs("django_sqlqueue", "WARNING") as logged:
                job = self.come_back(down, missed="once")
                self.assertEqual((self.seen.pop(), self.seen), (NOON, []))
                self.assertEqual(job.missed_count, passed)
                self.assertIn(f"'hourly' passed over {passed} occurrences", logged.output[0])
                job.delete()

    def test_skip_runs_only_the_one_that_is_still_in_time(self):
        for down, passed in ((HOUR, 1), (DAY, 24), (YEAR, 8760)):
            with self.subTest(down=down), self.assertLogs("django_sqlqueue", "WARNING") as logged:
                job = self.come_back(down, missed="skip")
                self.assertEqual((self.seen.pop(), self.seen), (NOON + down, []))
                self.assertEqual(job.missed_count, passed)
                self.assertIn(f"'hourly' passed over {passed} occurrences", logged.output[0])
                self.assertEqual(job.history.count(), 1, "what is passed over leaves no row")
                job.delete()

    def test_all_runs_each_of_them_in_turn(self):
        for down, runs in ((HOUR, 2), (DAY, 25)):
            with self.subTest(down=down):
                job = self.come_back(down, missed="all")
                self.assertEqual(self.seen, [NOON + number * HOUR for number in range(runs)])
                self.assertEqual(job.missed_count, 0)
                self.seen.clear()
                job.delete()

    def test_all_after_a_year_works_off_one_after_the_other(self):
        self.schedule(missed="all")
        job = self.run_at(NOON + YEAR, limit=5)
        self.assertEqual(self.seen, [NOON + number * HOUR for number in range(5)])
        self.assertEqual((job.due_at, job.missed_count), (NOON + 5 * HOUR, 0))

    def test_a_cron_schedule_each_minute_after_a_year(self):
        for missed, ran in (("once", NOON), ("skip", NOON + YEAR)):
            with self.subTest(missed), self.assertLogs("django_sqlqueue", "WARNING"):
                self.schedule(cron="* * * * *", timezone="UTC", run_at=NOON, missed=missed)
                began = time.process_time()
                job = self.run_at(NOON + YEAR + 30 * SECOND)
                self.assertLess(time.process_time() - began, 3)
                self.assertEqual((self.seen.pop(), self.seen), (ran, []))
                self.assertEqual(job.due_at, NOON + YEAR + MINUTE)
                self.assertEqual(job.missed_count, 525_600)
                job.delete()

    def test_fifty_that_are_late_at_once_run_once_each(self):
        for number in range(50):
            self.schedule(name=f"s{number}", every=MINUTE)
        with self.assertLogs("django_sqlqueue", "WARNING"):
            self.assertEqual(run_jobs(now=NOON + 4 * DAY + 30 * SECOND), 50)
        self.assertEqual(len(self.seen), 50)
        rows = Job.objects.values_list("due_at", "missed_count").distinct()
        self.assertEqual(list(rows), [(NOON + 4 * DAY + MINUTE, 4 * 1440)])


class LongRunTests(ScheduleTestCase):
    def claim(self, now: datetime) -> list[Job]:
        return Job.objects.claim("runner", limit=4, lease=HOUR, now=now)

    def test_a_run_longer_than_its_interval_never_overlaps_itself(self):
        """Each minute, five minutes a run, four slots, for an hour."""
        self.schedule(every=MINUTE)
        running: list[tuple[datetime, Job]] = []
        runs, most = 0, 0
        for now in (NOON + number * MINUTE for number in range(61)):
            for began, job in list(running):
                if now - began == 5 * MINUTE:
                    with self.assertLogs("django_sqlqueue", "WARNING"):
                        self.assertTrue(Job.objects.settle(job, completion(), now))
                    running.remove((began, job))
                    runs += 1
            running += [(now, job) for job in self.claim(now)]
            most = max(most, len(running))
        self.assertEqual((most, runs), (1, 12))
        job = Job.objects.get()
        self.assertEqual(job.missed_count, 12 * 4, "those that came and went during the runs")

    def test_a_run_that_ends_late_is_followed_by_one_run_for_all_that_came_meanwhile(self):
        for missed, following, passed in (
            ("once", 5 * MINUTE, 4),
            ("skip", 5 * MINUTE, 4),
            ("all", MINUTE, 0),
        ):
            with self.subTest(missed):
                job = self.schedule(name=missed, every=MINUTE, missed=missed)
                (claimed,) = self.claim(NOON)
                self.assertTrue(
                    Job.objects.settle(claimed, completion(), NOON + 5 * MINUTE + SECOND)
                )
                job.refresh_from_db()
                self.assertEqual((job.due_at, job.missed_count), (NOON + following, passed))
                job.delete()

    def test_thirty_ticks_seen_by_five_workers_are_thirty_runs(self):
        job = self.schedule(every=MINUTE)
        for number in range(30):
            now = NOON + number * MINUTE
            claimed = []
            for worker in range(5):
                # Each looks again after the run of another has ended already.
                found = Job.objects.claim(f"w{worker}", now=now + worker * SECOND)
                claimed += found
                for one in found:
                    Job.objects.settle(one, completion(), now + worker * SECOND)
            self.assertEqual([one.due_at for one in claimed], [now])
        job.refresh_from_db()
        self.assertEqual((job.claims, job.missed_count), (30, 0))


class ClockTests(ScheduleTestCase):
    def test_a_clock_that_is_put_back_runs_no_occurrence_again(self):
        for rhythm in ({}, {"cron": "0 * * * *", "timezone": "UTC", "run_at": NOON}):
            for missed in ("once", "all", "skip"):
                with self.subTest(missed, **rhythm):
                    job = self.schedule(missed=missed, **rhythm)
                    self.run_at(NOON + SECOND)
                    self.assertEqual(run_jobs(now=NOON - 30 * MINUTE), 0)
                    self.assertEqual(run_jobs(now=NOON + SECOND), 0)
                    self.assertEqual(run_jobs(now=NOON + HOUR), 1)
                    self.assertEqual(self.seen, [NOON, NOON + HOUR])
                    self.seen.clear()
                    job.delete()

    def test_a_clock_put_back_while_it_runs_does_not_move_the_grid(self):
        self.schedule()
        (job,) = Job.objects.claim("runner", now=NOON + SECOND)
        Job.objects.settle(job, completion(), NOON - 2 * HOUR)
        job.refresh_from_db()
        self.assertEqual((job.due_at, job.missed_count), (NOON + HOUR, 0))


class RetryTests(ScheduleTestCase):
    def test_the_grid_stays_however_late_a_retry_succeeds(self):
        self.handle(raiser(ValueError()), backoff=lambda attempt: 25 * 60)
        self.schedule()
        for minutes in (0, 25, 50):
            job = self.run_at(NOON + minutes * MINUTE)
            self.assertEqual((job.due_at, job.last_error), (NOON, "ValueError"))
        self.handle(self.note)
        job = self.run_at(NOON + 75 * MINUTE)
        self.assertEqual(self.seen, [NOON])
        self.assertEqual((job.due_at, job.last_error, job.attempts), (NOON + 2 * HOUR, "", 0))
        self.assertEqual(job.missed_count, 1, "the run at 13:15 stands for the one of 13:00")

    def test_an_occurrence_that_is_retried_is_not_skipped_for_being_late(self):
        self.handle(raiser(ValueError()), backoff=lambda attempt: 90 * 60)
        self.schedule(missed="skip")
        self.run_at(NOON)
        self.handle(self.note)
        self.run_at(NOON + 90 * MINUTE)
        self.assertEqual(self.seen, [NOON])

    def test_a_deferred_occurrence_keeps_its_due_time_and_its_attempts(self):
        self.handle(raiser(Defer(600)))
        self.schedule()
        job = self.run_at(NOON)
        self.assertEqual((job.due_at, job.run_at), (NOON, NOON + 10 * MINUTE))
        self.assertEqual(job.attempts, 0)
        self.handle(self.note)
        self.assertEqual(self.run_at(NOON + 10 * MINUTE).due_at, NOON + HOUR)

    def test_the_reason_of_a_spent_occurrence_stays_until_a_success(self):
        self.handle(raiser(ValueError()), max_attempts=1)
        self.schedule()
        job = self.run_at(NOON)
        self.assertEqual((job.status, job.last_error), ("ready", "ValueError"))
        claimed = Job.objects.claim_next("runner", now=NOON + HOUR)
        assert claimed is not None
        self.assertEqual((claimed.attempts, claimed.last_error), (1, "ValueError"))
        self.assertTrue(Job.objects.release_owned("runner"))
        self.handle(self.note)
        self.assertEqual(self.run_at(NOON + HOUR).last_error, "")

    def test_a_worker_lost_on_the_last_attempt_costs_one_occurrence(self):
        self.schedule(max_attempts=1)
        Job.objects.claim("gone", lease=MINUTE, now=NOON)
        self.assertEqual(Job.objects.reclaim_expired(now=NOON + 2 * MINUTE), 1)
        job = Job.objects.get()
        self.assertEqual((job.status, job.attempts, job.last_error), ("ready", 0, "lease_expired"))
        self.assertEqual((job.due_at, job.run_at), (NOON + HOUR,) * 2)
        self.assertEqual(job.history.get().outcome, "lost")
        job = self.run_at(NOON + HOUR)
        self.assertEqual((self.seen, job.last_error), ([NOON + HOUR], ""))

    def test_a_lost_worker_with_attempts_left_costs_none(self):
        self.schedule()
        Job.objects.claim("gone", lease=MINUTE, now=NOON)
        Job.objects.reclaim_expired(now=NOON + 2 * MINUTE)
        self.run_at(NOON + 2 * MINUTE)
        self.assertEqual(self.seen, [NOON])


class DeadlineTests(ScheduleTestCase):
    def test_an_occurrence_after_its_deadline_is_retired_and_the_next_has_its_own(self):
        self.schedule(deadline=5 * MINUTE)
        job = self.run_at(NOON + 6 * MINUTE)
        self.assertEqual((self.seen, job.last_error), ([], "deadline_passed"))
        self.assertEqual((job.status, job.due_at), ("ready", NOON + HOUR))
        job = self.run_at(NOON + HOUR + 5 * MINUTE)
        self.assertEqual((self.seen, job.last_error), ([NOON + HOUR], ""))

    def test_one_that_came_too_late_does_not_stand_for_one_that_is_in_time(self):
        for missed in ("once", "skip"):
            with self.subTest(missed), self.assertLogs("django_sqlqueue", "WARNING"):
                job = self.schedule(deadline=20 * MINUTE, missed=missed)
                self.run_at(NOON + 5 * HOUR + 10 * MINUTE)
                self.assertEqual(self.seen, [NOON + 5 * HOUR])
                job.refresh_from_db()
                self.assertEqual((job.due_at, job.missed_count), (NOON + 6 * HOUR, 4))
                self.assertEqual(job.deadline, NOON + 6 * HOUR + 20 * MINUTE)
                self.seen.clear()
                job.delete()

    def test_a_retry_has_the_deadline_of_its_occurrence(self):
        self.handle(raiser(ValueError()), backoff=lambda attempt: 600)
        self.schedule(deadline=5 * MINUTE)
        self.assertEqual(self.run_at(NOON).deadline, NOON + 5 * MINUTE)
        job = self.run_at(NOON + 10 * MINUTE)
        self.assertEqual((job.last_error, job.due_at), ("deadline_passed", NOON + HOUR))


class UnreadableRhythmTests(ScheduleTestCase):
    """The extra for cron is missing here, or someone's SQL left nonsense."""

    def test_the_occurrence_is_put_off_for_a_worker_that_can_read_it(self):
        self.schedule(cron="0 * * * *", timezone="UTC", run_at=NOON)
        with (
            mock.patch.dict("sys.modules", {"cronsim": None}),
            self.assertLogs("django_sqlqueue", "ERROR") as logged,
        ):
            job = self.run_at(NOON)
        self.assertIn("'hourly' cannot be read here", logged.output[0])
        self.assertEqual((job.due_at, job.run_at, job.attempts), (NOON, NOON + MINUTE, 0))
        self.assertEqual(self.run_at(NOON + MINUTE).due_at, NOON + HOUR)
        self.assertEqual(self.seen, [NOON])

    def test_a_lost_worker_ends_no_schedule_either(self):
        self.schedule(max_attempts=1)
        Job.objects.claim("gone", lease=MINUTE, now=NOON)
        Job.objects.update(cron="nonsense", interval=None)
        with self.assertLogs("django_sqlqueue", "ERROR"):
            Job.objects.reclaim_expired(now=NOON + 2 * MINUTE)
        job = Job.objects.get()
        self.assertEqual((job.status, job.due_at), ("ready", NOON + 3 * MINUTE))

    def test_a_named_job_without_a_rhythm_runs_once(self):
        self.schedule()
        Job.objects.update(interval=None)
        job = self.run_at(NOON)
        self.assertEqual((self.seen, job.status), ([NOON], "done"))


class RescheduledTests(ScheduleTestCase):
    """A handler that chooses its own next time."""

    def test_a_handler_chooses_its_own_next_time(self):
        for atomic in (False, True):
            with self.subTest(atomic=atomic):
                self.handle(self.go_on_in_20_minutes, atomic=atomic)
                job = self.schedule(deadline=MINUTE)
                with self.assertNoLogs("django_sqlqueue", "WARNING"):
                    self.run_at(NOON)
                job.refresh_from_db()
                self.assertEqual((job.status, job.attempts), ("ready", 0))
                self.assertEqual((job.due_at, job.run_at), (NOON + 20 * MINUTE,) * 2)
                self.assertEqual(job.deadline, NOON + 21 * MINUTE)
                self.assertEqual(job.history.get().outcome, "done")
                self.handle(self.note)
                self.assertEqual(self.run_at(job.due_at).due_at, NOON + 80 * MINUTE)
                job.delete()

    def test_what_the_handler_settled_is_left_as_it_is(self):
        self.handle(self.go_on_in_20_minutes)
        self.schedule()
        (job,) = Job.objects.claim("runner", now=NOON)
        self.assertIsNone(execution.attempt(job), "nothing is left to settle")
        self.assertEqual(Job.objects.get().due_at, NOON + 20 * MINUTE)

    def test_a_coroutine_may_as_well(self):
        async def handle(job):
            await sync_to_async(job.reschedule)(NOON + 20 * MINUTE)

        self.handle(handle)
        self.schedule()
        (job,) = Job.objects.claim("runner", now=NOON)
        self.assertIsNone(async_to_sync(execution.attempt_coroutine)(job))
        self.assertEqual(Job.objects.get().due_at, NOON + 20 * MINUTE)

    def test_what_the_handler_rolled_back_is_completed_as_any_other(self):
        def thinks_again(job: Job) -> None:
            with transaction.atomic():
                self.go_on_in_20_minutes(job)
                transaction.set_rollback(True)

        for atomic in (False, True):
            with self.subTest(atomic=atomic):
                self.handle(thinks_again, atomic=atomic)
                self.schedule()
                self.assertEqual(self.run_at(NOON).due_at, NOON + HOUR)
                Job.objects.all().delete()

    def test_a_cron_schedule_goes_on_with_its_next_match(self):
        self.handle(self.go_on_in_20_minutes)
        self.schedule(cron="0 * * * *", timezone="UTC", run_at=NOON)
        self.run_at(NOON)
        self.handle(self.note)
        self.assertEqual(self.run_at(NOON + 20 * MINUTE).due_at, NOON + HOUR)

    def go_on_in_20_minutes(self, job: Job) -> None:
        self.assertTrue(job.reschedule(NOON + 20 * MINUTE))


def completion() -> Outcome:
    return Outcome(move="complete")
