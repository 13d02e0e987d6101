"""Bad input is refused before any SQL, with a sentence that names the field, on every engine."""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone

from django_sqlqueue import Abandon, Defer, NewJob, Retry
from django_sqlqueue.exceptions import InvalidJob, SqlQueueError
from django_sqlqueue.models import Job

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
NAIVE = datetime(2026, 7, 1, 12)  # noqa: DTZ001

BAD_TEXT = {
    "NUL": "a\x00b",
    "a lone surrogate": "a\ud800",
    "a number": 5,
    "bytes": b"text",
    "a list": ["text"],
}
BAD_DURATION = {
    "negative": -1,
    "a negative timedelta": timedelta(seconds=-1),
    "not a number": math.nan,
    "infinite": math.inf,
    "over a century": 1e12,
    "the longest timedelta": timedelta.max,
    "a text": "5",
    "a truth value": True,
    "a datetime": NOW,
}
BAD_INSTANT = {
    "naive": NAIVE,
    "the last naive instant": datetime.max,  # noqa: DTZ901
    "the last instant": datetime.max.replace(tzinfo=UTC),
    "the first instant": datetime.min.replace(tzinfo=UTC),
    "out of range once in UTC": datetime.max.replace(tzinfo=ZoneInfo("America/New_York")),
    "the year 999": datetime(999, 1, 1, tzinfo=UTC),
    "a date": date(2026, 7, 1),
    "a time": time(12),
    "a text": "2026-07-01T12:00:00Z",
    "seconds": 1_790_000_000,
}
# What enqueue must refuse, by field.
BAD: dict[str, dict[str, Any]] = {
    "kind": {**BAD_TEXT, "empty": "", "None": None, "201 characters": "k" * 201},
    "dedup_key": {**BAD_TEXT, "empty": "", "256 characters": "🐘" * 256},
    "ref": {**BAD_TEXT, "None": None, "256 characters": "r" * 256},
    "queue": {**BAD_TEXT, "empty": "", "101 characters": "q" * 101},
    "priority": {"101": 101, "-101": -101, "a fraction": 1.5, "a text": "1", "2**70": 2**70},
    "max_attempts": {"0": 0, "-1": -1, "a fraction": 2.5, "a text": "3", "too large": 10**10},
    "run_at": {**BAD_INSTANT, "a timedelta": timedelta(1)},
    "delay": BAD_DURATION,
    "deadline": {
        **{name: bad for name, bad in BAD_INSTANT.items() if name != "a time"},
        "a negative timedelta": timedelta(-1),
        "the longest timedelta": timedelta.max,
    },
    "payload": {
        "not a number": {"n": math.nan},
        "NUL": ["a\x00"],
        "a lone surrogate": "\udcff",
        "a set": {1},
        "a datetime": NOW,
        "number keys": {1: "a"},
        "an object": object(),
    },
}


def cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for field, values in BAD.items():
        for name, value in values.items():
            yield f"{field}: {name}", field, {"kind": "test.input", field: value}
    both = {"kind": "test.input", "run_at": NOW, "delay": 5}
    yield "run_at with delay", "run_at", both
    yield "run_at with no delay at all", "run_at", {**both, "delay": 0}


class EnqueueTests(TestCase):
    def assert_refused(self, field: str, call: Callable[[], object]) -> InvalidJob:
        """The call is refused without SQL, and the transaction around it goes on."""
        with transaction.atomic():
            with self.assertNumQueries(0), self.assertRaises(InvalidJob) as caught:
                call()
            self.assertIsNotNone(Job.objects.enqueue("test.after"))
        self.assertEqual(Job.objects.filter(kind="test.after").delete()[0], 1)
        self.assertEqual(Job.objects.count(), 0)
        self.assertEqual(caught.exception.field.partition("[")[0], field)
        self.assertRegex(str(caught.exception), rf"^{field}\S* .+\.$")
        return caught.exception

    def test_enqueue_refuses_it(self):
        for name, field, arguments in cases():
            with self.subTest(name):
                self.assert_refused(field, lambda given=arguments: Job.objects.enqueue(**given))

    def test_enqueue_many_refuses_it_whole(self):
        for name, field, arguments in cases():
            with self.subTest(name):
                jobs = [NewJob("test.good"), NewJob(**arguments), NewJob("test.good")]
                self.assert_refused(field, lambda given=jobs: Job.objects.enqueue_many(given))

    def test_schedule_refuses_it(self):
        for name, field, arguments in cases():
            if field in ("dedup_key", "delay") or "delay" in arguments or field == "deadline":
                continue
            with self.subTest(name):
                self.assert_refused(
                    field,
                    lambda given=arguments: Job.objects.schedule("nightly", every=60, **given),
                )

    def test_schedule_refuses_its_own_arguments(self):
        good: dict[str, Any] = {"name": "nightly", "kind": "test.input", "every": 60}
        bad: dict[str, dict[str, Any]] = {
            "name": {**BAD_TEXT, "empty": "", "None": None, "201 characters": "n" * 201},
            "every": {**BAD_DURATION, "zero": 0, "less than a millisecond": 0.0005},
            "deadline": {"an instant": NOW, "a negative timedelta": timedelta(-1)},
            "missed": {"another word": "never", "None": None, "a list": ["once"]},
            "dedup_key": {"at all": "key"},
            "delay": {"at all": 5},
        }
        for field, values in bad.items():
            for name, value in values.items():
                with self.subTest(f"{field}: {name}"):
                    given = {**good, field: value}
                    self.assert_refused(field, lambda given=given: Job.objects.schedule(**given))

    def test_schedule_refuses_a_wrong_rhythm(self):
        crons: dict[str, Any] = {
            "empty": "",
            "blank": "  ",
            "four fields": "0 0 * *",
            "six fields": "0 0 0 * * *",
            "out of range": "61 0 * * *",
            "nonsense": "a b c d e",
            "a day that never comes": "0 0 31 2 *",
            "a number": 5,
            "very long": f"{','.join(['0'] * 200)} 0 * * *",
        }
        zones = {
            "unknown": "Mars/Olympus",
            "empty": "",
            "a path": "../../etc/passwd",
            "a number": 5,
        }
        for name, cron in crons.items():
            with self.subTest(f"cron: {name}"):
                self.assert_refused("cron", lambda cron=cron: schedule(cron=cron))
        for name, zone in zones.items():
            with self.subTest(f"timezone: {name}"):
                self.assert_refused("timezone", lambda zone=zone: schedule(every=60, timezone=zone))
                self.assert_refused(
                    "timezone", lambda zone=zone: schedule(cron="0 0 * * *", timezone=zone)
                )
        with self.subTest("neither"):
            self.assert_refused("every", schedule)
        with self.subTest("both"):
            self.assert_refused("every", lambda: schedule(every=60, cron="0 0 * * *"))

    def test_a_queue_that_the_settings_do_not_list_is_refused(self):
        with override_settings(SQLQUEUE={"QUEUES": ["default", "mail"]}):
            error = self.assert_refused(
                "queue", lambda: Job.objects.enqueue("test.input", queue="mial")
            )
            self.assertIn("'mial'", str(error))
            self.assertIsNotNone(Job.objects.enqueue("test.input", queue="mail"))

    def test_other_verbs_refuse_bad_input_too(self):
        objects = Job.objects
        calls: list[tuple[str, Callable[[], object]]] = [
            ("owner", lambda: objects.claim("")),
            ("owner", lambda: objects.claim("o" * 201)),
            ("owner", lambda: objects.claim("a\x00")),
            ("lease", lambda: objects.claim("runner", lease=-1)),
            ("lease", lambda: objects.claim("runner", lease=math.nan)),
            ("limit", lambda: objects.claim("runner", limit=0)),
            ("limit", lambda: objects.claim("runner", limit=1.5)),
            ("kinds", lambda: objects.claim("runner", kinds="one.kind")),
            ("queues", lambda: objects.claim("runner", queues="mail")),
            ("now", lambda: objects.claim("runner", now=NAIVE)),
            ("now", lambda: objects.reclaim_expired(now=NAIVE)),
            ("kinds", lambda: objects.next_due(kinds="one.kind")),
            ("before", lambda: objects.cleanup(NAIVE)),
            ("statuses", lambda: objects.cleanup(NOW, statuses=["ready"])),
            ("uri", lambda: objects.for_uri("")),
            ("uri", lambda: objects.for_uri(None)),
            ("uri", lambda: objects.cancel_for_uri("")),
            ("uri", lambda: objects.cancel_for_uri("a\x00")),
            ("limit", lambda: objects.detail(-1)),
            ("ref", lambda: objects.for_ref("")),
        ]
        for number, (field, call) in enumerate(calls):
            with self.subTest(f"{number}: {field}"):
                self.assert_refused(field, call)

    def test_settling_refuses_bad_input_and_keeps_the_claim(self):
        objects = Job.objects
        objects.enqueue("test.input")
        job = objects.claim_next("runner")
        assert job is not None
        calls: list[tuple[str, Callable[[], object]]] = [
            ("delay", lambda: job.defer(-1)),
            ("run_at", lambda: job.retry(NAIVE, "reason")),
            ("run_at", lambda: job.reschedule(NAIVE)),
            ("lease", lambda: job.renew(math.inf)),
            ("percent", lambda: job.report_progress(101)),
            ("percent", lambda: job.report_progress(math.nan)),
            ("percent", lambda: job.report_progress(True)),
        ]
        for number, (field, call) in enumerate(calls):
            with self.subTest(f"{number}: {field}"):
                with self.assertNumQueries(0), self.assertRaises(InvalidJob) as caught:
                    call()
                self.assertEqual(caught.exception.field, field)
        self.assertTrue(job.complete())


class AcceptedTests(TestCase):
    """What looks odd and is right."""

    def test_a_time_in_the_past_is_due_now(self):
        Job.objects.enqueue("test.input", run_at=datetime(1970, 1, 1, tzinfo=UTC))
        self.assertIsNotNone(Job.objects.claim_next("runner"))

    def test_the_last_and_first_times_that_fit_sort_and_come_back(self):
        for instant in (datetime(9998, 12, 31, tzinfo=UTC), datetime(1000, 1, 2, tzinfo=UTC)):
            Job.objects.enqueue("test.input", run_at=instant, deadline=instant)
        first, last = Job.objects.order_by("run_at")
        self.assertEqual((first.run_at.year, last.run_at.year), (1000, 9998))
        self.assertEqual(last.deadline, last.run_at)

    def test_both_meanings_of_a_repeated_hour_are_kept_apart(self):
        zone = ZoneInfo("America/New_York")
        runs = [datetime(2026, 11, 1, 1, 30, tzinfo=zone, fold=fold) for fold in (0, 1)]
        jobs = [Job.objects.enqueue("test.input", run_at=run) for run in runs]
        stored = [Job.objects.get(pk=job.pk).run_at for job in jobs if job]
        self.assertEqual(stored[1] - stored[0], timedelta(hours=1))

    def test_a_time_in_the_skipped_hour_is_the_instant_that_python_makes_of_it(self):
        run_at = datetime(2026, 3, 8, 2, 30, tzinfo=ZoneInfo("America/New_York"))
        job = Job.objects.enqueue("test.input", run_at=run_at)
        assert job is not None
        self.assertEqual(job.run_at, run_at.astimezone(UTC))

    def test_a_delay_is_seconds_or_a_timedelta(self):
        before = timezone.now()
        for delay in (90, 90.0, timedelta(seconds=90)):
            job = Job.objects.enqueue("test.input", delay=delay)
            assert job is not None
            self.assertAlmostEqual((job.run_at - before).total_seconds(), 90, delta=5)

    def test_a_deadline_is_an_instant_or_a_timedelta_from_now(self):
        before = timezone.now()
        for deadline in (before + timedelta(minutes=5), timedelta(minutes=5)):
            job = Job.objects.enqueue("test.input", deadline=deadline)
            assert job is not None
            assert job.deadline is not None
            self.assertAlmostEqual((job.deadline - before).total_seconds(), 300, delta=5)

    def test_bounds_are_within(self):
        for options in ({"priority": 100}, {"priority": -100}, {"max_attempts": 1_000_000_000}):
            self.assertIsNotNone(Job.objects.enqueue("test.input", **options))


class SteeringTests(SimpleTestCase):
    """A handler that steers its job with nonsense fails like any other."""

    def test_a_wrong_delay_is_refused_where_it_is_written(self):
        for name, delay in BAD_DURATION.items():
            with self.subTest(name):
                with self.assertRaises(InvalidJob) as caught:
                    Defer(delay)
                self.assertEqual(caught.exception.field, "delay")
                with self.assertRaises(InvalidJob):
                    Retry(delay)

    def test_steering_is_no_error_of_the_input(self):
        for steering in (Defer(), Retry(), Abandon("reason")):
            self.assertIsInstance(steering, SqlQueueError)
            self.assertNotIsInstance(steering, ValueError)

    def test_an_invalid_job_is_a_value_error(self):
        self.assertTrue(issubclass(InvalidJob, ValueError))


def schedule(**rhythm: Any) -> Job:
    return Job.objects.schedule("nightly", "test.input", **rhythm)
