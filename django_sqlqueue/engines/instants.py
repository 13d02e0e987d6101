"""Instants as Python holds them, as columns do, and those that only the database's clock knows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from django.conf import settings
from django.utils import timezone

from .link import Link


class After(NamedTuple):
    """An instant that the write itself computes: so many seconds after its clock."""

    seconds: float = 0.0


def as_aware(value: datetime) -> datetime:
    """Return an instant in UTC, from what an attribute holds."""
    if value.tzinfo is None:
        value = timezone.make_aware(value, timezone.get_default_timezone())
    return value.astimezone(UTC)


def as_attribute(value: datetime) -> datetime:
    """Return an aware instant as Django's attributes hold it under the project's USE_TZ."""
    if settings.USE_TZ:
        return value
    return timezone.make_naive(value, timezone.get_default_timezone())


def read_utc(value: datetime | str) -> datetime:
    """Return an instant in UTC, from a column that holds UTC without saying so."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.replace(tzinfo=UTC)


class Instants(Link):
    """How one engine tells, reads and writes instants."""

    clock: ClassVar[str]
    """SQL for the present instant, in UTC, moving on inside a transaction."""
    instant_type: ClassVar[str]

    def instant(self, value: datetime) -> Any:
        """Return the parameter for an instant: naive means local time, as in Django."""
        return as_aware(value).replace(tzinfo=None)

    def read_instant(self, value: Any) -> datetime:
        """Return an instant as an attribute holds it: aware under USE_TZ, else naive local."""
        return as_attribute(read_utc(value))

    def instant_reader(self) -> Callable[[Any], datetime] | None:
        """Return read_instant for many rows; None where the driver makes attributes itself."""
        return read_utc if settings.USE_TZ else self.read_instant

    def now(self) -> datetime:
        """Return the server's clock (the host's on SQLite), aware and in UTC."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT {self.clock}")
            return as_aware(self.read_instant(cursor.fetchone()[0]))

    def moment(self, at: datetime | After, now: datetime | None) -> tuple[str, list[Any]]:
        """Return SQL and parameters of an instant; `now` replaces the clock where it is given."""
        if isinstance(at, After) and now is not None:
            at = as_aware(now) + timedelta(seconds=at.seconds)
        if isinstance(at, After):
            return self._after_clock(at.seconds)
        return f"CAST(%s AS {self.instant_type})", [self.instant(at)]

    def _after_clock(self, seconds: float) -> tuple[str, list[Any]]:
        raise NotImplementedError
