"""Durations as people give them (seconds or timedelta) and as the code uses them (seconds)."""

from __future__ import annotations

import math
from datetime import timedelta

Seconds = int | float

LONGEST = 100 * 366 * 24 * 3600.0
"""No wait is longer than a century: beyond it, date arithmetic overflows on every engine."""


def to_seconds(field: str, value: Seconds | timedelta) -> float:
    """Return a duration in seconds.

    Raises InvalidJob, naming `field`, for anything that is not a finite number of seconds or a
    timedelta between 0 and a century.
    """
    from .exceptions import InvalidJob

    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidJob(
            field, f"must be a timedelta or a number of seconds, not {type(value).__name__}."
        )
    if not 0 <= value <= LONGEST or math.isnan(value):
        raise InvalidJob(field, f"must be between 0 seconds and a century, not {value!r}.")
    return float(value)


def clamp(seconds: float) -> float:
    """Return `seconds` within 0 and a century; what is not a number counts as 0."""
    return 0.0 if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST)
