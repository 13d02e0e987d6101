"""Values as people read them: words, ages, JSON; all escaped, and redacted where asked for."""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime
from typing import Any

from django.utils.formats import localize
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince, timeuntil
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import settings
from ..engines.instants import as_attribute, as_aware
from ..fields import DamagedJSON
from ..lifecycle import CANCELLED, DONE, FAILED, READY, RUNNING, STATUSES
from ..managers.adjusting import is_paused
from ..models import Job
from ..runner_names import in_short

log = logging.getLogger("django_sqlqueue")

WORDS = {
    READY: gettext_lazy("ready"),
    RUNNING: gettext_lazy("running"),
    DONE: gettext_lazy("done"),
    FAILED: gettext_lazy("failed"),
    CANCELLED: gettext_lazy("cancelled"),
}
OUTCOMES = {
    "done": gettext_lazy("done"),
    "retried": gettext_lazy("failed, to be retried"),
    "failed": gettext_lazy("failed for good"),
    "deferred": gettext_lazy("deferred"),
    "released": gettext_lazy("given back"),
    "lost": gettext_lazy("lost with its worker"),
    "cancelled": gettext_lazy("cancelled"),
}
SHORT = 3_000
"""So many characters of a JSON text are shown before "show all"."""


def status(job: Job) -> SafeString:
    """Return the status as a word with a colour of its own; one of a newer version has none."""
    known = job.status if job.status in STATUSES else "unknown"
    word = WORDS.get(job.status, job.status)
    badge = format_html('<span class="sq-status sq-{}">{}</span>', known, word)
    if job.status == RUNNING and job.cancel_requested_at is not None:
        return format_html('{} <span class="sq-quiet">{}</span>', badge, _("asked to stop"))
    return badge


def moment(value: datetime | None, now: datetime) -> SafeString | str:
    """Return "5 minutes ago" or "in 5 minutes", with the exact time as its title."""
    if value is None:
        return "–"
    value = as_aware(value)
    words = _("%s ago") % timesince(value, now, depth=1)
    if value > now:
        words = _("in %s") % timeuntil(value, now, depth=1)
    elif (now - value).total_seconds() < 60:
        words = _("just now") if (now - value).total_seconds() < 5 else _("%d s ago") % (
            (now - value).total_seconds()
        )  # fmt: skip
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', value.isoformat(), exact(value), words
    )


def due(job: Job, now: datetime) -> SafeString | str:
    """Return when the job is due; a paused schedule is due at no time."""
    return _("paused") if is_paused(job) else moment(job.run_at, now)


def breakable(text: str) -> SafeString:
    """Return a dotted name that may be broken after its dots and underscores."""
    parts = re.split(r"(?<=[._:/-])", text)
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in parts))


def runner(owner: str) -> SafeString:
    """Return the machine and process of a runner, with its whole name as the title."""
    return format_html('<span title="{}">{}</span>', owner, breakable(in_short(owner)))


def exact(value: datetime) -> str:
    """Return an instant in the current time zone, as the active language writes it."""
    value = as_attribute(as_aware(value))
    return str(localize(localtime(value) if value.tzinfo else value))


def span(start: datetime | None, end: datetime | None) -> str:
    """Return a duration as "1.2 s", "3 min 20 s", "2 h 5 min" or "3 d 4 h"."""
    if start is None or end is None:
        return "–"
    seconds = max((as_aware(end) - as_aware(start)).total_seconds(), 0)
    if seconds < 1:
        return _("%d ms") % round(seconds * 1000)
    if seconds < 60:
        return _("%s s") % localize(round(seconds, 1))
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    days, hours = divmod(hours, 24)
    return _("%(days)d d %(hours)d h") % {"days": days, "hours": hours}


def redacted(field: str, value: Any, job: Job | None) -> Any:
    """Return what SQLQUEUE["REDACT"] lets through of a payload, result or reason.

    Where the callable itself fails nothing of the value is shown.
    """
    if settings.REDACT is None:
        return value
    try:
        return settings.REDACT(field, value, job)
    except Exception as error:
        log.error("SQLQUEUE['REDACT'] raised %s; the value is hidden.", type(error).__name__)
        return _("(hidden: the redaction failed)")


def reason(value: str, job: Job | None) -> str:
    """Return a reason as it may be shown."""
    return str(redacted("reason", value, job)) if value else ""


def as_json(value: Any) -> str:
    """Return a payload or a result as indented JSON; damaged text as it stands."""
    if isinstance(value, DamagedJSON):
        return str(value)
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
