"""Rhythms: the grid of due times of an interval, and of a cron expression in a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from .exceptions import InvalidJob

TICK = timedelta(microseconds=1)
DAY = timedelta(days=1)
LARGEST_CHANGE = timedelta(hours=25)
"""No clock is put back or forward by more: a day, where the date line was moved."""
MOST_COUNTED = timedelta(days=36_525)
"""Due times of a cron schedule are counted over the last century at most."""


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
        position = max(start, end - MOST_COUNTED)
        counted = 0
        for first, beyond in self._plain_days(position, end):
            counted += self._count_singly(position, self._midnight(first) - TICK)
            counted += self._count_days(first, beyond)
            position = self._midnight(beyond) - TICK
        return counted + self._count_singly(position, end)

    def _count_singly(self, start: datetime, end: datetime) -> int:
        return sum(1 for _ in takewhile(lambda due: due <= end, self._matches(start)))

    def _count_days(self, first: datetime, beyond: datetime) -> int:
        """Return how many due times lie on days that are all of 24 hours."""
        minute, hour, *days = self.expression.split()
        if days == ["*", "*", "*"]:
            matching = (beyond - first).days
        else:
            found = load_cronsim()(f"0 0 {' '.join(days)}", first - TICK)
            matching = sum(1 for _ in takewhile(lambda day: day < beyond, found))
        a_day = load_cronsim()(f"{minute} {hour} * * *", first - TICK)
        return matching * sum(1 for _ in takewhile(lambda due: due < first + DAY, a_day))

    def _plain_days(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the stretches of days of 24 hours between the instants, by their midnights."""
        zone = ZoneInfo(self.zone)
        first, last = (
            instant.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
            for instant in (start, end)
        )
        day = first = first + DAY
        while day < last:
            if self._midnight(day + DAY) - self._midnight(day) != DAY:
                if first < day:
                    yield first, day
                first = day + DAY
            day += DAY
        if first < last:
            yield first, last

    def _midnight(self, day: datetime) -> datetime:
        return _first_instant(day, ZoneInfo(self.zone))

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
        since, offset = instant, _offset(instant, zone)
        while True:
            for match in self._walls(instant.replace(tzinfo=None) + offset, reverse):
                due = (match - offset).replace(tzinfo=UTC)
                if _offset(due, zone) != offset:
                    break
                yield due
            else:
                return
            # The clocks change before it: go on from there by the new time of day.
            since = _beyond_change(since, due, zone)
            offset = _offset(since, zone)
            instant = since if reverse else since - TICK

    def _walls(self, wall: datetime, reverse: bool) -> Iterator[datetime]:
        """Yield the readings of a clock that never changes, after `wall` or up to it."""
        if reverse:
            wall = wall.replace(second=0, microsecond=0) + timedelta(minutes=1)
        matches: Iterator[datetime] = load_cronsim()(self.expression, wall, reverse=reverse)
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


def load_cronsim() -> Any:
    try:
        from cronsim import CronSim
    except ImportError:
        raise InvalidJob(
            "cron", "needs the package cronsim; install django-sqlqueue[cron], or use every=."
        ) from None
    return CronSim
