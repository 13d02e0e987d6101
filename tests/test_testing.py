"""run_jobs: what is due, in this process, with the clock that a test gives."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from django_sqlqueue import Backoff, Defer
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.testing import run_jobs
from tests.handling import KIND, HandlingMixin, looking, raiser

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


class RunJobs(HandlingMixin):
    def test_it_runs_what_is_due_and_counts_the_attempts(self):
        self.handle(lambda job: None)
        for _ in range(3):
            self.enqueue()
        self.enqueue(delay=60)
        self.assertEqual(run_jobs(), 3)
        self.assertEqual(run_jobs(), 0)
        self.assertEqual(Job.objects.stats()["ready"], 1)

    def test_it_runs_them_by_priority_time_and_id(self):
        seen: list[Any] = []
        self.handle(looking(seen, "payload"))
        past = timezone.now() - HOUR
        for number, options in enumerate(
            (
                {"priority": -1, "run_at": past - HOUR},
                {"run_at": past},
                {"run_at": past},
                {"run_at": past - HOUR},
                {"priority": 1},
            )
        ):
            self.enqueue(number, **options)
        run_jobs()
        self.assertEqual([payload for (payload,) in seen], [4, 3, 1, 2, 0])

    def test_equals_run_in_the_order_of_their_insertion(self):
        seen: list[Any] = []
        self.handle(looking(seen, "payload"))
        Job.objects.enqueue_many((KIND, number) for number in range(120))
        self.assertEqual(run_jobs(), 120)
        self.assertEqual([payload for (payload,) in seen], list(range(120)))

    def test_at_most_limit_attempts(self):
        self.handle(lambda job: None)
        for _ in range(3):
            self.enqueue()
        self.assertEqual(run_jobs(limit=2), 2)
        self.assertEqual(run_jobs(limit=0), 0)
        self.assertEqual(run_jobs(limit=5), 1)

    def test_only_the_kinds_and_queues_that_are_asked_for(self):
        self.handle(lambda job: None, "test.one")
        self.handle(lambda job: None, "test.two")
        for kind in ("test.one", "test.two"):
            for queue in ("default", "mail"):
                self.enqueue(kind=kind, queue=queue)
        self.assertEqual(run_jobs(kinds=["test.one"], queues=["mail"]), 1)
        self.assertEqual(run_jobs(queues=["mail"]), 1)
        self.assertEqual(run_jobs(kinds=[]), 0)
        self.assertEqual(run_jobs(kinds=(kind for kind in ["test.two"])), 1)
        self.assertEqual(run_jobs(), 1)

    def test_jobs_that_are_enqueued_meanwhile_run_too(self):
        def enqueues(job):
            if job.payload:
                Job.objects.enqueue(KIND, job.payload - 1)

        self.handle(enqueues)
        self.enqueue(3)
        self.assertEqual(run_jobs(), 4)

    def test_a_handler_may_enqueue_its_own_key_only_once_it_has_ended(self):
        tried: list[Any] = []
        self.handle(lambda job: tried.append(Job.objects.enqueue(KIND, dedup_key="one")))
        self.enqueue(dedup_key="one")
        self.assertEqual(run_jobs(), 1)
        self.assertEqual(tried, [None], "the running job holds its key")
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="one"))

    def test_unknown_kinds_are_left_alone_by_default(self):
        self.enqueue(kind="test.nobody")
        self.assertEqual(run_jobs(), 0)
        self.assertEqual(Job.objects.get().status, "ready")

    def test_unknown_kinds_fail_where_the_settings_say_so(self):
        self.enqueue(kind="test.nobody")
        with override_settings(SQLQUEUE={"UNKNOWN_KINDS": "fail"}):
            self.assertEqual(run_jobs(), 1)
        job = Job.objects.get()
        self.assertEqual((job.status, job.last_error), ("failed", "no_handler"))

    def test_bad_arguments_are_refused(self):
        with self.assertRaises(InvalidJob):
            run_jobs(kinds="test.one")
        with self.assertRaises(InvalidJob):
            run_jobs(now=datetime(2026, 1, 1))  # noqa: DTZ001

    def test_every_time_it_writes_is_computed_from_now(self):
        def reports(job):
            job.report_progress(50)
            raise ValueError

        self.handle(reports, backoff=Backoff(600, jitter=0))
        self.enqueue(run_at=NOON - HOUR)
        self.assertEqual(run_jobs(), 0)
        self.assertEqual(run_jobs(now=NOON), 1)
        job = Job.objects.get()
        self.assertEqual(job.started_at, NOON)
        self.assertEqual(job.run_at, NOON + timedelta(minutes=10))
        self.assertEqual(job.updated_at, NOON)
        attempt = Attempt.objects.get()
        self.assertEqual((attempt.started_at, attempt.ended_at), (NOON, NOON))
        self.handle(lambda job: None)
        self.assertEqual(run_jobs(now=NOON), 0)
        self.assertEqual(run_jobs(now=NOON + HOUR), 1)
        job.refresh_from_db()
        self.assertEqual((job.status, job.finished_at), ("done", NOON + HOUR))

    def test_a_deferral_is_counted_from_now(self):
        self.handle(raiser(Defer(600)))
        self.enqueue(run_at=NOON)
        run_jobs(now=NOON)
        self.assertEqual(Job.objects.get().run_at, NOON + timedelta(minutes=10))

    def test_a_deadline_is_judged_by_now(self):
        self.handle(lambda job: None)
        self.enqueue(run_at=NOON, deadline=NOON + HOUR)
        self.enqueue(run_at=NOON, deadline=NOON - HOUR)
        self.assertEqual(run_jobs(now=NOON), 2)
        self.assertEqual(
            list(Job.objects.order_by("id").values_list("status", flat=True)), ["done", "failed"]
        )


class RunJobsInTestCase(RunJobs, TestCase):
    def test_it_runs_inside_the_callers_transaction_and_rolls_back_with_it(self):
        self.handle(lambda job: None)
        with transaction.atomic():
            self.enqueue()
            self.assertEqual(run_jobs(), 1)
            transaction.set_rollback(True)
        self.assertEqual(Job.objects.count(), 0)


class RunJobsInTransactionTestCase(RunJobs, TransactionTestCase):
    def test_a_job_whose_transaction_rolls_back_never_runs(self):
        self.handle(lambda job: None)
        with transaction.atomic():
            self.enqueue()
            with transaction.atomic():
                self.enqueue()
                transaction.set_rollback(True)
        self.assertEqual(run_jobs(), 1)


class SchedulesTests(HandlingMixin, TestCase):
    """Recurring jobs, driven by the clock of the test."""

    def setUp(self):
        super().setUp()
        self.seen: list[datetime] = []
        self.handle(lambda job: self.seen.append(job.due_at))

    def schedule(self, **options: Any) -> Job:
        return Job.objects.schedule("hourly", KIND, every=HOUR, run_at=NOON, **options)

    def run_at(self, now: datetime) -> Job:
        run_jobs(now=now)
        return Job.objects.get()

    def test_it_runs_when_it_is_due_and_goes_on_to_the_next_time(self):
        self.schedule()
        self.assertEqual(run_jobs(now=NOON - HOUR), 0)
        job = self.run_at(NOON + timedelta(minutes=10))
        self.assertEqual((job.status, job.attempts), ("ready", 0))
        self.assertEqual((job.due_at, job.run_at), (NOON + HOUR, NOON + HOUR))
        self.assertEqual(self.seen, [NOON])

    def test_missed_once_is_one_run_for_all_of_them(self):
        self.schedule()
        with self.assertLogs("django_sqlqueue", "WARNING"):
            job = self.run_at(NOON + 4 * DAY + timedelta(minutes=10))
        self.assertEqual(self.seen, [NOON])
        self.assertEqual(job.due_at, NOON + 4 * DAY + HOUR)
        self.assertEqual(job.missed_count, 96)

    def test_missed_all_is_a_run_for_each_of_them(self):
        self.schedule(missed="all")
        job = self.run_at(NOON + 5 * HOUR)
        self.assertEqual(self.seen, [NOON + number * HOUR for number in range(6)])
        self.assertEqual((job.due_at, job.missed_count), (NOON + 6 * HOUR, 0))

    def test_missed_skip_runs_none_of_them_but_the_one_that_is_still_in_time(self):
        self.schedule(missed="skip")
        with self.assertLogs("django_sqlqueue", "WARNING"):
            job = self.run_at(NOON + 5 * HOUR + timedelta(minutes=10))
        self.assertEqual(self.seen, [NOON + 5 * HOUR])
        self.assertEqual((job.due_at, job.missed_count), (NOON + 6 * HOUR, 5))

    def test_retries_do_not_move_the_grid_and_a_spent_budget_does_not_end_it(self):
        self.handle(raiser(ValueError()), max_attempts=2, backoff=Backoff(600, jitter=0))
        self.schedule()
        job = self.run_at(NOON)
        self.assertEqual((job.due_at, job.run_at), (NOON, NOON + timedelta(minutes=10)))
        job = self.run_at(NOON + timedelta(minutes=10))
        self.assertEqual((job.status, job.attempts, job.last_error), ("ready", 0, "ValueError"))
        self.assertEqual(job.due_at, NOON + HOUR)
        self.handle(lambda job: None)
        job = self.run_at(NOON + HOUR)
        self.assertEqual((job.last_error, job.due_at), ("", NOON + 2 * HOUR))

    def test_a_cron_schedule_follows_the_clock_on_the_wall(self):
        Job.objects.schedule(
            "nightly", KIND, cron="30 2 * * *", timezone="Europe/Berlin", run_at=NOON
        )
        job = self.run_at(NOON)
        self.assertEqual(job.due_at, datetime(2031, 5, 2, 0, 30, tzinfo=UTC))

    def test_its_deadline_moves_with_it(self):
        self.schedule(deadline=timedelta(minutes=5))
        job = self.run_at(NOON + timedelta(minutes=10))
        self.assertEqual((self.seen, job.last_error), ([], "deadline_passed"))
        self.assertEqual((job.status, job.due_at), ("ready", NOON + HOUR))
        self.assertEqual(job.deadline, NOON + HOUR + timedelta(minutes=5))

    def test_a_schedule_that_is_cancelled_while_it_runs_ends(self):
        self.handle(lambda job: Job.objects.filter(pk=job.pk).cancel())
        self.schedule()
        self.assertEqual(self.run_at(NOON).status, "cancelled")
        self.assertEqual(run_jobs(now=NOON + DAY), 0)
