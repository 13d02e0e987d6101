"""Instants as Python holds them, and those that only the database's clock knows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from django.conf import settings
from django.utils import timezone


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
