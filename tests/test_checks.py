"""System checks: a mistake in the settings is told at start-up, with an id and what to do."""

import warnings
from typing import Any

from django.core import checks
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import SimpleTestCase, TestCase, override_settings

from tests.test_conf import WRONG


def found(**settings: Any) -> list[Any]:
    with override_settings(SQLQUEUE=settings):
        return ours()


def ours() -> list[Any]:
    # Only our own: those of the models ask the database, which not every test may.
    return run_checks(tags=["sqlqueue"])


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
