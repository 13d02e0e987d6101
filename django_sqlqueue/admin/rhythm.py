"""A schedule's rhythm in words, and the form field for "every so often"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django import forms
from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

UNITS = (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
UNIT_WORDS = {
    "s": gettext_lazy("seconds"),
    "m": gettext_lazy("minutes"),
    "h": gettext_lazy("hours"),
    "d": gettext_lazy("days"),
    "w": gettext_lazy("weeks"),
}


def words(schedule: Any) -> str:
    """Return "every 15 minutes" or "on weekdays at 09:00"; else the expression as it stands."""
    if schedule.interval is not None and not schedule.cron:
        return every(schedule.interval)
    if not schedule.cron:
        return "–"
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
    minute, hour, day, month, weekday = expression.split() if _has_five(expression) else [""] * 5
    at = _at(minute, hour)
    plain = (day, month, weekday)
    if at is None:
        return _steps(minute, hour, plain) or expression
    if plain == ("*", "*", "*"):
        return _("every day at %s") % at
    if plain == ("*", "*", "1-5"):
        return _("on weekdays at %s") % at
    if plain[:2] == ("*", "*") and weekday.isdigit() and int(weekday) <= 7:
        return _("every %(day)s at %(time)s") % {
            "day": WEEKDAYS[(int(weekday) - 1) % 7], "time": at,
        }  # fmt: skip
    if plain[1:] == ("*", "*") and day.isdigit():
        return _("on day %(day)s of every month at %(time)s") % {"day": day, "time": at}
    if weekday == "*" and day.isdigit() and month.isdigit() and 1 <= int(month) <= 12:
        values = {"day": day, "month": MONTHS[int(month)], "time": at}
        return _("every year on %(month)s %(day)s at %(time)s") % values
    return expression


def _has_five(expression: str) -> bool:
    return len(expression.split()) == 5


def _at(minute: str, hour: str) -> str | None:
    if minute.isdigit() and hour.isdigit():
        return f"{int(hour):02}:{int(minute):02}"
    return None


def _steps(minute: str, hour: str, plain: tuple[str, str, str]) -> str | None:
    if plain != ("*", "*", "*"):
        return None
    step = re.fullmatch(r"\*/(\d+)", minute)
    if hour == "*" and minute == "*":
        return every(timedelta(minutes=1))
    if hour == "*" and step and 60 % int(step[1]) == 0:
        return every(timedelta(minutes=int(step[1])))
    if hour == "*" and minute.isdigit():
        return _("every hour at minute %s") % int(minute)
    return None


class EveryWidget(forms.MultiWidget):
    """A number and a unit."""

    def __init__(self, **kwargs: Any):
        number = forms.NumberInput(attrs={"min": "0", "step": "any", "aria-label": _("Number")})
        unit = forms.Select(choices=list(UNIT_WORDS.items()), attrs={"aria-label": _("Unit")})
        super().__init__([number, unit], **kwargs)

    def decompress(self, value: Any) -> list[Any]:
        if value is None:
            return [None, "m"]
        number, unit = split(value)
        return [f"{number:g}", unit]


class EveryField(forms.MultiValueField):
    """An interval, as a number and a unit; empty is None."""

    widget = EveryWidget

    def __init__(self, **kwargs: Any):
        fields = (
            forms.FloatField(required=False, min_value=0),
            forms.ChoiceField(choices=list(UNIT_WORDS.items()), required=False),
        )
        super().__init__(fields=fields, require_all_fields=False, **kwargs)

    def compress(self, values: list[Any]) -> timedelta | None:
        if not values or values[0] is None:
            return None
        try:
            return timedelta(seconds=values[0] * dict(UNITS)[values[1] or "m"])
        except OverflowError:
            raise forms.ValidationError(_("This is too long.")) from None
