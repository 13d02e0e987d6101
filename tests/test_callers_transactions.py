"""Work that conflicts, and transactions of the caller that see or manage things their own way."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.test import TransactionTestCase
from django.utils import timezone

from django_sqlqueue.models import Job
from tests.testapp.models import Effect

KIND = "shop.send_receipt"
NO_WAITING = {
    "postgresql": ["SET LOCAL lock_timeout = '1s'"],
    "mysql": ["SET SESSION innodb_lock_wait_timeout = 1"],
}


def elsewhere(work: Callable[[], Any]) -> threading.Thread:
    """Begin the work on another connection."""

    def connected() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=connected)
    thread.start()
    return thread


@contextmanager
def one_snapshot() -> Iterator[None]:
    """A transaction that sees the database as it was when it began."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        Job.objects.count()
        yield


@contextmanager
def managed_by_hand() -> Iterator[None]:
    connection.set_autocommit(False)
    try:
        yield
    finally:
        connection.rollback()
        connection.set_autocommit(True)


class SnapshotTests(TransactionTestCase):
    def test_a_schedule_that_a_transaction_cannot_see_ends_in_an_error_and_not_in_a_loop(self):
        if connection.vendor != "postgresql":
            self.skipTest("A write sees what was committed since.")
        with self.assertRaises(IntegrityError), one_snapshot():
            elsewhere(lambda: Job.objects.schedule("nightly", KIND, every=60)).join()
            Job.objects.schedule("nightly", KIND, every=30)


class WaitingTests(TransactionTestCase):
    def test_cancel_for_uri_waits_for_no_job_that_another_transaction_has_put_in(self):
        if connection.vendor == "sqlite":
            self.skipTest("There is one writer.")
        Job.objects.enqueue(KIND, {"uri": "a/b"})
        begun, end = threading.Event(), threading.Event()

        def put_in() -> None:
            with transaction.atomic():
                Job.objects.enqueue(KIND, {"uri": "z"})
                begun.set()
                end.wait(20)

        other = elsewhere(put_in)
        try:
            self.assertTrue(begun.wait(20))
            with connection.cursor() as cursor, transaction.atomic():
                for setting in NO_WAITING[connection.vendor]:
                    cursor.execute(setting)
                self.assertEqual(Job.objects.cancel_for_uri("a"), 1)
        finally:
            end.set()
            other.join()
            connection.close()


class ReadingBeforeWritingTests(TransactionTestCase):
    def write_after_the_first_read(self) -> Any:
        """Let another connection write right after the first read, if it can."""
        begun: list[threading.Thread] = []

        def join() -> None:
            for thread in begun:
                thread.join()

        def execute(execute: Any, sql: str, *rest: Any) -> Any:
            found = execute(sql, *rest)
            if sql.startswith("SELECT") and not begun:
                begun.append(elsewhere(lambda: Effect.objects.create(name="between")))
                begun[0].join(0.3)
            return found

        self.addCleanup(join)
        return connection.execute_wrapper(execute)

    def test_what_reads_first_can_write_in_a_transaction_although_others_write_between(self):
        verbs: dict[str, Callable[[], int]] = {
            "cancel_for_uri": lambda: Job.objects.cancel_for_uri("a"),
            "cancel": lambda: Job.objects.filter(kind=KIND).cancel(),
            "requeue": lambda: Job.objects.filter(kind=KIND).requeue(),
            "cleanup": lambda: Job.objects.cleanup(timezone.now() + timedelta(days=1)),
        }
        for name, verb in verbs.items():
            with self.subTest(verb=name):
                Job.objects.all().delete()
                Job.objects.enqueue_many([(KIND, {"uri": "a/b"}), ("shop.other", None)])
                if name in ("requeue", "cleanup"):
                    Job.objects.claim("runner", kinds=[KIND])[0].complete()
                with transaction.atomic(), self.write_after_the_first_read():
                    self.assertEqual(verb(), 1)


class RetryingTests(TransactionTestCase):
    def tries(self) -> int:
        """Return how often work is done that the database gives way to."""
        engine, tries = Job.objects.all().engine, []

        def gives_way() -> None:
            tries.append(1)
            raise OperationalError("the database gave way")

        with (
            patch.object(type(engine), "is_conflict", return_value=True),
            self.assertRaises(OperationalError),
        ):
            engine.retrying(gives_way)
        return len(tries)

    def test_what_conflicts_is_done_again_where_no_transaction_is_around_it(self):
        self.assertGreater(self.tries(), 1)

    def test_in_a_transaction_managed_by_hand_nothing_is_done_again_without_its_other_writes(self):
        with managed_by_hand():
            self.assertEqual(self.tries(), 1)

    def test_what_takes_long_to_give_way_is_not_done_again(self):
        with patch("django_sqlqueue.engines.base.CONFLICT_SECONDS", -1):
            self.assertEqual(self.tries(), 1)
