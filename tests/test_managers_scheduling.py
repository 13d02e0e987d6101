"""Naming recurring jobs: what schedule and unschedule do to the one row of a schedule."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.test import TestCase

from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
KIND = "shop.sweep"


def schedule(**options: Any) -> Job:
    if "cron" not in options:
        options.setdefault("every", HOUR)
    return Job.objects.schedule("nightly", options.pop("kind", KIND), **options)


def claim(now: datetime = NOON) -> Job:
    (job,) = Job.objects.claim("runner", now=now)
    return job


class ScheduleTests(TestCase):
    def test_a_new_schedule_is_one_ready_row(self):
        job = schedule(run_at=NOON, payload={"a": [1]}, missed="all")
        self.assertEqual((job.name, job.kind, job.status), ("nightly", KIND, "ready"))
        self.assertEqual((job.interval, job.cron, job.missed), (HOUR, "", "all"))
        self.assertEqual((job.run_at, job.due_at, job.deadline), (NOON, NOON, None))
        self.assertEqual((job.payload, job.attempts), ({"a": [1]}, 0))
        self.assertEqual(Job.objects.get(), job)

    def test_an_interval_is_first_due_at_once(self):
        job = schedule()
        self.assertLess(abs(job.due_at - datetime.now(UTC)), timedelta(seconds=20))

    def test_a_cron_schedule_is_first_due_at_its_next_match(self):
        job = schedule(cron="30 2 * * *", timezone="Europe/Berlin")
        self.assertEqual((job.cron, job.timezone), ("30 2 * * *", "Europe/Berlin"))
        self.assertGreater(job.due_at, datetime.now(UTC))
        self.assertLess(job.due_at, datetime.now(UTC) + timedelta(hours=26))
        self.assertIn((job.due_at.hour, job.due_at.minute), {(0, 30), (1, 30)})

    def test_options_come_from_the_handler_unless_given(self):
        job = schedule(kind="testapp.options", max_attempts=1, ref="library:42")
        self.assertEqual((job.queue, job.priority), ("mail", 7))
        self.assertEqual((job.max_attempts, job.ref), (1, "library:42"))

    def test_bad_input_is_refused_before_any_statement(self):
        bad: list[tuple[str, dict[str, Any]]] = [
            ("every", {"every": None}),
            ("every", {"every": HOUR, "cron": "0 0 * * *"}),
            ("every", {"every": 0}),
            ("every", {"every": -1}),
            ("cron", {"cron": "at noon"}),
            ("cron", {"cron": "0 0 30 2 *"}),
            ("timezone", {"cron": "0 0 * * *", "timezone": "Europe/Nowhere"}),
            ("missed", {"missed": "never"}),
            ("run_at", {"run_at": datetime(2026, 7, 1)}),  # noqa: DTZ001
            ("priority", {"priority": 101}),
            ("payload", {"payload": {"at": NOON}}),
            ("dedup_key", {"dedup_key": "7"}),
            ("deadline", {"deadline": "soon"}),
            ("kind", {"kind": ""}),
        ]
        for field, options in bad:
            with self.subTest(**options), self.assertNumQueries(0):
                with self.assertRaises(InvalidJob) as caught:
                    schedule(**options)
                self.assertEqual(caught.exception.field.partition("[")[0], field)
        with self.assertRaisesMessage(InvalidJob, "name"), self.assertNumQueries(0):
            Job.objects.schedule("", KIND, every=60)


class SecondCallTests(TestCase):
    def test_the_same_call_again_changes_nothing_that_matters(self):
        first = schedule(run_at=NOON)
        again = schedule(run_at=NOON + 9 * HOUR)
        self.assertEqual(again.pk, first.pk)
        self.assertEqual((again.run_at, again.due_at), (NOON, NOON))

    def test_kind_payload_and_options_change(self):
        schedule(run_at=NOON, payload={"a": 1}, priority=5, missed="all")
        job = schedule(kind="other", payload={"b": 2}, queue="mail", missed="skip")
        found = (job.kind, job.payload, job.priority, job.queue, job.missed)
        self.assertEqual(found, ("other", {"b": 2}, 0, "mail", "skip"))
        self.assertEqual(job.due_at, NOON)

    def test_a_failed_attempt_keeps_its_place(self):
        schedule(run_at=NOON)
        job = claim()
        Job.objects.settle(job, Outcome(move="retry", reason="timeout", delay=60), NOON)
        job = schedule(priority=3)
        self.assertEqual((job.attempts, job.last_error), (1, "timeout"))
        self.assertEqual((job.run_at, job.due_at), (NOON + MINUTE, NOON))

    def test_a_running_occurrence_goes_on_and_then_follows_the_new_rhythm(self):
        schedule(run_at=NOON)
        job = claim()
        changed = schedule(every=MINUTE)
        self.assertEqual((changed.status, changed.lease_owner), ("running", "runner"))
        self.assertTrue(Job.objects.settle(job, Outcome(move="complete"), NOON))
        job.refresh_from_db()
        self.assertEqual(job.due_at, NOON + MINUTE)

    def test_a_new_rhythm_gives_a_new_due_time(self):
        schedule(every=HOUR, run_at=NOON)
        job = schedule(cron="0 3 * * *", timezone="UTC")
        self.assertEqual((job.interval, job.cron), (None, "0 3 * * *"))
        self.assertEqual((job.due_at.hour, job.due_at.minute), (3, 0))
        self.assertGreater(job.due_at, datetime.now(UTC))

    def test_a_deadline_follows_the_due_time(self):
        job = schedule(run_at=NOON, deadline=MINUTE)
        self.assertEqual(job.deadline, NOON + MINUTE)
        self.assertEqual(schedule(deadline=2 * MINUTE).deadline, NOON + 2 * MINUTE)
        self.assertIsNone(schedule().deadline)

    def test_a_deadline_that_changes_while_it_runs_holds_for_the_next_occurrence(self):
        for given, later in ((None, MINUTE), (MINUTE, None), (MINUTE, 2 * MINUTE)):
            with self.subTest(given=given, later=later):
                Job.objects.all().delete()
                schedule(run_at=NOON, deadline=given)
                job = claim()
                schedule(deadline=later)
                self.assertTrue(Job.objects.settle(job, Outcome(move="complete"), NOON))
                job.refresh_from_db()
                self.assertEqual(job.deadline, None if later is None else NOON + HOUR + later)

    def test_a_deadline_follows_an_occurrence_that_is_rescheduled(self):
        schedule(run_at=NOON, deadline=MINUTE)
        job = claim()
        outcome = Outcome(move="reschedule", run_at=NOON + 5 * HOUR)
        self.assertTrue(Job.objects.settle(job, outcome, NOON))
        job.refresh_from_db()
        self.assertEqual((job.due_at, job.deadline), (NOON + 5 * HOUR, NOON + 5 * HOUR + MINUTE))

    def test_a_schedule_that_ended_begins_again(self):
        first = schedule(run_at=NOON)
        self.assertTrue(Job.objects.unschedule("nightly"))
        job = schedule(run_at=NOON + HOUR)
        self.assertEqual((job.pk, job.status, job.finished_at), (first.pk, "ready", None))
        self.assertEqual((job.due_at, job.cancel_requested_at), (NOON + HOUR, None))
        self.assertEqual(claim(NOON + HOUR).pk, first.pk)

    def test_naming_it_again_takes_back_the_wish_to_stop(self):
        schedule(run_at=NOON)
        job = claim()
        self.assertTrue(Job.objects.unschedule("nightly"))
        schedule()
        self.assertTrue(Job.objects.settle(job, Outcome(move="complete"), NOON))
        job.refresh_from_db()
        self.assertEqual((job.status, job.due_at), ("ready", NOON + HOUR))


class UnscheduleTests(TestCase):
    def test_a_waiting_schedule_is_cancelled(self):
        schedule(run_at=NOON)
        self.assertTrue(Job.objects.unschedule("nightly"))
        self.assertEqual(Job.objects.get().status, "cancelled")
        self.assertEqual(Job.objects.claim("runner", now=NOON + HOUR), [])

    def test_there_is_nothing_to_end_twice(self):
        schedule()
        self.assertTrue(Job.objects.unschedule("nightly"))
        self.assertFalse(Job.objects.unschedule("nightly"))
        self.assertFalse(Job.objects.unschedule("none"))

    def test_a_plain_job_is_no_schedule(self):
        Job.objects.enqueue(KIND)
        with self.assertRaises(InvalidJob):
            Job.objects.unschedule("")
        self.assertEqual(Job.objects.get().status, "ready")
