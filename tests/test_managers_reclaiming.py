"""Taking back what lost runners held: by the lease, by the owner, or all of it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from django.db import IntegrityError, OperationalError, connection
from django.test import TestCase

from django_sqlqueue import NewJob
from django_sqlqueue.models import Attempt, Job, Worker

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
LEASE = timedelta(seconds=30)
OVER = NOON + LEASE
KIND = "shop.send_receipt"


def run(owner: str = "runner", **options: Any) -> Job:
    """Enqueue a job and claim it at noon."""
    job = Job.objects.enqueue(KIND, **{"run_at": NOON, **options})
    assert job is not None
    (claim,) = Job.objects.claim(owner, now=NOON, lease=LEASE)
    assert claim.id == job.id
    return claim


def refusing(job: Job | None, error: type[Exception] = IntegrityError) -> Any:
    """Return a wrapper in which the database refuses to end this job's claim, or any."""

    def execute(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "SET finished_at" in sql:
            values = [
                v for param in params for v in (param if isinstance(param, list) else [param])
            ]
            if job is None or job.id in values:
                raise error("refused by the test")
        return execute(sql, params, many, context)

    return execute


def attempts_of(job: Job) -> list[tuple[int, str, str, str]]:
    rows = Attempt.objects.filter(job=job)
    return list(rows.values_list("number", "runner", "outcome", "reason"))


class ReclaimTests(TestCase):
    def test_a_job_whose_lease_is_over_is_ready_at_once(self):
        job = run()
        self.assertEqual(Job.objects.reclaim_expired(OVER), 1)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts, job.claims), ("ready", 1, 1))
        self.assertEqual((job.lease_owner, job.lease_until), (None, None))
        self.assertEqual(job.last_error, "lease_expired")
        (again,) = Job.objects.claim("other", now=OVER)
        self.assertEqual((again.attempts, again.claims), (2, 2))

    def test_a_lease_that_is_not_over_is_left_alone(self):
        job = run()
        self.assertEqual(Job.objects.reclaim_expired(OVER - TICK), 0)
        self.assertTrue(job.complete())

    def test_a_lease_that_was_renewed_is_left_alone(self):
        job = run()
        Job.objects.renew([job], LEASE, now=NOON + TICK)
        self.assertEqual(Job.objects.reclaim_expired(OVER), 0)
        self.assertEqual(Job.objects.reclaim_expired(OVER + TICK), 1)

    def test_a_row_that_the_database_refuses_holds_up_none_behind_it(self):
        jobs = [run(f"runner {n}") for n in range(5)]
        with (
            mock.patch("django_sqlqueue.managers.claiming.BATCH", 2),
            connection.execute_wrapper(refusing(jobs[1])),
            self.assertLogs("django_sqlqueue", "ERROR") as logged,
        ):
            self.assertEqual(Job.objects.reclaim_expired(OVER), 4)
            self.assertEqual(Job.objects.reclaim_expired(OVER), 0)
        self.assertEqual(len(logged.records), 1, "it is told once")
        self.assertIn(f"Job {jobs[1].id} ", logged.output[0])
        self.assertEqual([job.pk for job in Job.objects.filter(status="running")], [jobs[1].pk])
        self.assertEqual(Job.objects.reclaim_expired(OVER), 1)

    def test_a_fault_of_the_moment_ends_the_sweep(self):
        run()
        with (
            connection.execute_wrapper(refusing(None, OperationalError)),
            self.assertRaises(OperationalError),
        ):
            Job.objects.reclaim_expired(OVER)

    def test_without_now_the_databases_clock_is_used(self):
        for lease in (0, 60):
            Job.objects.enqueue(KIND)
            Job.objects.claim("runner", lease=lease)
        self.assertEqual(Job.objects.reclaim_expired(), 1)
        self.assertEqual(Job.objects.stats()["running"], 1)

    def test_the_row_alone_tells_whatever_is_known_of_its_worker(self):
        self.assertFalse(Worker.objects.exists())
        run("a runner nobody knows")
        self.assertEqual(Job.objects.reclaim_expired(OVER), 1)

    def test_a_job_whose_attempts_are_spent_ends_failed_and_frees_its_key(self):
        job = run(max_attempts=1, dedup_key="7")
        self.assertEqual(Job.objects.reclaim_expired(OVER), 1)
        job.refresh_from_db()
        self.assertEqual((job.status, job.last_error), ("failed", "lease_expired"))
        self.assertEqual((job.attempts, job.finished_at), (1, OVER))
        self.assertEqual((job.lease_owner, job.lease_until), (None, None))
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))

    def test_a_job_that_always_kills_its_worker_stops(self):
        job = Job.objects.enqueue(KIND, run_at=NOON, max_attempts=3)
        now, claims = NOON, 0
        while Job.objects.claim("runner", now=now, lease=LEASE):
            claims += 1
            now += LEASE
            self.assertEqual(Job.objects.reclaim_expired(now), 1)
        job.refresh_from_db()
        self.assertEqual((claims, job.status, job.last_error), (3, "failed", "lease_expired"))
        self.assertEqual(
            attempts_of(job), [(n, "runner", "lost", "lease_expired") for n in (1, 2, 3)]
        )

    def test_a_job_that_was_asked_to_stop_ends_cancelled(self):
        job = run()
        Job.objects.filter(pk=job.pk).cancel()
        self.assertEqual(Job.objects.reclaim_expired(OVER), 1)
        job.refresh_from_db()
        self.assertEqual((job.status, job.finished_at), ("cancelled", OVER))

    def test_hundreds_are_taken_back_in_one_call(self):
        Job.objects.enqueue_many([NewJob(KIND, run_at=NOON)] * 450)
        Job.objects.claim("runner", limit=450, now=NOON, lease=LEASE)
        self.assertEqual(Job.objects.reclaim_expired(OVER), 450)
        self.assertEqual(Job.objects.stats()["ready"], 450)
        self.assertEqual(Attempt.objects.filter(outcome="lost").count(), 450)

    def test_a_schedule_whose_attempts_are_spent_goes_on(self):
        Job.objects.schedule("nightly", KIND, every=60, run_at=NOON, max_attempts=1)
        Job.objects.claim("runner", now=NOON, lease=LEASE)
        self.assertEqual(Job.objects.reclaim_expired(OVER), 1)
        schedule = Job.objects.get(name="nightly")
        self.assertEqual((schedule.status, schedule.attempts), ("ready", 0))
        self.assertEqual(schedule.run_at, NOON + timedelta(minutes=1))
        self.assertEqual(schedule.last_error, "lease_expired")


class ReleaseTests(TestCase):
    def test_what_the_owner_holds_is_ready_with_its_attempt_given_back(self):
        job = run()
        self.assertEqual(Job.objects.release_owned("runner"), 1)
        job.refresh_from_db()
        self.assertEqual((job.status, job.attempts, job.claims), ("ready", 0, 1))
        self.assertEqual((job.lease_owner, job.last_error), (None, ""))
        self.assertEqual([job.id for job in Job.objects.claim("other", now=NOON)], [job.id])

    def test_other_owners_keep_theirs(self):
        run("one"), run("two")
        self.assertEqual(Job.objects.release_owned("one"), 1)
        self.assertEqual(Job.objects.filter(status="running").get().lease_owner, "two")
        self.assertEqual(Job.objects.release_owned("none"), 0)

    def test_the_reason_of_an_earlier_failure_stays(self):
        job = run()
        job.retry(NOON, "timeout")
        Job.objects.claim("runner", now=NOON)
        Job.objects.release_owned("runner")
        job.refresh_from_db()
        self.assertEqual((job.last_error, job.attempts), ("timeout", 1))

    def test_a_released_attempt_leaves_no_history_of_failure(self):
        job = run()
        Job.objects.release_owned("runner")
        self.assertEqual(attempts_of(job), [])

    def test_a_job_that_was_asked_to_stop_ends_cancelled(self):
        job = run()
        Job.objects.filter(pk=job.pk).cancel()
        self.assertEqual(Job.objects.release_owned("runner"), 1)
        job.refresh_from_db()
        self.assertEqual(job.status, "cancelled")


class DeadRunnerTests(TestCase):
    def test_what_a_dead_runner_held_is_taken_back_before_its_lease_ends(self):
        left, spent, other = run("dead"), run("dead", max_attempts=1), run("alive")
        self.assertEqual(Job.objects.reclaim_owned("dead"), 2)
        statuses = dict(Job.objects.values_list("id", "status"))
        self.assertEqual(statuses, {left.id: "ready", spent.id: "failed", other.id: "running"})
        left.refresh_from_db()
        self.assertEqual(left.attempts, 1)


class ResetTests(TestCase):
    def test_every_running_job_is_ready_or_failed_when_spent(self):
        left, spent = run("one"), run("two", max_attempts=1)
        waiting = Job.objects.enqueue(KIND, run_at=NOON)
        self.assertEqual(Job.objects.reset_running(), 2)
        for job, status, attempts in ((left, "ready", 1), (spent, "failed", 1)):
            job.refresh_from_db()
            self.assertEqual(
                (job.status, job.attempts, job.last_error), (status, attempts, "reset")
            )
            self.assertIsNone(job.lease_owner)
        waiting.refresh_from_db()
        self.assertEqual((waiting.status, waiting.last_error), ("ready", ""))

    def test_only_the_jobs_of_a_queryset_are_reset(self):
        one, two = run(queue="one"), run(queue="two")
        self.assertEqual(Job.objects.filter(queue="one").reset_running(), 1)
        self.assertFalse(one.complete())
        self.assertTrue(two.complete())
