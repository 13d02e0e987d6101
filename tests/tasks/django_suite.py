"""Run Django's own tests of its tasks framework with SqlQueueBackend in place of its backends.

python -m tests.tasks.django_suite [--source FOLDER]

The tests come from the source release of the installed Django, by pip, unless --source names the
folder of one. They run on the database of DATABASE_URL, else on SQLite;
`python -m tests.run --module tests.tasks.django_suite` runs them on every engine.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import django

REPLACED = {
    "from django.tasks.backends.dummy import DummyBackend": (
        "from tests.tasks.suite_backends import Waiting as DummyBackend"
    ),
    "from django.tasks.backends.immediate import ImmediateBackend": (
        "from tests.tasks.suite_backends import AtOnce as ImmediateBackend"
    ),
    "django.tasks.backends.dummy.DummyBackend": "tests.tasks.suite_backends.Waiting",
    "django.tasks.backends.immediate.ImmediateBackend": "tests.tasks.suite_backends.AtOnce",
    # Ours is in a database, and the coroutine tests look from two connections.
    "SimpleTestCase, TransactionTestCase": "TransactionTestCase",
    "SimpleTestCase": "TransactionTestCase",
    "available_apps = []": "available_apps = None",
}

LEFT_OUT = {
    "test_refresh_result": "DummyBackendTestCase changes a result in the dummy backend's memory",
    "test_refresh_result_async": "the same",
    "test_cannot_get_result": "the immediate backend keeps no results",
    "test_cannot_refresh_result": "the same",
    "test_cannot_pass_run_after": "the immediate backend cannot wait",
    "test_throws_keyboard_interrupt": "the immediate backend runs in the caller's process",
}
"""Tests about those two backends themselves; where another class has the same name, it is run."""

ABOUT = ("DummyBackendTestCase", "ImmediateBackendTestCase")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, help="the folder of an unpacked Django release")
    options = parser.parse_args()
    if django.VERSION < (6, 0):
        parser.exit(1, "Django 5.2 has no tasks of its own.\n")
    with tempfile.TemporaryDirectory(prefix="sqlqueue-suite-") as name:
        folder = Path(name)
        copy_tests(options.source or download(folder), folder / "suite" / "tasks")
        return run(folder / "suite")


def download(folder: Path) -> Path:
    """Return the folder of the source release of the installed Django."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    wanted = f"django=={django.get_version()}"
    subprocess.run([*pip, "--dest", folder, wanted], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def copy_tests(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in (source / "tests" / "tasks").glob("*.py"):
        text = path.read_text()
        if path.name != "test_custom_backend.py":
            for old, new in REPLACED.items():
                text = text.replace(old, new)
        (target / path.name).write_text(text)


def run(folder: Path) -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.tasks.suite_settings"
    # Their coroutine tests call result.refresh(), which asks a database here.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    django.setup()
    from django.db import connections
    from django.test.runner import DiscoverRunner

    from tests.conftest import end_other_sessions

    class Runner(DiscoverRunner):
        def build_suite(self, *args, **kwargs):
            suite = super().build_suite(*args, **kwargs)
            kept = [test for test in suite if not is_left_out(test)]
            left_out = suite.countTestCases() - len(kept)
            self.log(f"{left_out} tests about the dummy and immediate backends are left out.")
            return type(suite)(kept)

        def teardown_databases(self, *args, **kwargs):
            # The event loops of coroutine tests leave connections of their own.
            for connection in connections.all():
                end_other_sessions(connection)
            super().teardown_databases(*args, **kwargs)

    return min(1, Runner(interactive=False).run_tests(["tasks"]))


def is_left_out(test) -> bool:
    return type(test).__name__ in ABOUT and test._testMethodName in LEFT_OUT


if __name__ == "__main__":
    sys.exit(main())
