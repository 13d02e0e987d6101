"""The registry of handlers: one function for each kind, with options that make sense."""

import functools
import math
import os
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.test import SimpleTestCase, TestCase, override_settings

from django_sqlqueue import Backoff, all_kinds, handler
from django_sqlqueue.handlers import handler_of, unregister
from django_sqlqueue.kinds import UNKNOWN, options_of
from django_sqlqueue.models import Job
from tests.handling import HandlingMixin


def plain(job):
    return job


class RegistryTests(HandlingMixin, SimpleTestCase):
    def test_a_handler_calls_like_its_function(self):
        def double(n, *, plus=0):
            """Twice a number."""
            return 2 * n + plus

        handled = self.handle(double)
        self.assertEqual((handled(4), handled(4, plus=1)), (8, 9))
        self.assertEqual((handled.kind, handled.__name__), ("test.handled", "double"))
        self.assertEqual(handled.__doc__, "Twice a number.")
        self.assertIn("test.handled", repr(handled))

    def test_all_kinds_are_listed_in_order(self):
        self.handle(plain, "zz.last")
        self.handle(plain, "aa.first")
        kinds = all_kinds()
        self.assertEqual(kinds, sorted(kinds))
        self.assertEqual((kinds[0], kinds[-1]), ("aa.first", "zz.last"))

    def test_the_jobs_modules_of_installed_apps_are_imported_at_start_up(self):
        self.assertIn("testapp.noop", all_kinds())

    def test_an_unknown_kind_has_no_handler_and_no_options(self):
        self.assertIsNone(handler_of("test.nobody"))
        self.assertIs(options_of("test.nobody"), UNKNOWN)

    def test_two_functions_for_one_kind_are_refused_and_both_named(self):
        def other(job):
            return None

        self.handle(plain)
        with self.assertRaises(ImproperlyConfigured) as caught:
            handler("test.handled")(other)
        for part in ("test.handled", "test_handlers.plain", "other"):
            self.assertIn(part, str(caught.exception))
        self.assertIs(self.known().function, plain)

    def test_a_partial_is_a_function_too(self):
        self.handle(functools.partial(plain))
        with self.assertRaisesMessage(ImproperlyConfigured, "Two functions handle the kind"):
            handler("test.handled")(plain)

    def test_a_module_that_is_loaded_again_registers_its_function_again(self):
        source = "def reloaded(job):\n    return 1\n"
        for _ in range(2):
            names: dict[str, Any] = {"__name__": "some.module"}
            exec(compile(source, "some/module.py", "exec"), names)
            handled = handler("test.reloaded")(names["reloaded"])
        self.addCleanup(unregister, "test.reloaded")
        self.assertIs(handler_of("test.reloaded"), handled)

    def test_generators_are_refused_as_their_body_would_never_run(self):
        def generates(job):
            yield job

        async def generates_too(job):
            yield job

        for function in (generates, generates_too):
            with self.assertRaisesMessage(ImproperlyConfigured, "is a generator"):
                handler("test.generator")(function)
        self.assertIsNone(handler_of("test.generator"))

    def test_what_cannot_be_called_is_refused(self):
        for thing in (None, 5, "name"):
            with self.assertRaisesMessage(ImproperlyConfigured, "cannot be called"):
                handler("test.nothing")(thing)

    def test_wrong_options_are_refused_and_named(self):
        wrong: dict[str, list[Any]] = {
            "kind": ["", "k" * 201, "a\x00", None, plain],
            "queue": ["", "q" * 101, 5],
            "priority": [101, -101, 1.5, "1"],
            "max_attempts": [0, -1, 2.5, "3"],
            "timeout": [0, -1, math.inf, "5", timedelta(0)],
            "backoff": [5, "fast", {"base": 1}],
            "classify": [5, "dotted.path", [ValueError]],
            "atomic": ["yes", 1, None],
        }
        for field, values in wrong.items():
            for value in values:
                with self.subTest(f"{field}={value!r}"[:60]):
                    options = {"kind": "test.wrong", field: value}
                    with self.assertRaisesMessage(ImproperlyConfigured, f": {field} "):
                        handler(**options)(plain)
        self.assertIsNone(handler_of("test.wrong"))

    def test_options_are_kept_as_they_were_meant(self):
        self.handle(plain, timeout=timedelta(minutes=1), backoff=Backoff(1), atomic=True)
        options = options_of("test.handled")
        self.assertEqual((options.timeout, options.backoff, options.atomic), (60, Backoff(1), True))
        self.assertEqual((options.queue, options.priority, options.max_attempts), (None,) * 3)

    def test_a_broken_jobs_module_is_not_passed_over(self):
        code = (
            "import django; from django.conf import settings; "
            "settings.configure(INSTALLED_APPS=['django_sqlqueue', 'broken']); django.setup()"
        )
        with tempfile.TemporaryDirectory() as folder:
            app = Path(folder) / "broken"
            app.mkdir()
            (app / "__init__.py").touch()
            (app / "jobs.py").write_text("import no_such_library")
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("No module named 'no_such_library'", done.stderr)

    def known(self):
        found = handler_of("test.handled")
        assert found is not None
        return found


class EnqueueTests(HandlingMixin, TestCase):
    def test_enqueue_of_a_handler_enqueues_its_kind(self):
        handled = self.handle(plain)
        job = handled.enqueue({"a": 1}, dedup_key="one", ref="order:1")
        assert job is not None
        self.assertEqual((job.kind, job.payload), ("test.handled", {"a": 1}))
        self.assertEqual((job.dedup_key, job.ref), ("one", "order:1"))
        self.assertIsNone(handled.enqueue(dedup_key="one"))

    def test_options_left_out_come_from_the_handler(self):
        handled = self.handle(plain, queue="mail", priority=-3, max_attempts=7)
        job = handled.enqueue()
        assert job is not None
        self.assertEqual((job.queue, job.priority, job.max_attempts), ("mail", -3, 7))
        job = handled.enqueue(queue="other", priority=0, max_attempts=1)
        assert job is not None
        self.assertEqual((job.queue, job.priority, job.max_attempts), ("other", 0, 1))

    def test_without_a_handler_they_come_from_the_settings(self):
        with override_settings(SQLQUEUE={"MAX_ATTEMPTS": 9}):
            job = Job.objects.enqueue("test.nobody")
        assert job is not None
        self.assertEqual((job.queue, job.priority, job.max_attempts), ("default", 0, 9))
