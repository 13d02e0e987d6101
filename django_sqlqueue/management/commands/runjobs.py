"""`manage.py runjobs`: run due jobs until stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connections

from ...conf import settings
from ...discovery import resolve
from ...isolation import own_connections
from ...models import Job
from ...worker.lines import LineHandler
from ...worker.links import that_end_in_silence
from ...worker.loop import Runner
from ...worker.options import WorkerOptions
from ...worker.reloading import Reloader
from ...worker.stopping import SIGNALS, LastResort
from ...worker.supervisor import BYE, READY, RECYCLE, Parent, Supervisor

log = logging.getLogger("django_sqlqueue")

LONGEST = 1e6
"""Seconds that no time of a worker exceeds."""
LAST_CHORES = 5.0
"""Seconds that Python has to end a process whose work is done."""


class Command(BaseCommand):
    help = "Runs due jobs until stopped: the first SIGTERM or Ctrl-C lets running jobs end."
    _called_from_command_line: bool

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--queue", nargs="+", metavar="NAME", help="Only these queues (default: all).")
        add("--kind", nargs="+", metavar="NAME", help="Only these kinds (default: all known).")
        add("--threads", type=_count, help="Jobs side by side.")
        add("--coroutines", type=_count, default=100, help="Coroutine handlers side by side.")
        add("--processes", type=_count, default=1, help="Worker processes.")
        add("--once", action="store_true", help="Run at most one job, then exit.")
        add("--drain", action="store_true", help="Run until nothing is due, then exit.")
        add("--max-jobs", type=_count, metavar="N", help="Exit after N jobs (of each process).")
        add("--lease", type=_seconds, metavar="S",
            help="Seconds that a claim holds without renewal.")  # fmt: skip
        add("--poll", type=_seconds, metavar="S",
            help="Seconds between two looks while nothing wakes the worker.")  # fmt: skip
        add("--grace", type=_grace, metavar="S",
            help="Seconds that running jobs have to end after the first signal.")  # fmt: skip
        add("--database", metavar="ALIAS", help="The database that holds the jobs.")
        add("--health-file", metavar="PATH", help="A file to touch after each good pass.")
        add("--reload", action="store_true", help="Restart when code changes (development).")

    def handle(self, *args: Any, **options: Any) -> None:
        self._log_to_stderr()
        chosen = self._options(options)
        _check_tables(chosen.database or Job.objects.all().db)
        parent = Parent()
        if options["processes"] > 1 and not parent.exists:
            connections.close_all()
            if code := Supervisor(options["processes"], chosen.grace).run():
                sys.exit(code)
        else:
            self._run(chosen, parent, options["reload"])

    def _options(self, options: dict[str, Any]) -> WorkerOptions:
        if options["database"] is not None and options["database"] not in connections:
            raise CommandError(f"--database: there is no alias {options['database']!r}.")
        if options["reload"] and options["processes"] > 1:
            raise CommandError("--reload runs one process; leave out --processes.")
        foreign = set(options["queue"] or ()) - set(settings.QUEUES or options["queue"] or ())
        if foreign:
            raise CommandError(f"--queue: QUEUES does not name {', '.join(sorted(foreign))}.")
        health = Path(options["health_file"] or ".")
        if not health.parent.is_dir():
            raise CommandError(f"--health-file: there is no folder {str(health.parent)!r}.")
        unknown = {
            kind
            for kind in options["kind"] or ()
            if resolve(Job(kind=kind, payload={}), trusted=True) is None
        }
        if unknown and settings.UNKNOWN_KINDS == "leave":
            raise CommandError(
                f"--kind: no handler is registered for {', '.join(sorted(unknown))}."
            )
        return WorkerOptions(
            queues=_tuple(options["queue"]),
            kinds=_tuple(options["kind"]),
            threads=_given(options, "threads"),
            coroutines=options["coroutines"],
            max_jobs=1 if options["once"] else options["max_jobs"],
            drain=options["drain"] or options["once"],
            lease=_given(options, "lease"),
            poll=_given(options, "poll"),
            grace=_given(options, "grace"),
            database=options["database"],
            health_file=options["health_file"],
        )

    def _run(self, options: WorkerOptions, parent: Parent, reload: bool) -> None:
        runner = Runner(options)
        runner.stop.supervised = parent.exists
        parent.watch(_ask_to_stop)
        reloader = Reloader(runner.stop.request)
        if reload:
            reloader.start()
        if self._called_from_command_line:
            LastResort(runner.stop, options.grace, _end_process).start()
        parent.say(READY)
        ended = runner.run()
        left = runner.jobs_left
        if reloader.has_seen_a_change and not runner.stop.forced:
            self._replace_process(parent, left)
        if not runner.stop.requested:
            if (runner.attempts.abandoned or runner.is_broken) and left != 0:
                parent.say(RECYCLE)
                self._replace_process(parent, left)
            parent.say(BYE)
        self._exit(1 if runner.stop.forced else 0, at_once=runner.stop.forced or not ended)

    def _exit(self, code: int, at_once: bool) -> None:
        """End the process, where it is this command's own, whatever its threads do."""
        if not self._called_from_command_line:
            if code:
                sys.exit(code)
            return
        if not at_once:
            # A handler may have left threads behind that never end.
            threading.Thread(target=lambda: _end_process(code, LAST_CHORES), daemon=True).start()
            return
        _end_process(code)

    def _replace_process(self, parent: Parent, jobs_left: int | None) -> None:
        """End this process, whose threads cannot all be ended, for a fresh one."""
        if not self._called_from_command_line:
            return
        log.warning("Worker %d is replaced by a fresh process.", os.getpid())
        if parent.exists:
            _end_process(75)
        logging.shutdown()
        # A signal that comes now is kept until the new process has its handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        _keep_for_this_process()
        limit = [] if jobs_left is None else ["--max-jobs", str(jobs_left)]
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], *limit])

    def _log_to_stderr(self) -> None:
        """Show the worker's lines where the project has not said what to do with them."""
        if not log.hasHandlers():
            log.addHandler(LineHandler(sys.stderr))
            log.setLevel(logging.INFO)


def _keep_for_this_process() -> None:
    """Let no file but the standard ones pass to the process that takes this one's place.

    Not every driver sees to that itself, and the server would go on with what a hung handler
    has begun.
    """
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def _ask_to_stop() -> None:
    """Ask this process by a signal, which is heard also where its loop waits inside a driver."""
    os.kill(os.getpid(), signal.SIGTERM)


def _end_process(code: int, after: float = 0.0) -> None:
    time.sleep(after)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def _check_tables(alias: str) -> None:
    """Refuse to wait for ever for tables; where the database is away they cannot be missed yet."""
    try:
        with own_connections(), that_end_in_silence():
            tables = connections[alias].introspection.table_names()
    except Error:
        return
    if Job._meta.db_table not in tables:
        raise CommandError(f"The database {alias!r} has no table of jobs; run migrate first.")


def _given(options: dict[str, Any], name: str) -> Any:
    """Return an option, or else the setting of that name; by now the settings are checked."""
    return getattr(settings, name.upper()) if options[name] is None else options[name]


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"must be a whole number from 1 up, not {text!r}.")
    return number


def _seconds(text: str) -> float:
    seconds = _grace(text)
    if not seconds:
        raise ArgumentTypeError("must be more than 0 seconds.")
    return seconds


def _grace(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        raise ArgumentTypeError(f"must be seconds from 0 to {LONGEST:g}, not {text!r}.")
    return seconds
