"""Why a job is not running now, in one sentence; the admin and `manage.py jobs why` say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils.formats import date_format
from django.utils.timesince import timesince
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .engines.instants import as_attribute, as_aware
from .lifecycle import CANCELLED, DONE, FAILED, READY, RUNNING
from .managers.adjusting import is_paused
from .managers.base import with_status
from .models import Job, PausedQueue, Worker
from .runner_names import in_short

ALIVE_WITHIN = timedelta(minutes=1)
"""A worker that has shown no sign of life for longer is taken for gone."""
MOST_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class Explanation:
    """What keeps a job from running."""

    cause: str
    """One word or two for programs, such as "not_due"."""
    sentence: str
    """For people, in the active language."""

    def __post_init__(self) -> None:
        # An instant may end with a full stop of its own, as "4 p.m." does.
        if self.sentence.endswith(".."):
            object.__setattr__(self, "sentence", self.sentence[:-1])


def explain(job: Job) -> Explanation:
    """Return why the job is not running now; the first cause of several."""
    now = Job.objects.using(job._state.db).engine.now()
    if job.status != READY:
        return _of_status(job, now)
    causes: tuple[Callable[[Job, datetime], Explanation | None], ...] = (
        _paused_schedule, _deadline, _paused_queue, _not_due, _no_worker, _behind,
    )  # fmt: skip
    for cause in causes:
        if found := cause(job, now):
            return found
    return Explanation("next", _("It is due and first in line: the next free worker takes it."))


def alive_workers(now: datetime, using: str | None = None) -> list[Worker]:
    """Return the workers of this database that have shown a sign of life lately."""
    workers: Any = Worker.objects.using(using)
    return list(workers.filter(last_seen_at__gte=now - ALIVE_WITHIN).order_by("runner"))


def serves(worker: Worker, kind: str, queue: str) -> bool:
    """Say whether the worker takes jobs of this kind from this queue."""
    return kind in (worker.kinds or ()) and (worker.queues is None or queue in worker.queues)


def instant(value: datetime) -> str:
    """Return an instant as people write it, in the current time zone."""
    value = as_attribute(as_aware(value))
    return date_format(localtime(value) if value.tzinfo else value, "DATETIME_FORMAT")


def _between(start: datetime, end: datetime) -> str:
    """Return a span in its largest unit; Django's words know no seconds."""
    seconds = int((end - start).total_seconds())
    if seconds < 60:
        return _("%s s") % max(seconds, 0)
    return timesince(start, end, depth=1)


def _of_status(job: Job, now: datetime) -> Explanation:
    if job.status == RUNNING:
        return _running(job, now)
    values: dict[str, Any] = {"when": instant(job.finished_at) if job.finished_at else "?"}
    if job.status == DONE:
        return Explanation(DONE, _("It was done on %(when)s.") % values)
    if job.status == CANCELLED:
        return Explanation(CANCELLED, _("It was cancelled on %(when)s.") % values)
    if job.status == FAILED:
        values |= {"attempts": job.attempts, "budget": job.max_attempts}
        return Explanation(FAILED, _(
            "It failed for good on %(when)s, after %(attempts)d of %(budget)d attempts;"
            " only a retry makes it run again."
        ) % values)  # fmt: skip
    return Explanation("unknown", _(
        "Its status “%(status)s” is not known to this version, which leaves it alone."
    ) % {"status": job.status})  # fmt: skip


def _running(job: Job, now: datetime) -> Explanation:
    values = {
        "runner": in_short(job.lease_owner),
        "since": _between(as_aware(job.started_at), now) if job.started_at else "?",
    }
    if job.lease_until is not None and as_aware(job.lease_until) < now:
        return Explanation("lease_over", _(
            "%(runner)s claimed it %(since)s ago and has let its lease run out:"
            " the next worker that looks takes it back."
        ) % values)  # fmt: skip
    if job.cancel_requested_at is not None:
        return Explanation("stopping", _(
            "It has been running on %(runner)s for %(since)s and was asked to stop."
        ) % values)  # fmt: skip
    return Explanation(RUNNING, _("It has been running on %(runner)s for %(since)s.") % values)


def _paused_schedule(job: Job, now: datetime) -> Explanation | None:
    if not is_paused(job):
        return None
    return Explanation("schedule_paused", _("This schedule is paused."))


def _deadline(job: Job, now: datetime) -> Explanation | None:
    if job.deadline is None or as_aware(job.deadline) > now:
        return None
    return Explanation("deadline_passed", _(
        "Its deadline passed on %(when)s: the next worker that meets it retires it unrun."
    ) % {"when": instant(job.deadline)})  # fmt: skip


def _paused_queue(job: Job, now: datetime) -> Explanation | None:
    paused: Any = PausedQueue.objects.using(job._state.db).filter(name=job.queue).first()
    if paused is None:
        return None
    return Explanation("queue_paused", _("Its queue “%(queue)s” is paused since %(when)s.") % {
        "queue": job.queue, "when": instant(paused.paused_at),
    })  # fmt: skip


def _not_due(job: Job, now: datetime) -> Explanation | None:
    run_at = as_aware(job.run_at)
    if run_at <= now:
        return None
    values = {
        "when": instant(job.run_at),
        "left": _between(now, run_at),
        "attempts": job.attempts,
        "budget": job.max_attempts,
    }
    if job.attempts:
        return Explanation("not_due", _(
            "It runs again on %(when)s, in %(left)s: %(attempts)d of %(budget)d attempts are used."
        ) % values)  # fmt: skip
    return Explanation("not_due", _("It is not due before %(when)s, in %(left)s.") % values)


def _no_worker(job: Job, now: datetime) -> Explanation | None:
    workers = alive_workers(now, job._state.db)
    if not workers:
        return Explanation("no_worker", _("No worker is running: start one with runjobs."))
    if not any(job.kind in (worker.kinds or ()) for worker in workers):
        return Explanation("kind_unserved", _(
            "None of the running workers has a handler for its kind “%(kind)s”."
        ) % {"kind": job.kind})  # fmt: skip
    if not any(serves(worker, job.kind, job.queue) for worker in workers):
        return Explanation("queue_unserved", _(
            "None of the running workers that know its kind serves its queue “%(queue)s”."
        ) % {"queue": job.queue})  # fmt: skip
    return None


def _behind(job: Job, now: datetime) -> Explanation | None:
    before = (
        Q(priority__gt=job.priority)
        | Q(priority=job.priority, run_at__lt=job.run_at)
        | Q(priority=job.priority, run_at=job.run_at, pk__lt=job.pk)
    )
    ready: Any = Job.objects.using(job._state.db).filter(with_status(READY))
    due = ready.filter(before, run_at__lte=now)
    paused: Any = PausedQueue.objects.using(job._state.db)
    due = due.exclude(pk=job.pk).exclude(queue__in=list(paused.paused()))
    ahead = due.count_up_to(MOST_COUNTED)
    if not ahead:
        return None
    if ahead == MOST_COUNTED:
        return Explanation("behind", _(
            "It is due and waits behind %(count)d other jobs or more."
        ) % {"count": ahead})  # fmt: skip
    return Explanation("behind", ngettext(
        "It is due and waits behind %(count)d other job.",
        "It is due and waits behind %(count)d other jobs.",
        ahead,
    ) % {"count": ahead})  # fmt: skip
