"""When a schedule is due: the grid of its due times, and what becomes of those missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from .durations import to_seconds
from .exceptions import InvalidJob
from .policy import Occurrence

MISSED = ("once", "all", "skip")
PUT_OFF = timedelta(minutes=1)
"""How long a schedule waits whose rhythm cannot be read where it is due."""
TICK = timedelta(microseconds=1)
LARGEST_CHANGE = timedelta(hours=25)
"""No clock is put back or forward by more: a day, where the date line was moved."""
MAX_COUNTED = 100_000
"""Missed occurrences of a cron schedule are counted one by one, but not beyond this."""


class Rhythm(Protocol):
    """A grid of due times; all instants are aware and in UTC."""

    def after(self, instant: datetime, anchor: datetime) -> datetime:
        """Return the first due time after `instant`; `anchor` is a known point of the grid."""

    def latest(self, instant: datetime, anchor: datetime) -> datetime:
        """Return the last due time not after `instant`, or `anchor` where none is later."""

    def count(self, start: datetime, end: datetime) -> int:
        """Return how many due times lie after `start` and not after `end`, both on the grid."""


@dataclass(frozen=True, slots=True)
class Every:
    """Due every `interval`, in real time, whatever the clocks on the wall do."""

    interval: timedelta

    def after(self, instant: datetime, anchor: datetime) -> datetime:
        return anchor + self.interval * max((instant - anchor) // self.interval + 1, 1)

    def latest(self, instant: datetime, anchor: datetime) -> datetime:
        return anchor + self.interval * max((instant - anchor) // self.interval, 0)

    def count(self, start: datetime, end: datetime) -> int:
        return (end - start) // self.interval


@dataclass(frozen=True, slots=True)
class Cron:
    """Due when a five-field expression matches the wall clock of `zone`.

    A fixed hour names one run a day: in an hour that the clocks skip it comes right after the
    gap, in one that they repeat the first time. An hour field with a star follows real time.
    """

    expression: str
    zone: str

    def after(self, instant: datetime, anchor: datetime) -> datetime:
        return next(self._matches(max(instant, anchor)))

    def latest(self, instant: datetime, anchor: datetime) -> datetime:
        return max(next(self._matches(instant, reverse=True), anchor), anchor)

    def count(self, start: datetime, end: datetime) -> int:
        counted = 0
        for match in islice(self._matches(start), MAX_COUNTED):
            if match > end:
                break
            counted += 1
        return counted

    def _matches(self, instant: datetime, reverse: bool = False) -> Iterator[datetime]:
        """Yield the due times after the instant, or those up to it, newest first."""
        if "*" in self.expression.split()[1]:
            return self._in_real_time(instant, reverse)
        return self._once_a_day(instant, reverse)

    def _once_a_day(self, instant: datetime, reverse: bool) -> Iterator[datetime]:
        zone = ZoneInfo(self.zone)
        local = instant.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        if reverse and local.fold:
            # All that the repeated hour still shows has been when it came first.
            wall += LARGEST_CHANGE
        last = None
        for match in self._walls(wall, reverse):
            due = _first_instant(match, zone)
            if due != last and (due <= instant if reverse else due > instant):
                yield due
                last = due

    def _in_real_time(self, instant: datetime, reverse: bool) -> Iterator[datetime]:
        zone = ZoneInfo(self.zone)
        offset = _offset(instant, zone)
        while True:
            for match in self._walls(instant.replace(tzinfo=None) + offset, reverse):
                due = (match - offset).replace(tzinfo=UTC)
                if _offset(due, zone) != offset:
                    break
                yield due
            else:
                return
            # The clocks change before it: go on from there by the new time of day.
            instant = _beyond_change(instant, due, zone)
            offset = _offset(instant, zone)
            if not reverse:
                instant -= TICK

    def _walls(self, wall: datetime, reverse: bool) -> Iterator[datetime]:
        """Yield the readings of a clock that never changes, after `wall` or up to it."""
        if reverse:
            wall = wall.replace(second=0, microsecond=0) + timedelta(minutes=1)
        matches: Iterator[datetime] = _cronsim()(self.expression, wall, reverse=reverse)
        return matches


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def _first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return when a clock first shows this; where it skips it, the end of the gap."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return instant
    return _beyond_change(instant - LARGEST_CHANGE, instant, zone)


def _beyond_change(start: datetime, end: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment, on the way from `start` to `end`, with another offset.

    The way may lead back in time.
    """
    offset, same, other = _offset(start, zone), 0, (end - start) // TICK
    while abs(other - same) > 1:
        middle = (same + other) // 2
        if _offset(start + middle * TICK, zone) == offset:
            same = middle
        else:
            other = middle
    return start + other * TICK


def _cronsim() -> Any:
    try:
        from cronsim import CronSim
    except ImportError:
        raise InvalidJob(
            "cron", "needs the package cronsim; install django-sqlqueue[cron], or use every=."
        ) from None
    return CronSim


def rhythm_of(schedule: Any) -> Rhythm:
    """Return the rhythm of a schedule's row (its interval, or its cron and timezone)."""
    if schedule.cron:
        return Cron(schedule.cron, schedule.timezone)
    return Every(schedule.interval)


def in_words(schedule: Any) -> str:
    """Return a schedule's rhythm as people say it."""
    if not schedule.cron:
        return f"every {_span(schedule.interval)}" if schedule.interval else "once"
    try:
        words = _cronsim()(schedule.cron, datetime(2024, 1, 1, tzinfo=UTC)).explain()
    except Exception:
        words = schedule.cron
    return f"{words}, {schedule.timezone}"


def _span(interval: timedelta) -> str:
    """Return an interval in the largest units that it fills."""
    parts = []
    left = interval.total_seconds()
    for unit, seconds in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        number, left = divmod(left, seconds)
        if number:
            parts.append(f"{number:g} {unit}{'s' if number > 1 else ''}")
    if left or not parts:
        parts.append(f"{left:g} second{'' if left == 1 else 's'}")
    return " ".join(parts)


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
    cronsim = _cronsim()
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
