"""Which occurrence of a schedule comes next, and what its rhythm may be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from .durations import to_seconds
from .exceptions import InvalidJob
from .policy import Occurrence
from .rhythms import Cron, Every, Rhythm, load_cronsim

MISSED = ("once", "all", "skip")
PUT_OFF = timedelta(minutes=1)
"""How long a schedule waits whose rhythm cannot be read where it is due."""


def rhythm_of(schedule: Any) -> Rhythm:
    """Return the rhythm of a schedule's row (its interval, or its cron and timezone)."""
    if schedule.cron:
        return Cron(schedule.cron, schedule.timezone)
    return Every(schedule.interval)


def following(
    rhythm: Rhythm, due_at: datetime, started_at: datetime, now: datetime, missed: str
) -> Occurrence:
    """Return the occurrence that follows the one of `due_at`, whose run started at `started_at`.

    That run stands for every due time up to its start, except under "all". Due times that came
    and went during the run itself are missed in turn: one run is made for all of them.
    """
    if missed == "all":
        return Occurrence(rhythm.after(due_at, due_at))
    covered = rhythm.latest(started_at, due_at)
    following_due = rhythm.after(max(covered, due_at), due_at)
    latest = max(rhythm.latest(now, due_at), following_due)
    return Occurrence(latest, rhythm.count(due_at, latest) - 1)


def latest_due(rhythm: Rhythm, due_at: datetime, now: datetime) -> Occurrence:
    """Return the newest occurrence that is due, all before it passed over."""
    latest = rhythm.latest(now, due_at)
    return Occurrence(latest, rhythm.count(due_at, latest))


def is_missed(rhythm: Rhythm, due_at: datetime, now: datetime) -> bool:
    """Say whether the occurrence is missed: the next one is due too."""
    return rhythm.after(due_at, due_at) <= now


def check_every(every: Any) -> timedelta:
    """Return the interval of a schedule; raises InvalidJob for less than a millisecond."""
    interval = timedelta(seconds=to_seconds("every", every))
    if interval < timedelta(milliseconds=1):
        raise InvalidJob("every", "must be at least a millisecond.")
    return interval


def check_cron(expression: Any, zone: str) -> Cron:
    """Return a cron rhythm; raises InvalidJob for a wrong expression, or one that never comes."""
    if not isinstance(expression, str) or not expression.strip():
        raise InvalidJob("cron", "must be a five-field expression such as '30 2 * * *'.")
    cronsim = load_cronsim()
    expression = ALIASES.get(expression.strip().lower(), expression.strip())
    if len(expression.split()) != 5 or len(expression) > 200:
        raise InvalidJob("cron", f"must have five fields, not {expression[:60]!r}.")
    try:
        next(cronsim(expression, datetime(2024, 1, 1, tzinfo=UTC)))
    except StopIteration:
        raise InvalidJob("cron", f"never comes: {expression!r}.") from None
    except Exception as error:
        raise InvalidJob("cron", f"cannot be read: {expression!r} ({error}).") from None
    return Cron(expression, zone)


ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def check_zone(zone: Any) -> str:
    """Return the name of a time zone; raises InvalidJob for one that does not exist."""
    name = getattr(zone, "key", zone)
    try:
        return ZoneInfo(name).key
    except Exception:
        raise InvalidJob(
            "timezone", f"is no time zone: {name!r}; use a name such as 'Europe/Berlin'."
        ) from None


def check_missed(missed: Any) -> str:
    if missed not in MISSED:
        raise InvalidJob("missed", f"must be one of {MISSED}, not {missed!r}.")
    return missed
