"""What a handler leaves behind reaches neither its own settlement nor the next job."""

import contextvars
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone, translation

from django_sqlqueue.isolation import check_before_use
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.handling import HandlingMixin, raiser
from tests.testapp.models import Effect

LEFT = contextvars.ContextVar("LEFT", default="nothing")

NO_ZERO = "INSERT INTO tests_no_such_table VALUES (0)"


def note(name: str) -> None:
    Effect.objects.create(name=name)


def leaves_autocommit_off(job: Job) -> None:
    connection.set_autocommit(False)
    note("left open")


def leaves_an_atomic_block(job: Job) -> None:
    transaction.atomic().__enter__()
    note("left open")


def leaves_two_atomic_blocks(job: Job) -> None:
    transaction.atomic().__enter__()
    transaction.atomic().__enter__()
    note("left open")


def leaves_a_transaction_of_its_own_sql(job: Job) -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
    note("left open")


def leaves_a_broken_block(job: Job) -> None:
    transaction.atomic().__enter__()
    note("left open")
    with connection.cursor() as cursor:
        try:
            cursor.execute(NO_ZERO)
        except DatabaseError:
            return


def closes_its_connection(job: Job) -> None:
    note("kept")
    connection.close()


LEAVING: dict[Callable[[Job], None], list[str]] = {
    leaves_autocommit_off: [],
    leaves_an_atomic_block: [],
    leaves_two_atomic_blocks: [],
    leaves_a_transaction_of_its_own_sql: [],
    leaves_a_broken_block: [],
    closes_its_connection: ["kept"],
}


class ConnectionTests(HandlingMixin, TransactionTestCase):
    def assert_clean(self) -> None:
        self.assertFalse(connection.in_atomic_block)
        self.assertTrue(connection.get_autocommit())

    def test_open_work_is_rolled_back_and_the_outcome_is_stored_outside_it(self):
        for function, effects in LEAVING.items():
            for error in (None, ValueError()):
                with self.subTest(function.__name__, error=error):
                    Effect.objects.all().delete()

                    def leaves(job, function=function, error=error):
                        function(job)
                        if error is not None:
                            raise error

                    job = self.run_one(leaves)
                    self.assert_clean()
                    expected = ("ready", "ValueError") if error else ("done", "")
                    self.assertEqual((job.status, job.last_error), expected)
                    self.assertEqual(list(Effect.objects.values_list("name", flat=True)), effects)
                    connection.close()
                    self.assertEqual(Job.objects.get(pk=job.pk).status, job.status, "committed")
                    Job.objects.all().delete()

    def test_the_next_job_of_the_same_thread_starts_in_autocommit(self):
        for function in LEAVING:
            with self.subTest(function.__name__):
                seen: list[bool] = []

                def looks(job, seen=seen):
                    seen.extend([connection.in_atomic_block, connection.get_autocommit()])
                    note("next")

                self.handle(function, "test.leaving")
                self.handle(looks)
                self.enqueue(kind="test.leaving", priority=1)
                self.enqueue()
                self.assertEqual(run_jobs(), 2)
                self.assertEqual(seen, [False, True])
                connection.close()
                self.assertTrue(Effect.objects.filter(name="next").exists())
                Effect.objects.all().delete()

    def test_a_thread_whose_first_query_is_the_handlers_own_is_cleaned_too(self):
        for function in LEAVING:
            with self.subTest(function.__name__):
                self.handle(function)
                self.enqueue()
                job = Job.objects.claim_next("runner")
                assert job is not None
                seen = in_a_thread(lambda job=job: attempt_and_look(job))
                self.assertEqual(seen, (False, True))

    def test_an_exception_in_a_handlers_own_block_rolls_that_block_back_only(self):
        def fails(job):
            note("before")
            with transaction.atomic():
                note("within")
                raise ValueError

        self.run_one(fails)
        self.assertEqual([effect.name for effect in Effect.objects.all()], ["before"])

    def test_a_transaction_is_not_held_open_while_a_handler_runs(self):
        seen: list[bool] = []
        self.run_one(lambda job: seen.append(connection.in_atomic_block))
        self.assertEqual(seen, [False])

    def test_a_threads_first_use_of_a_checked_connection_may_be_a_transaction(self):
        def begin() -> None:
            check_before_use()
            with transaction.atomic():
                note("first")
            connection.close()

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        self.assertTrue(Effect.objects.filter(name="first").exists())

    def test_a_checked_connection_is_in_autocommit_again_after_a_long_transaction(self):
        def write() -> bool:
            check_before_use()
            # Every use comes after a long while.
            with mock.patch("django_sqlqueue.isolation.IDLE", -1.0):
                for name in ("first", "second"):
                    with transaction.atomic():
                        note(name)
            try:
                return connection.get_autocommit()
            finally:
                connection.close()

        self.assertTrue(in_a_thread(write))
        self.assertEqual(Effect.objects.count(), 2)


class WithinATransactionTests(HandlingMixin, TestCase):
    """In a TestCase the handler's effects stay as they would outside."""

    def test_effects_of_a_failed_handler_are_kept_as_without_a_transaction(self):
        def fails(job):
            note("before")
            raise ValueError

        self.assertEqual(self.run_one(fails).last_error, "ValueError")
        self.assertEqual(Effect.objects.get().name, "before")

    def test_a_statement_that_failed_does_not_spoil_the_tests_transaction(self):
        def swallows(job):
            with connection.cursor() as cursor:
                try:
                    cursor.execute(NO_ZERO)
                except DatabaseError:
                    return

        self.assertEqual(self.run_one(swallows).status, "done")
        note("after")

    def test_a_swallowed_integrity_error_does_not_spoil_the_tests_transaction(self):
        def swallows(job):
            try:
                Effect.objects.create(id=first.id, name="twice")
            except IntegrityError:
                return

        first = Effect.objects.create(name="first")
        self.assertEqual(self.run_one(swallows).status, "done")
        self.assertEqual(Effect.objects.get().name, "first")

    def test_blocks_left_open_are_left_and_rolled_back(self):
        for function in (leaves_an_atomic_block, leaves_two_atomic_blocks, leaves_a_broken_block):
            with self.subTest(function.__name__):
                depth = len(connection.atomic_blocks)
                self.assertEqual(self.run_one(function).status, "done")
                self.assertEqual(len(connection.atomic_blocks), depth)
                self.assertEqual(Effect.objects.count(), 0)

    def test_autocommit_cannot_be_switched_off_within_a_transaction(self):
        job = self.run_one(leaves_autocommit_off)
        self.assertEqual(job.last_error, "django.db.transaction.TransactionManagementError")
        self.assertTrue(connection.in_atomic_block)


class ContextTests(HandlingMixin, TestCase):
    def test_language_zone_and_context_variables_do_not_leak(self):
        seen: list[Any] = []

        def leaves(job):
            seen.append((translation.get_language(), timezone.get_current_timezone_name()))
            seen.append(LEFT.get())
            translation.activate("de")
            timezone.activate("Asia/Tokyo")
            LEFT.set("something")

        with override_settings(LANGUAGE_CODE="en", TIME_ZONE="UTC"):
            self.handle(leaves)
            self.enqueue()
            self.enqueue()
            self.assertEqual(run_jobs(), 2)
            self.assertEqual(seen, [("en", "UTC"), "nothing"] * 2)
            self.assertEqual(translation.get_language(), "en")

    def test_what_the_caller_had_set_stays_with_the_caller(self):
        seen: list[str] = []
        self.addCleanup(LEFT.reset, LEFT.set("the caller's"))
        with translation.override("de"):
            self.run_one(lambda job: seen.append(LEFT.get()))
            self.assertEqual(translation.get_language(), "de")
        self.assertEqual((seen, LEFT.get()), (["nothing"], "the caller's"))

    def test_it_does_not_leak_from_a_handler_that_fails(self):
        def fails(job):
            LEFT.set("something")
            translation.activate("de")
            raise ValueError

        self.run_one(fails)
        self.run_one(raiser(KeyError))
        self.assertEqual(LEFT.get(), "nothing")
        self.assertNotEqual(translation.get_language(), "de")


def attempt_and_look(job: Job) -> tuple[bool, bool]:
    from django_sqlqueue import execution

    execution.attempt(job)
    return connection.in_atomic_block, connection.get_autocommit()


def in_a_thread(work: Callable[[], Any]) -> Any:
    """Return work() as done by a new thread, whose connections are closed at its end."""
    returned: list[Any] = []

    def body() -> None:
        try:
            returned.append(work())
        finally:
            connection.close()

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return returned[0]
