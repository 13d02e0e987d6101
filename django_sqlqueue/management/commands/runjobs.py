"""`manage.py runjobs`: run due jobs until stopped."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils import autoreload

from ...conf import settings
from ...discovery import resolve
from ...models import Job
from ...worker.loop import Runner
from ...worker.options import WorkerOptions
from ...worker.stopping import SIGNALS
from ...worker.supervisor import BYE, READY, RECYCLE, Parent, Supervisor

log = logging.getLogger("django_sqlqueue")


class Command(BaseCommand):
    help = "Runs due jobs until stopped: the first SIGTERM or Ctrl-C lets running jobs end."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--queue", nargs="+", metavar="NAME", help="Only these queues (default: all).")
        add("--kind", nargs="+", metavar="NAME", help="Only these kinds (default: all known).")
        add("--threads", type=_count, default=settings.THREADS, help="Jobs side by side.")
        add("--coroutines", type=_count, default=100, help="Coroutine handlers side by side.")
        add("--processes", type=_count, default=1, help="Worker processes.")
        add("--once", action="store_true", help="Run at most one job, then exit.")
        add("--drain", action="store_true", help="Run until nothing is due, then exit.")
        add("--max-jobs", type=_count, metavar="N", help="Exit after N jobs (of each process).")
        add("--lease", type=_seconds, default=settings.LEASE, metavar="S",
            help="Seconds that a claim holds without renewal.")  # fmt: skip
        add("--poll", type=_seconds, default=settings.POLL, metavar="S",
            help="Seconds between two looks while nothing wakes the worker.")  # fmt: skip
        add("--grace", type=_grace, default=settings.GRACE, metavar="S",
            help="Seconds that running jobs have to end after the first signal.")  # fmt: skip
        add("--database", metavar="ALIAS", help="The database that holds the jobs.")
        add("--health-file", metavar="PATH", help="A file to touch after each good pass.")
        add("--reload", action="store_true", help="Restart when code changes (development).")

    def handle(self, *args: Any, **options: Any) -> None:
        self._log_to_stderr()
        chosen = self._options(options)
        parent = Parent()
        if options["reload"]:
            autoreload.run_with_reloader(self._run_under_reloader, chosen)
        elif options["processes"] > 1 and not parent.exists:
            connections.close_all()
            _exit_with(Supervisor(options["processes"], chosen.grace).run())
        else:
            self._run(chosen, parent)

    def _options(self, options: dict[str, Any]) -> WorkerOptions:
        if options["database"] is not None and options["database"] not in connections:
            raise CommandError(f"--database: there is no alias {options['database']!r}.")
        unknown = {
            kind for kind in options["kind"] or () if resolve(Job(kind=kind), trusted=True) is None
        }
        if unknown and settings.UNKNOWN_KINDS == "leave":
            raise CommandError(
                f"--kind: no handler is registered for {', '.join(sorted(unknown))}."
            )
        return WorkerOptions(
            queues=_tuple(options["queue"]),
            kinds=_tuple(options["kind"]),
            threads=options["threads"],
            coroutines=options["coroutines"],
            max_jobs=1 if options["once"] else options["max_jobs"],
            drain=options["drain"] or options["once"],
            lease=options["lease"],
            poll=options["poll"],
            grace=options["grace"],
            database=options["database"],
            health_file=options["health_file"],
        )

    def _run(self, options: WorkerOptions, parent: Parent) -> None:
        runner = Runner(options)
        parent.watch(runner.stop.request)
        parent.say(READY)
        ended = runner.run()
        if runner.attempts.abandoned and not runner.stop.requested:
            parent.say(RECYCLE)
            _replace_process(parent)
        parent.say(BYE)
        if runner.stop.forced:
            _exit_with(1, at_once=True)
        if not ended:
            # A handler's thread goes on although its job was given back; it must not.
            _exit_with(0, at_once=True)

    def _run_under_reloader(self, options: WorkerOptions) -> None:
        """Run in the reloader's thread, which gets no signals: exiting asks it to stop."""
        runner = Runner(options)

        def finish() -> None:
            runner.stop.request()
            try:
                runner.join(options.grace + 5)
            except KeyboardInterrupt:
                runner.stop.request()
                runner.join(5)
                os._exit(1)

        atexit.register(finish)
        runner.run()

    def _log_to_stderr(self) -> None:
        """Show the worker's lines where the project has not said what to do with them."""
        if not log.hasHandlers():
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            log.addHandler(handler)
            log.setLevel(logging.INFO)


def _replace_process(parent: Parent) -> None:
    """End this process, whose threads cannot all be ended, for a fresh one."""
    log.warning("Worker %d is replaced by a fresh process.", os.getpid())
    logging.shutdown()
    if parent.exists:
        os._exit(75)
    # A signal that comes now is kept until the new process has its handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _exit_with(code: int, at_once: bool = False) -> None:
    if at_once:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    if code:
        sys.exit(code)


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e8:
        raise ValueError
    return seconds


def _grace(text: str) -> float:
    return 0.0 if float(text) == 0 else _seconds(text)
