"""Real processes for tests, on the database of the running test.

Tests that start some derive from ProcessTestCase, or use the transactional_db fixture: another
process sees only what is committed. Whatever is still alive when a test ends is killed, and its
output is shown when the test failed.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from django.db import connections
from django.test import TransactionTestCase

from tests import quickstart

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent

# Those of the running test, alive or not: their output is part of its report.
_spawned: list["Process"] = []


class Process:
    """A process in a session of its own, so that its children can be killed with it."""

    def __init__(self, arguments: list[str], environ: Mapping[str, str]) -> None:
        self.arguments = arguments
        descriptor, name = tempfile.mkstemp(prefix="sqlqueue-process-", suffix=".log")
        self.log = Path(name)
        try:
            self.popen = _start(arguments, environ, descriptor)
        finally:
            os.close(descriptor)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def output(self) -> str:
        """What it has written so far, to stdout and stderr."""
        return self.log.read_text(errors="replace")

    def poll(self) -> int | None:
        return self.popen.poll()

    def wait(self, timeout: float = 30) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            if isinstance(self.popen, quickstart.Fork):
                self.popen.show_stacks()
            raise AssertionError(f"{self} still runs after {timeout} s:\n{self.output}") from None

    def send_signal(self, signum: signal.Signals) -> None:
        self.popen.send_signal(signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and its children at once, as SIGKILL does, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait(30)

    def __str__(self) -> str:
        return f"process {self.pid} ({' '.join(self.arguments[1:])})"


def _start(
    arguments: list[str], environ: Mapping[str, str], output: int
) -> subprocess.Popen[bytes] | quickstart.Fork:
    server = _quickstart()
    if server.can_start(arguments[1:], environ):
        return server.start(arguments[1:], environ, ROOT, output)
    return subprocess.Popen(
        arguments,
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@cache
def _quickstart() -> quickstart.Server:
    return quickstart.Server()


class ProcessTestCase(TransactionTestCase):
    """A test that starts processes; they are gone before its tables are emptied."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(kill_all)


def spawn(
    *manage_args: str, env: Mapping[str, str] | None = None, settings: str = "tests.settings"
) -> Process:
    """Start a management command, `python -m django ...`, on the test database."""
    return spawn_python("-m", "django", *manage_args, env=env, settings=settings)


def spawn_python(
    *arguments: str, env: Mapping[str, str] | None = None, settings: str = "tests.settings"
) -> Process:
    """Start Python with these arguments, for code that uses the test database."""
    environ = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": settings,
        "PYTHONUNBUFFERED": "1",
        "TEST_DATABASE_NAMES": json.dumps(
            {alias: str(connections[alias].settings_dict["NAME"]) for alias in connections}
        ),
        **(env or {}),
    }
    process = Process([sys.executable, *arguments], environ)
    _spawned.append(process)
    return process


def wait_until(predicate: Callable[[], T], timeout: float = 15, interval: float = 0.02) -> T:
    """Call the predicate until its answer is true, and return that answer."""
    deadline = time.monotonic() + timeout
    while not (answer := predicate()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {timeout} s: {predicate}")
        time.sleep(interval)
    return answer


def kill_all() -> None:
    for process in _spawned:
        process.kill()


def forget_all() -> None:
    """End a test: nothing of its processes is left, neither running nor on disk."""
    kill_all()
    while _spawned:
        _spawned.pop().log.unlink(missing_ok=True)


def outputs() -> list[tuple[str, str]]:
    """The processes of this test, each with what it wrote."""
    return [(f"{process}, exit code {process.poll()}", process.output) for process in _spawned]


def end_all() -> None:
    """End whatever a run that was broken off has left."""
    forget_all()
    if _quickstart.cache_info().currsize:
        _quickstart().close()


atexit.register(end_all)
