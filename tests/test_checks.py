"""System checks: a mistake in the settings is told at start-up, with an id and what to do."""

import ast
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from django.core import checks
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db.utils import ConnectionHandler
from django.test import SimpleTestCase, TestCase, override_settings

from django_sqlqueue.checks import check_connection, check_database
from tests.test_conf import WRONG


def found(**settings: Any) -> list[Any]:
    with override_settings(SQLQUEUE=settings):
        return ours()


def ours() -> list[Any]:
    # Only our own: those of the models ask the database, which not every test may. What is said
    # of the database depends on the engine under test.
    return [each for each in run_checks(tags=["sqlqueue"]) if each.level > checks.INFO]


class ChecksTests(SimpleTestCase):
    def test_good_settings_give_no_message(self):
        self.assertEqual(found(), [])
        self.assertEqual(found(LEASE=60, THREADS=8), [])

    def test_each_wrong_setting_is_an_error_with_an_id_and_a_hint(self):
        for key, values in WRONG.items():
            for value in values:
                with self.subTest(key=key, value=value):
                    (message,) = found(**{key: value})
                    self.assertIsInstance(message, checks.Error)
                    self.assertEqual(message.id, "sqlqueue.E001")
                    self.assertIn(f"SQLQUEUE[{key!r}]", message.msg)
                    self.assertTrue(message.hint)

    def test_an_unknown_setting_is_an_error_that_names_those_there_are(self):
        (message,) = found(LEESE=30)
        self.assertEqual(message.id, "sqlqueue.E001")
        self.assertIn("'LEESE'", message.msg)
        self.assertIn("LEASE", message.hint)

    def test_settings_that_are_no_dict_are_an_error(self):
        with override_settings(SQLQUEUE=["LEASE"]):
            self.assertEqual([message.id for message in ours()], ["sqlqueue.E001"])

    def test_a_schedule_that_can_never_run_is_an_error(self):
        for name, options in {
            "no kind": {"every": 60},
            "no rhythm": {"kind": "testapp.noop"},
            "two rhythms": {"kind": "testapp.noop", "every": 60, "cron": "0 0 * * *"},
            "a wrong cron": {"kind": "testapp.noop", "cron": "every day"},
            "a wrong zone": {"kind": "testapp.noop", "cron": "0 0 * * *", "timezone": "Mars"},
            "a wrong option": {"kind": "testapp.noop", "every": 60, "speed": 5},
            "a wrong payload": {"kind": "testapp.noop", "every": 60, "payload": {1, 2}},
            "a wrong policy": {"kind": "testapp.noop", "every": 60, "missed": "never"},
        }.items():
            with self.subTest(name):
                (message,) = found(SCHEDULES={"nightly": options})
                self.assertIsInstance(message, checks.Error)
                self.assertEqual(message.id, "sqlqueue.E002")
                self.assertIn("'nightly'", message.msg)
                self.assertTrue(message.hint)

    def test_a_schedule_whose_kind_nothing_handles_is_a_warning(self):
        (message,) = found(SCHEDULES={"nightly": {"kind": "test.nobody", "every": 60}})
        self.assertIsInstance(message, checks.Warning)
        self.assertEqual(message.id, "sqlqueue.W001")
        self.assertIn("test.nobody", message.msg)

    def test_a_good_schedule_gives_no_message(self):
        self.assertEqual(found(SCHEDULES={"nightly": {"kind": "testapp.noop", "every": 60}}), [])

    def test_the_check_command_refuses_wrong_settings(self):
        with (
            override_settings(SQLQUEUE={"LEASE": 0}),
            self.assertRaisesMessage(SystemCheckError, "sqlqueue.E001"),
        ):
            call_command("check", tags=["sqlqueue"])


class DatabaseChecksTests(TestCase):
    databases = {"default", "other"}

    def test_the_models_give_no_message_on_any_database(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            messages = run_checks(databases=["default", "other"], include_deployment_checks=False)
        self.assertEqual([m for m in messages if "django_sqlqueue" in str(m.obj)], [])
        self.assertEqual([m for m in messages if m.id.startswith("models.")], [])


class SQLiteChecksTests(SimpleTestCase):
    """A file of its own, as a project sets it, on whatever engine the other tests run."""

    databases = {"default"}

    def infos(self, name: str | None = None, ask: bool = False, **options: Any) -> list[Any]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        handler = ConnectionHandler(
            {
                "default": {
                    "ENGINE": "django.db.backends.sqlite3",
                    "NAME": name or Path(folder.name) / "db.sqlite3",
                    "OPTIONS": options,
                }
            }
        )
        with mock.patch("django_sqlqueue.checks.connections", handler):
            found = (check_database if ask else check_connection)(databases=["default"])
        opened = handler["default"].connection
        self.opened = opened is not None
        if opened is not None:
            # Not by Django's own, which keeps a database in memory.
            opened.close()
        return found

    def test_transactions_that_do_not_begin_with_the_write_lock_are_told(self):
        for options in ({}, {"transaction_mode": None}, {"transaction_mode": "deferred"}):
            with self.subTest(options):
                (message,) = self.infos(**options)
                self.assertEqual(message.id, "sqlqueue.I001")
                self.assertIn("database is locked", message.msg)
                self.assertIn('"transaction_mode": "IMMEDIATE"', message.hint)
                self.assertFalse(self.opened, "an ordinary check opens no database")

    def test_transactions_that_begin_with_the_write_lock_give_no_message(self):
        for mode in ("IMMEDIATE", "immediate", "EXCLUSIVE"):
            self.assertEqual(self.infos(transaction_mode=mode), [])

    def test_it_is_information_so_that_no_check_fails_for_it(self):
        (message,) = self.infos()
        self.assertFalse(message.is_serious(checks.WARNING))

    def test_a_rollback_journal_is_told_where_the_database_may_be_asked(self):
        for pragma in ("", "PRAGMA journal_mode=TRUNCATE"):
            (message,) = self.infos(ask=True, init_command=pragma)
            self.assertEqual(message.id, "sqlqueue.I002")
            self.assertFalse(message.is_serious(checks.WARNING))
            self.assertIn("journal_mode=WAL", message.hint)

    def test_a_write_ahead_log_gives_no_message(self):
        pragma = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        self.assertEqual(self.infos(ask=True, init_command=pragma), [])

    def test_a_database_in_memory_is_not_judged(self):
        self.assertEqual(self.infos(":memory:"), [])
        self.assertEqual(self.infos(":memory:", ask=True), [])

    def test_what_the_hint_says_satisfies_the_checks(self):
        (message,) = self.infos()
        start, end = message.hint.index("{"), message.hint.rindex("}") + 1
        options = ast.literal_eval(message.hint[start:end])
        self.assertEqual(self.infos(**options) + self.infos(ask=True, **options), [])

    def test_the_database_is_asked_only_where_the_command_names_it(self):
        self.assertEqual(check_connection.tags, ("sqlqueue",))
        self.assertEqual(check_database.tags, (checks.Tags.database,))
        self.assertEqual(check_database(databases=None), [])

    def test_only_the_database_of_the_jobs_is_judged(self):
        with override_settings(SQLQUEUE={"DATABASE": "other"}):
            self.assertEqual(self.infos(), [])
