"""The settings: their defaults, what is accepted, and that overriding them takes effect."""

import math
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from django.test import SimpleTestCase, override_settings

from django_sqlqueue import conf
from django_sqlqueue.conf import DEFAULTS, settings
from django_sqlqueue.exceptions import InvalidSetting


def classify(error: BaseException) -> str | None:
    return None


HERE = f"{__name__}.classify"

WRONG: dict[str, list[Any]] = {
    "DATABASE": ["nowhere", 5, ["default"]],
    "QUEUES": ["mail", 5, [""], [5], {"mail": 1}],
    "MAX_ATTEMPTS": [0, -1, 2.5, "5", True, None],
    "BACKOFF": [
        None, 30, {"speed": 1}, {"base": -1}, {"base": "30"}, {"cap": None}, {"jitter": True},
        {"factor": math.nan}, {"cap": math.inf},
    ],
    "LEASE": [0, -1, "30", None, True, math.nan, math.inf, timedelta(0), timedelta(-1)],
    "POLL": [0, -1, "1", None],
    "GRACE": [-1, "25", None],
    "THREADS": [0, -4, 1.5, "4", None],
    "UNKNOWN_KINDS": ["drop", None, True, ["fail"]],
    "MAX_PAYLOAD_BYTES": [0, 1.5, "1M", None],
    "HISTORY": ["some", None, True, {}],
    "STORE_MESSAGES": ["yes", 1, None],
    "CLASSIFY": [5, "nowhere", "no.such.module", f"{__name__}.missing", f"{__name__}.HERE"],
    "REDACT": [5, "no.such.module", ["list"]],
    "RETENTION": [
        None, 7, timedelta(7), {"ready": 7}, {"done": "7"}, {"done": -1}, {"failed": math.nan},
        {"done": True},
    ],
    "SCHEDULES": [None, [], {"nightly": None}, {"nightly": "0 3 * * *"}],
    "NOTIFY": ["no", 0, None],
}  # fmt: skip

RIGHT: dict[str, list[Any]] = {
    "DATABASE": [None, "default", "other"],
    "QUEUES": [None, [], ["mail"], ("mail", "default"), {"mail"}],
    "MAX_ATTEMPTS": [1, 1_000],
    "BACKOFF": [{}, {"base": 0}, {"base": 1.5, "factor": 1, "cap": 0, "jitter": 0}],
    "LEASE": [0.5, 30, timedelta(minutes=1)],
    "POLL": [0.01, timedelta(seconds=5)],
    "GRACE": [0, 25, timedelta(0)],
    "THREADS": [1, 64],
    "UNKNOWN_KINDS": ["leave", "fail"],
    "MAX_PAYLOAD_BYTES": [1],
    "HISTORY": ["failures", "all", "none"],
    "STORE_MESSAGES": [True, False],
    "CLASSIFY": [None, classify, HERE],
    "REDACT": [None, str],
    "RETENTION": [{}, {"done": None}, {"done": 0, "failed": timedelta(7), "cancelled": 3600}],
    "SCHEDULES": [{}, {"nightly": {"kind": "shop.report", "cron": "0 3 * * *"}}],
    "NOTIFY": [True, False],
}


class ConfTests(SimpleTestCase):
    def test_every_setting_is_tried_here(self):
        self.assertEqual(set(WRONG), set(DEFAULTS))
        self.assertEqual(set(RIGHT), set(DEFAULTS))

    def test_the_defaults_are_right_and_in_force(self):
        with override_settings(SQLQUEUE={}):
            self.assertEqual(conf.problems(), [])
            for key, value in DEFAULTS.items():
                self.assertEqual(getattr(settings, key), value)
        with override_settings(SQLQUEUE=DEFAULTS):
            self.assertEqual(conf.problems(), [])

    def test_a_project_needs_no_settings_at_all(self):
        with override_settings():
            from django.conf import settings as project

            if hasattr(project, "SQLQUEUE"):
                del project.SQLQUEUE
            settings.reload()
            self.assertEqual(conf.problems(), [])
            self.assertEqual(settings.LEASE, 30)

    def test_right_values_are_accepted_and_can_be_read(self):
        for key, values in RIGHT.items():
            for value in values:
                with self.subTest(key=key, value=value), override_settings(SQLQUEUE={key: value}):
                    self.assertEqual(conf.problems(), [])
                    getattr(settings, key)

    def test_wrong_values_are_told_with_their_key_and_a_hint(self):
        for key, values in WRONG.items():
            for value in values:
                with self.subTest(key=key, value=value), override_settings(SQLQUEUE={key: value}):
                    (problem,) = conf.problems()
                    self.assertEqual(problem.key, key)
                    self.assertTrue(str(problem).startswith(f"SQLQUEUE[{key!r}] "), problem)
                    self.assertTrue(problem.hint)

    def test_a_wrong_value_cannot_be_read(self):
        for key, values in WRONG.items():
            with override_settings(SQLQUEUE={key: values[0]}), self.assertRaises(InvalidSetting):
                getattr(settings, key)

    def test_each_wrong_key_is_told(self):
        wrong = {"LEASE": 0, "THREADS": 0, "LEESE": 30, 5: 5}
        with override_settings(SQLQUEUE=wrong):
            self.assertEqual([problem.key for problem in conf.problems()], list(wrong))

    def test_what_is_no_dict_is_told(self):
        for value in (None, [], "LEASE=5", 5):
            with self.subTest(repr(value)), override_settings(SQLQUEUE=value):
                (problem,) = conf.problems()
                self.assertTrue(str(problem).startswith("SQLQUEUE must be a dict, not "))
                self.assertTrue(problem.hint)
                with self.assertRaises(InvalidSetting):
                    _ = settings.LEASE

    def test_a_dotted_path_whose_module_is_broken_is_told(self):
        class Broken(ModuleType):
            def __getattr__(self, name: str) -> Any:
                raise RuntimeError

        with (
            patch.dict(sys.modules, {"broken_module": Broken("broken_module")}),
            override_settings(SQLQUEUE={"CLASSIFY": "broken_module.classify"}),
        ):
            (problem,) = conf.problems()
            self.assertEqual(problem.key, "CLASSIFY")

    def test_overriding_takes_effect_at_once_and_ends(self):
        before = settings.LEASE
        with override_settings(SQLQUEUE={"LEASE": 7}):
            self.assertEqual(settings.LEASE, 7)
            with override_settings(SQLQUEUE={"LEASE": timedelta(minutes=2)}):
                self.assertEqual(settings.LEASE, 120)
            self.assertEqual(settings.LEASE, 7)
        self.assertEqual(settings.LEASE, before)

    def test_a_part_of_a_dict_leaves_the_rest_at_its_default(self):
        with override_settings(SQLQUEUE={"BACKOFF": {"base": 5}, "RETENTION": {"done": None}}):
            self.assertEqual(settings.BACKOFF, {**DEFAULTS["BACKOFF"], "base": 5})
            self.assertEqual(settings.RETENTION["failed"], timedelta(days=90))

    def test_a_dotted_path_is_read_as_what_it_names(self):
        with override_settings(SQLQUEUE={"CLASSIFY": HERE}):
            self.assertIs(settings.CLASSIFY, classify)

    def test_an_unknown_name_is_no_setting(self):
        with self.assertRaises(AttributeError):
            _ = settings.LEESE

    def test_all_settings_stand_on_one_screen(self):
        source = Path(conf.__file__).read_text()
        screen = source.partition("DEFAULTS")[2].partition("\n}\n")[0]
        self.assertLess(len(screen.splitlines()), 40)
        for key in DEFAULTS:
            self.assertRegex(screen, rf'\n    "{key}": .*# ')
