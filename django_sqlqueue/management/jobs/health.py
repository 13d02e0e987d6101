"""`manage.py jobs health`: is the queue served? The exit code tells a monitor."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...models import Job, Worker

HELP = "Fails when a due job waits too long, or no worker has shown itself of late."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--database", metavar="ALIAS", help="The database that holds the jobs.")
    parser.add_argument(
        "--max-age", type=float, default=300, metavar="S",
        help="Seconds that the longest-due job may wait (300).",
    )  # fmt: skip
    parser.add_argument(
        "--max-silence", type=float, default=60, metavar="S",
        help="Seconds since the last good pass of any worker (60).",
    )  # fmt: skip


def handle(
    command: BaseCommand,
    database: str | None,
    max_age: float,
    max_silence: float,
    **options: Any,
) -> None:
    """Say how the queue is; raises CommandError, exit code 1, when it is not well."""
    age = Job.objects.using(database).detail(limit=0).oldest_pending_ms
    silence = Worker.objects.using(database).seconds_since_last_sign()
    waiting = "nothing waits" if age is None else f"the oldest due job waits {age / 1000:.1f} s"
    seen = "no worker is known" if silence is None else f"last good pass {silence:.1f} s ago"
    said = f"{waiting}; {seen}"
    if (age or 0) > max_age * 1000 or silence is None or silence > max_silence:
        raise CommandError(f"Not well: {said}.", returncode=1)
    command.stdout.write(f"Well: {said}.")
