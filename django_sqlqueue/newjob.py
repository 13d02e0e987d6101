"""What enqueue accepts: every value is checked here, before any SQL."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings as django_settings
from django.utils import timezone

from . import payloads
from .conf import settings
from .durations import Seconds, to_seconds
from .exceptions import InvalidJob

MAX_LENGTHS = {
    "kind": 200, "name": 200, "queue": 100, "dedup_key": 255, "ref": 255, "owner": 200,
    "uri": 10_000,
}  # fmt: skip
EARLIEST = datetime(1000, 1, 2, tzinfo=UTC)
LATEST = datetime(9998, 12, 31, tzinfo=UTC)
"""Every engine stores and sorts instants within these."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to enqueue with enqueue_many; the fields are enqueue's own arguments."""

    kind: str
    payload: Any = None
    dedup_key: str | None = None
    ref: str = ""
    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: Seconds | timedelta | None = None
    deadline: datetime | timedelta | None = None
    max_attempts: int | None = None


def check_text(field: str, value: Any, *, blank: bool = False) -> str:
    """Return a text as it is stored; raises InvalidJob for what an engine would change."""
    if not isinstance(value, str):
        raise InvalidJob(field, f"must be a string, not {type(value).__name__}.")
    if not value and not blank:
        raise InvalidJob(field, "must not be empty.")
    limit = MAX_LENGTHS[field]
    if len(value) > limit:
        raise InvalidJob(field, f"has {len(value)} characters; at most {limit} fit.")
    if problem := payloads.text_problem(value):
        raise InvalidJob(field, problem)
    return str.__str__(value)


def check_queue(queue: Any) -> str:
    """Return a queue's name; raises InvalidJob where SQLQUEUE["QUEUES"] does not list it."""
    queue = check_text("queue", queue)
    if settings.QUEUES is not None and queue not in settings.QUEUES:
        raise InvalidJob("queue", f"{queue!r} is not listed in SQLQUEUE['QUEUES'].")
    return queue


def check_whole(field: str, value: Any, least: int, most: int) -> int:
    """Return a whole number within bounds; raises InvalidJob otherwise."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidJob(field, f"must be a whole number, not {type(value).__name__}.") from None
    if not least <= number <= most:
        raise InvalidJob(field, f"must be from {least:,} to {most:,}, not {number}.")
    return int(number)


def check_instant(field: str, value: Any) -> datetime:
    """Return an instant, aware and in UTC; naive means local time where USE_TZ is False.

    Raises InvalidJob for a naive datetime under USE_TZ, another type, and a time beyond the
    years 1000 to 9998.
    """
    if not isinstance(value, datetime):
        hint = " (use delay for a time from now)" if isinstance(value, timedelta) else ""
        hint = " (a date names no hour)" if isinstance(value, date) else hint
        raise InvalidJob(field, f"must be a datetime, not {type(value).__name__}{hint}.")
    if timezone.is_naive(value) and django_settings.USE_TZ:
        raise InvalidJob(
            field, "is naive while USE_TZ is True; give it a time zone, as timezone.now() has."
        )
    try:
        if timezone.is_naive(value):
            value = timezone.make_aware(value, timezone.get_default_timezone())
        value = value.astimezone(UTC)
    except OverflowError:
        value = None
    if value is None or not EARLIEST <= value <= LATEST:
        raise InvalidJob(field, "must lie in the years 1000 to 9998.")
    return value


def check_max_attempts(value: Any) -> int:
    return check_whole("max_attempts", value, 1, 1_000_000_000)


def check_priority(value: Any) -> int:
    return check_whole("priority", value, -100, 100)


def check_delay(field: str, value: Any) -> float:
    return to_seconds(field, value)
