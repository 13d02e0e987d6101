"""A secret that a failing handler touches is found neither in the database nor in the logs."""

import logging
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.db import connection
from django.test import TestCase, override_settings

from django_sqlqueue import Abandon, Backoff, Retry
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.testing import run_jobs
from tests.handling import HandlingMixin
from tests.testapp.models import Effect

SECRET = "hunter2-s3cr3t"


class Bearing(Exception):
    """Carries the secret in every way that an exception can."""

    def __init__(self) -> None:
        super().__init__(f"could not log in with {SECRET}", {"password": SECRET})
        self.password = SECRET
        self.add_note(SECRET)


def in_its_message(job: Job) -> None:
    raise ValueError(f"https://user:{SECRET}@example.org refused")


def in_its_arguments(job: Job) -> None:
    raise Bearing


def in_a_local_variable(job: Job) -> None:
    password = SECRET
    raise KeyError(len(password))


def in_a_chained_cause(job: Job) -> None:
    try:
        raise Bearing
    except Bearing as error:
        raise RuntimeError("failed") from error


def in_a_context(job: Job) -> None:
    try:
        in_its_message(job)
    finally:
        raise RuntimeError("failed")


def in_a_group(job: Job) -> None:
    raise ExceptionGroup(SECRET, [Bearing(), ValueError(SECRET)])


def in_a_database_error(job: Job) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM no_such_table WHERE password = '{SECRET}'")


def in_a_duplicate_row(job: Job) -> None:
    Effect.objects.create(pk=1_000_000, name=SECRET)


def in_the_way_it_leaves(job: Job) -> None:
    raise SystemExit(SECRET)


def in_its_payload(job: Job) -> None:
    raise KeyError(job.payload["password"])


async def in_a_coroutine(job: Job) -> None:
    raise ValueError(SECRET)


BEARERS: list[Callable[..., Any]] = [
    in_its_message,
    in_its_arguments,
    in_a_local_variable,
    in_a_chained_cause,
    in_a_context,
    in_a_group,
    in_a_database_error,
    in_a_duplicate_row,
    in_the_way_it_leaves,
    in_its_payload,
    in_a_coroutine,
]


class SecretsTests(HandlingMixin, TestCase):
    def setUp(self):
        super().setUp()
        Effect.objects.create(pk=1_000_000, name="first")
        self.logged: list[str] = []
        capture = Capture(self.logged)
        logger = logging.getLogger("django_sqlqueue")
        level = logger.level
        logger.addHandler(capture)
        logger.setLevel(logging.DEBUG)
        self.addCleanup(logger.removeHandler, capture)
        self.addCleanup(logger.setLevel, level)

    def assert_nowhere(self, but: tuple[str, str] | None = None) -> None:
        for table, column, text in everything_stored():
            if (table, column) != but:
                self.assertNotIn(SECRET, text, f"{table}.{column}")
        self.assertFalse([line for line in self.logged if SECRET in line])

    def test_what_a_failure_leaves_behind_does_not_tell_it(self):
        for function in BEARERS:
            for attempts in (1, 2):
                with self.subTest(function.__name__, attempts=attempts):
                    self.handle(function, max_attempts=attempts, backoff=Backoff(60))
                    self.enqueue({"password": SECRET} if function is in_its_payload else None)
                    self.assertEqual(run_jobs(), 1)
                    self.assertEqual(Attempt.objects.count(), 1, "it did fail")
                    payload = ("django_sqlqueue_job", "payload")
                    self.assert_nowhere(but=payload if function is in_its_payload else None)
                    Job.objects.all().delete()

    def test_a_search_for_it_finds_it_where_it_is(self):
        # The search itself is worth something: it reads JSON, text and all tables.
        self.enqueue({"password": SECRET})
        Effect.objects.create(name=SECRET)
        found = {(table, column) for table, column, text in everything_stored() if SECRET in text}
        expected = {("django_sqlqueue_job", "payload"), ("testapp_effect", "name")}
        self.assertEqual(found, expected)

    def test_an_atomic_handler_does_not_tell_it(self):
        for function in (in_its_message, in_a_database_error, in_a_duplicate_row):
            with self.subTest(function.__name__):
                self.run_one(function, atomic=True)
                self.assert_nowhere()

    def test_a_broken_backoff_or_classifier_does_not_tell_it(self):
        def broken(*args):
            raise ValueError(SECRET)

        with override_settings(SQLQUEUE={"CLASSIFY": broken}):
            self.run_one(in_its_message, backoff=broken, classify=broken)
        self.assertTrue(self.logged, "the broken backoff is logged")
        self.assert_nowhere()

    def test_a_result_that_is_dropped_does_not_tell_it(self):
        for result in (f"{SECRET}\x00", {SECRET + "\ud800": 1}, {SECRET}, float("nan")):
            self.run_one(lambda job, result=result: result)
        self.run_one(lambda job: {SECRET: {1, 2}})
        self.assertEqual(len(self.logged), 5)
        self.assert_nowhere()

    def test_a_handler_may_put_it_where_it_chooses(self):
        for ending in (Abandon(SECRET), Retry(60, SECRET)):

            def chooses(job, ending=ending):
                raise ending

            self.assertEqual(self.run_one(chooses).last_error, SECRET)

    @override_settings(SQLQUEUE={"STORE_MESSAGES": True})
    def test_messages_are_stored_only_where_the_settings_say_so(self):
        job = self.run_one(in_its_message)
        self.assertIn(SECRET, job.history.get().traceback)
        self.assertNotIn(SECRET, job.last_error)
        self.assertFalse([line for line in self.logged if SECRET in line])


class Capture(logging.Handler):
    """Keeps the lines of a log as they would be printed, with their tracebacks."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def everything_stored() -> list[tuple[str, str, str]]:
    """Return every value of every table as (table, column, text)."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            assert cursor.description is not None
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                found += [
                    (table, name, str(value)) for name, value in zip(columns, row, strict=True)
                ]
    assert {model._meta.db_table for model in apps.get_models()} <= set(
        connection.introspection.table_names()
    )
    return found
