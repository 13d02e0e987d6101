"""The overview: how the queue is doing, every figure bounded and linked to its jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from django.utils.formats import localize, number_format, time_format
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from ..conf import settings
from ..engines.instants import as_attribute
from ..explanation import alive_workers
from ..lifecycle import DONE, FAILED, RUNNING, STATUSES
from ..managers.base import with_status
from ..managers.measuring import CAP, Failures
from ..models import Job, PausedQueue, Worker
from . import charts, shown
from .filters import reason_link

CAP_OF_STRIP = 10_000
MOST_REASONS = 50


@dataclass(frozen=True, slots=True)
class Count:
    """The number of jobs of a status, with its link."""

    status: str
    word: Any
    number: str
    url: str


@dataclass(slots=True)
class QueueLine:
    name: str
    waiting: str = "0"
    running: int = 0
    failed: str = "0"
    oldest: Any = "–"
    paused_since: Any = None
    workers: int = 0
    links: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ReasonLine:
    """The failed jobs of one reason."""

    reason: SafeString
    link: str
    first: datetime
    last: datetime
    url: str = ""
    count: int = 0
    kinds: list[tuple[SafeString, str]] = field(default_factory=list)
    when: Any = None


def list_url(**filters: str) -> str:
    """Return the address of the job list with these filters."""
    url = reverse("admin:django_sqlqueue_job_changelist")
    return f"{url}?{urlencode(filters)}" if filters else url


def counts(limit: int) -> list[Count]:
    """Return the number of jobs by status, none looking at more than `limit` rows."""
    return [
        Count(status, shown.WORDS[status], number(found, limit), list_url(status=status))
        for status, found in Job.objects.stats_up_to(limit).items()
    ]


def number(count: int, limit: int = CAP) -> str:
    """Return a count as people write it, with a plus where there may be more."""
    return grouped(count) + ("+" if count >= limit else "")


def grouped(count: int) -> str:
    return number_format(count, force_grouping=True)


def strip() -> dict[str, Any]:
    """Return what stands above the job list."""
    return {
        "counts": counts(CAP_OF_STRIP),
        "overview_url": reverse("admin:django_sqlqueue_job_overview"),
        "paused": sorted(PausedQueue.objects.paused()),
    }


def context() -> dict[str, Any]:
    """Return what the overview shows."""
    now = Job.objects.all().engine.now()
    workers = alive_workers(now)
    return {
        "counts": counts(CAP),
        "oldest": _oldest(now),
        "workers": len(workers),
        "workers_url": reverse("admin:django_sqlqueue_worker_changelist"),
        "jobs_url": list_url(),
        "charts": [_last_hour(now), _last_day(now)],
        "queues": _queues(now, workers),
        "reasons": _reasons(Job.objects.failures(CAP), now),
        "cap": grouped(CAP),
    }


def _oldest(now: datetime) -> Any:
    age = Job.objects.oldest_pending_ms()
    return None if age is None else shown.span(now - timedelta(milliseconds=age), now)


# Charts


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    done: str
    failed: str
    share: str
    svg: SafeString
    starts: str
    ends: str
    links: dict[str, str]


def _last_hour(now: datetime) -> Chart:
    return _chart(_("Last hour"), "hour", now, timedelta(minutes=2), 30)


def _last_day(now: datetime) -> Chart:
    return _chart(_("Last 24 hours"), "day", now, timedelta(hours=1), 24)


def _chart(title: str, ended: str, now: datetime, step: timedelta, steps: int) -> Chart:
    """Return the chart of a span that the list's filter EndedFilter calls `ended`."""
    edges = [now - step * (steps - place) for place in range(steps + 1)]
    edges[-1] += timedelta(seconds=5)
    done = Job.objects.settled_between(DONE, edges)
    failed = Job.objects.settled_between(FAILED, edges)
    found = [
        charts.Bar(_label(start, done=good, failed=bad), good, bad)
        for start, good, bad in zip(edges, done, failed, strict=False)
    ]
    values = {"done": grouped(sum(done)), "failed": grouped(sum(failed))}
    share = 100 * sum(failed) / max(sum(done) + sum(failed), 1)
    return Chart(
        title,
        values["done"],
        values["failed"],
        str(localize(round(share, 1))),
        charts.bars(title, _("%(done)s done, %(failed)s failed") % values, found),
        _clock(edges[0]),
        _clock(now),
        {status: list_url(status=status, ended=ended) for status in (DONE, FAILED)},
    )


def _label(start: datetime, **values: int) -> str:
    words = {key: grouped(value) for key, value in values.items()} | {"time": _clock(start)}
    return _("from %(time)s: %(done)s done, %(failed)s failed") % words


def _clock(value: datetime) -> str:
    value = as_attribute(value)
    return time_format(localtime(value) if value.tzinfo else value, "TIME_FORMAT")


# Queues


def _queues(now: datetime, workers: Iterable[Worker]) -> list[QueueLine]:
    lines: dict[str, QueueLine] = {}

    def line(name: str) -> QueueLine:
        return lines.setdefault(name, QueueLine(name))

    for queue in settings.QUEUES or ():
        line(queue)
    for waiting in Job.objects.waiting():
        line(waiting.queue).waiting = number(waiting.count)
        if waiting.oldest is not None and waiting.oldest <= now:
            line(waiting.queue).oldest = shown.span(waiting.oldest, now)
    for queue, count in Job.objects.filter(with_status(RUNNING)).count_by("queue"):
        line(queue).running = count
    failed = Job.objects.filter(status=FAILED, finished_at__isnull=False)
    for queue, count in failed.count_by("queue"):
        line(queue).failed = number(count)
    for paused in PausedQueue.objects.all():
        line(paused.name).paused_since = shown.moment(paused.paused_at, now)
    for one in lines.values():
        one.workers = sum(1 for w in workers if w.queues is None or one.name in w.queues)
        one.links = {s: list_url(queue=one.name, status=s) for s in STATUSES}
    return [lines[name] for name in sorted(lines)]


# Reasons


def _reasons(found: Iterable[Failures], now: datetime) -> list[ReasonLine]:
    lines: dict[str, ReasonLine] = {}
    for group in found:
        line = lines.get(group.reason)
        if line is None:
            link = reason_link(group.reason, group.newest_id)
            text = shown.breakable(shown.reason(group.reason, None))
            line = ReasonLine(text, link, group.first, group.last)
            lines[group.reason] = line
        line.count += group.count
        line.first, line.last = min(line.first, group.first), max(line.last, group.last)
        kind = shown.breakable(group.kind)
        line.kinds.append((kind, list_url(status=FAILED, reason=line.link, kind=group.kind)))
    most = sorted(lines.values(), key=lambda line: -line.count)[:MOST_REASONS]
    for line in most:
        line.url = list_url(status=FAILED, reason=line.link)
        line.when = (shown.moment(line.first, now), shown.moment(line.last, now))
    return most
