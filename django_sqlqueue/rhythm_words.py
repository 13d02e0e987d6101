"""A schedule's rhythm in words; the admin and `manage.py jobs schedules` say it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from .rhythms import load_cronsim

UNITS = (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def words(schedule: Any) -> str:
    """Return "every 15 minutes" or "on weekdays at 09:00"; else the expression in its own way."""
    if not schedule.cron:
        return every(schedule.interval) if schedule.interval is not None else "–"
    found = _cron(schedule.cron)
    return f"{found} ({schedule.timezone})" if schedule.timezone else found


def every(interval: timedelta) -> str:
    number, unit = split(interval)
    if unit == "s":
        return ngettext("every second", "every %(number)s seconds", _count(number)) % {
            "number": f"{number:g}"
        }
    texts = {
        "m": ngettext("every minute", "every %(number)s minutes", _count(number)),
        "h": ngettext("every hour", "every %(number)s hours", _count(number)),
        "d": ngettext("every day", "every %(number)s days", _count(number)),
        "w": ngettext("every week", "every %(number)s weeks", _count(number)),
    }
    return texts[unit] % {"number": f"{number:g}"}


def _count(number: float) -> int:
    return 1 if number == 1 else 2


def split(interval: timedelta) -> tuple[float, str]:
    """Return an interval as a number of the largest unit that divides it."""
    seconds = interval.total_seconds()
    for unit, size in UNITS:
        if seconds >= size and seconds % size == 0:
            return seconds // size, unit
    return seconds, "s"


def _cron(expression: str) -> str:
    fields = expression.lower().split()
    if len(fields) != 5:
        return expression
    minute, hour, day, month, weekday = fields
    weekday = "-".join(str(DAYS.index(d)) if d in DAYS else d for d in weekday.split("-"))
    at = _at(minute, hour)
    plain = (day, month, weekday)
    if at is None:
        return _steps(minute, hour, plain) or _explained(expression)
    if plain == ("*", "*", "*"):
        return _("every day at %s") % at
    if plain == ("*", "*", "1-5"):
        return _("on weekdays at %s") % at
    if plain[:2] == ("*", "*") and weekday.isdecimal() and int(weekday) <= 7:
        return _("every %(day)s at %(time)s") % {
            "day": WEEKDAYS[(int(weekday) - 1) % 7], "time": at,
        }  # fmt: skip
    if plain[1:] == ("*", "*") and day.isdecimal():
        return _("on day %(day)s of every month at %(time)s") % {"day": day, "time": at}
    if weekday == "*" and day.isdecimal() and month.isdecimal() and 1 <= int(month) <= 12:
        values = {"day": day, "month": MONTHS[int(month)], "time": at}
        return _("every year on %(month)s %(day)s at %(time)s") % values
    return _explained(expression)


def _explained(expression: str) -> str:
    """Return what the library of cron expressions says, which it does in English only."""
    if not (get_language() or "en").startswith("en"):
        return expression
    try:
        text = str(load_cronsim()(expression, datetime(2024, 1, 1, tzinfo=UTC)).explain())
    except Exception:
        return expression
    return text[:1].lower() + text[1:]


def _at(minute: str, hour: str) -> str | None:
    if minute.isdecimal() and hour.isdecimal():
        return f"{int(hour):02}:{int(minute):02}"
    return None


def _steps(minute: str, hour: str, plain: tuple[str, str, str]) -> str | None:
    if plain != ("*", "*", "*"):
        return None
    step = re.fullmatch(r"\*/([1-9]\d*)", minute)
    if hour == "*" and minute == "*":
        return every(timedelta(minutes=1))
    if hour == "*" and step and 60 % int(step[1]) == 0:
        return every(timedelta(minutes=int(step[1])))
    if hour == "*" and minute.isdecimal():
        return _("every hour at minute %s") % int(minute)
    return None
