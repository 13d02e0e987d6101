"""`manage.py jobs schedules`: what recurs, when it is due next, and how it went last."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.management.base import BaseCommand

from ...engines.instants import as_aware
from ...lifecycle import LIVE
from ...managers.adjusting import is_paused
from ...models import Job
from ...rhythm_words import words

HELP = "Lists the schedules: kind, rhythm, next due time in its zone, last outcome."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--database", metavar="ALIAS", help="The database that holds the jobs.")


def handle(command: BaseCommand, database: str | None, **options: Any) -> None:
    schedules = Job.objects.using(database).filter(name__isnull=False).order_by("name")
    table: list[tuple[str, ...]] = [("NAME", "KIND", "RHYTHM", "NEXT DUE", "LAST OUTCOME")]
    table += [_line(schedule) for schedule in schedules.defer("payload", "result")]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        command.stdout.write("  ".join(cells).rstrip())


def _line(schedule: Job) -> tuple[str, ...]:
    name, kind = str(schedule.name), schedule.kind
    return name, kind, words(schedule), _next_due(schedule), _last_outcome(schedule)


def _next_due(schedule: Job) -> str:
    if schedule.status not in LIVE:
        return schedule.status
    if is_paused(schedule):
        return "paused"
    try:
        zone = ZoneInfo(schedule.timezone or settings.TIME_ZONE)
    except Exception:
        zone = ZoneInfo("UTC")
    local = as_aware(schedule.due_at or schedule.run_at).astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M:%S} {zone.key}"


def _last_outcome(schedule: Job) -> str:
    last = schedule.history.order_by("-id").first()
    if last is None:
        return "never ran"
    return f"{last.outcome} ({last.reason})" if last.reason else last.outcome
