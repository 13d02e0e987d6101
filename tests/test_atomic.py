"""Atomic handlers: their effects and the completion of their job commit together, or not at all."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, OperationalError, connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from django_sqlqueue import Abandon, Defer, Retry, execution
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.testing import run_jobs
from tests.handling import KIND, HandlingMixin
from tests.testapp.models import Effect

LATER = timedelta(hours=2)


def note(name: str) -> None:
    Effect.objects.create(name=name)


def elsewhere(work: Callable[[], Any]) -> Any:
    """Return work() as done on another connection."""
    returned: list[Any] = []

    def body() -> None:
        try:
            returned.append(work())
        except Exception as error:
            returned.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return returned[0]


def committed() -> tuple[list[str], str]:
    """Return what another connection sees: the names of the effects, and the job's status."""
    return elsewhere(
        lambda: (
            list(Effect.objects.order_by("id").values_list("name", flat=True)),
            Job.objects.order_by("id").values_list("status", flat=True)[0],
        )
    )


class Atomic(HandlingMixin):
    def run_atomic(self, function: Callable[[Job], Any], **options: Any) -> Job:
        return self.run_one(function, atomic=True, **options)

    def effects(self) -> list[str]:
        return list(Effect.objects.order_by("id").values_list("name", flat=True))

    def test_effects_and_completion_come_together(self):
        def works(job):
            note("effect")
            return "result"

        job = self.run_atomic(works)
        self.assertEqual((job.status, job.result, job.attempts), ("done", "result", 1))
        self.assertEqual(self.effects(), ["effect"])

    def test_a_failure_takes_the_effects_back(self):
        def fails(job):
            note("effect")
            Job.objects.enqueue("test.follow_up")
            raise ValueError

        job = self.run_atomic(fails)
        self.assertEqual((job.status, job.attempts, job.last_error), ("ready", 1, "ValueError"))
        self.assertEqual(self.effects(), [])
        self.assertEqual(Job.objects.count(), 1, "nor is what it enqueued")
        self.assertIn("fails", job.history.get().traceback)

    def test_steering_and_leaving_take_the_effects_back(self):
        cases: tuple[tuple[BaseException, str, int], ...] = (
            (Defer(60), "ready", 0),
            (Retry(60), "ready", 1),
            (Abandon("enough"), "failed", 1),
            (SystemExit(), "failed", 1),
        )
        for error, status, attempts in cases:
            with self.subTest(repr(error)):

                def ends(job, error=error):
                    note("effect")
                    raise error

                job = self.run_atomic(ends)
                self.assertEqual((job.status, job.attempts), (status, attempts))
                self.assertEqual(self.effects(), [])

    def test_the_transaction_is_open_while_it_runs(self):
        seen: list[bool] = []
        self.run_atomic(lambda job: seen.append(connection.in_atomic_block))
        self.assertEqual(seen, [True])

    def test_an_inner_block_may_be_rolled_back_alone(self):
        def nests(job):
            note("outer")
            try:
                with transaction.atomic():
                    note("inner")
                    raise ValueError
            except ValueError:
                note("after")

        self.assertEqual(self.run_atomic(nests).status, "done")
        self.assertEqual(self.effects(), ["outer", "after"])

    def test_a_swallowed_database_error_is_a_failure(self):
        def swallows(job):
            note("effect")
            try:
                Effect.objects.create(id=first.id, name="twice")
            except IntegrityError:
                return

        first = Effect.objects.create(name="first")
        job = self.run_atomic(swallows)
        self.assertEqual(job.status, "ready")
        self.assertEqual(job.last_error, "django.db.transaction.TransactionManagementError")
        self.assertEqual(self.effects(), ["first"])

    def test_a_rollback_that_the_handler_asks_for_is_a_failure(self):
        def asks(job):
            note("effect")
            transaction.set_rollback(True)

        job = self.run_atomic(asks)
        self.assertEqual(job.status, "ready")
        self.assertEqual(self.effects(), [])

    def test_blocks_that_it_leaves_open_are_rolled_back_and_the_rest_commits(self):
        def leaves(job):
            note("outer")
            transaction.atomic().__enter__()
            transaction.atomic().__enter__()
            note("inner")

        depth = len(connection.atomic_blocks)
        self.assertEqual(self.run_atomic(leaves).status, "done")
        self.assertEqual(self.effects(), ["outer"])
        self.assertEqual(len(connection.atomic_blocks), depth)

    def test_progress_and_result_are_stored_with_the_completion(self):
        def reports(job):
            job.report_progress(40, "half way")
            job.set_result({"n": 1})

        job = self.run_atomic(reports)
        self.assertEqual((job.status, job.result), ("done", {"n": 1}))

    def test_a_job_that_was_asked_to_stop_ends_as_cancelled_with_its_effects(self):
        def stops(job):
            note("effect")
            Job.objects.filter(pk=job.pk).cancel()

        self.assertEqual(self.run_atomic(stops).status, "cancelled")
        self.assertEqual(self.effects(), ["effect"])

    def test_a_deadline_that_has_passed_runs_nothing(self):
        self.handle(lambda job: note("effect"), atomic=True)
        self.enqueue(deadline=timezone.now() - LATER)
        self.assertEqual(self.run_one().last_error, "deadline_passed")
        self.assertEqual(self.effects(), [])

    def test_a_schedule_goes_on_together_with_its_effects(self):
        self.handle(lambda job: note("effect"), atomic=True)
        now = timezone.now()
        schedule = Job.objects.schedule("hourly", KIND, every=3600, run_at=now)
        self.assertEqual(run_jobs(now=now), 1)
        schedule.refresh_from_db()
        self.assertEqual(self.effects(), ["effect"])
        self.assertEqual(schedule.due_at, now + timedelta(hours=1))

    def test_a_claim_lost_before_it_began_changes_nothing(self):
        self.handle(lambda job: note("effect"), atomic=True)
        self.enqueue()
        job = Job.objects.claim_next("first")
        assert job is not None
        self.assertEqual(Job.objects.reclaim_expired(now=timezone.now() + LATER), 1)
        again = Job.objects.claim_next("second")
        assert again is not None
        with self.assertLogs("django_sqlqueue", "WARNING"):
            self.assertIsNone(execution.run(job))
        self.assertEqual(self.effects(), [])
        stored = Job.objects.get()
        self.assertEqual((stored.status, stored.lease_owner), ("running", "second"))
        self.assertTrue(again.complete("the second's"))


class AtomicInTestCase(Atomic, TestCase):
    def test_on_commit_runs_where_the_test_captures_it(self):
        ran: list[str] = []
        with self.captureOnCommitCallbacks(execute=True):
            self.run_atomic(lambda job: transaction.on_commit(lambda: ran.append("committed")))
        self.assertEqual(ran, ["committed"])


class AtomicInTransactionTestCase(Atomic, TransactionTestCase):
    def test_nobody_sees_the_effects_before_the_completion(self):
        def works(job):
            note("effect")
            seen.append(committed())

        seen: list[Any] = []
        self.run_atomic(works)
        self.assertEqual(seen, [([], "running")])
        self.assertEqual(committed(), (["effect"], "done"))

    def test_on_commit_callbacks_run_after_success_only(self):
        def works(job):
            transaction.on_commit(lambda: ran.append(committed()[1]))
            if job.payload:
                raise ValueError

        ran: list[str] = []
        self.handle(works, atomic=True)
        self.enqueue("fail")
        run_jobs(limit=1)
        self.assertEqual(ran, [])
        Job.objects.all().delete()
        self.enqueue()
        run_jobs()
        self.assertEqual(ran, ["done"])

    def test_a_commit_that_fails_is_a_failure_and_takes_the_effects_back(self):
        def breaks_the_commit(job):
            note("effect")
            # The foreign key of a deferred constraint is looked at when the transaction commits.
            Attempt.objects.create(job_id=job.id + 1000, number=1, outcome="done")

        job = self.run_atomic(breaks_the_commit)
        self.assertEqual((job.status, job.attempts), ("ready", 1))
        self.assertEqual(job.last_error, "django.db.utils.IntegrityError")
        self.assertEqual(committed(), ([], "ready"))
        self.assertFalse(connection.in_atomic_block)

    def test_what_the_history_says_commits_with_it_too(self):
        with override_settings(SQLQUEUE={"HISTORY": "all"}):
            job = self.run_atomic(lambda job: note("effect"))
        self.assertEqual(elsewhere(lambda: Attempt.objects.get().job_id), job.id)


LOSING: dict[str, Callable[[int], Any]] = {
    "reclaimed": lambda pk: Job.objects.reclaim_expired(now=timezone.now() + LATER),
    "reclaimed and claimed again": lambda pk: (
        Job.objects.reclaim_expired(now=timezone.now() + LATER),
        Job.objects.claim("another", kinds=[KIND]),
    ),
    "released and claimed by the same": lambda pk: (
        Job.objects.release_owned("runner"),
        Job.objects.claim("runner", kinds=[KIND]),
    ),
    "settled": lambda pk: Job.objects.get(pk=pk).complete("settled elsewhere"),
    "deleted": lambda pk: Job.objects.cancel_for_uri("file:///a"),
}


class LostClaimTests(HandlingMixin, TransactionTestCase):
    """Another connection ends the claim while the handler is in the middle of its work."""

    def setUp(self):
        super().setUp()
        self.enqueue({"uri": "file:///a"})
        job = Job.objects.claim_next("runner", kinds=[KIND])
        assert job is not None
        self.job = job

    def as_another_sees_it(self) -> Any:
        return elsewhere(lambda: list(Job.objects.values()))

    def test_the_effects_are_rolled_back_and_nothing_is_changed(self):
        if connection.vendor == "sqlite":
            self.skipTest("nobody else can write while the handler's transaction is open")
        for name, lose in LOSING.items():
            with self.subTest(name):
                Job.objects.all().delete()
                self.enqueue({"uri": "file:///a"})
                job = Job.objects.claim_next("runner", kinds=[KIND])
                assert job is not None
                rows: list[Any] = []

                def works(job, lose=lose, rows=rows):
                    note("effect")
                    lost = elsewhere(lambda: lose(job.pk))
                    self.assertNotIsInstance(lost, Exception, lost)
                    rows.append(self.as_another_sees_it())
                    return "too late"

                self.handle(works, atomic=True)
                with self.assertLogs("django_sqlqueue", "WARNING") as logs:
                    self.assertIsNone(execution.run(job))
                self.assertIn("lost its claim", logs.output[0])
                self.assertEqual(Effect.objects.count(), 0)
                self.assertEqual([self.as_another_sees_it()], rows)

    def test_a_failure_after_the_claim_was_lost_changes_nothing_either(self):
        if connection.vendor == "sqlite":
            self.skipTest("nobody else can write while the handler's transaction is open")
        rows: list[Any] = []

        def fails(job):
            note("effect")
            elsewhere(lambda: LOSING["reclaimed and claimed again"](job.pk))
            rows.append(self.as_another_sees_it())
            raise ValueError

        self.handle(fails, atomic=True)
        self.assertIsNone(execution.run(self.job))
        self.assertEqual(Effect.objects.count(), 0)
        self.assertEqual([self.as_another_sees_it()], rows)
        self.assertEqual(Attempt.objects.filter(outcome="retried").count(), 0)

    def test_where_one_writer_locks_all_others_out_the_claim_cannot_be_lost(self):
        if connection.vendor != "sqlite":
            self.skipTest("other connections can write while the handler's transaction is open")
        refused: list[Any] = []

        def impatiently() -> Any:
            with connection.cursor() as cursor:
                cursor.execute("PRAGMA busy_timeout=20")
            return Job.objects.reclaim_expired(now=timezone.now() + LATER)

        def works(job):
            note("effect")
            refused.append(elsewhere(impatiently))

        self.handle(works, atomic=True)
        self.assertIsNone(execution.run(self.job))
        self.assertIsInstance(refused[0], OperationalError)
        self.assertEqual(committed(), (["effect"], "done"))
