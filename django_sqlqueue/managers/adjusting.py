"""What an operator changes of jobs that do not run: when, in which order, where, and whether."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F, Q
from django.db.models.functions import Coalesce

from ..engines.instants import as_aware
from ..fields import ServerClock
from ..lifecycle import READY, RUNNING
from ..newjob import LATEST, check_priority, check_queue
from .enqueueing import Enqueueing
from .operating import Operating

if TYPE_CHECKING:
    from ..models import Job

PAUSED_UNTIL = LATEST
"""The run_at of a paused schedule; its due_at keeps the place in its rhythm."""
PAUSED = Q(name__isnull=False, run_at__gte=PAUSED_UNTIL)


def is_paused(job: Job) -> bool:
    """Say of an object what PAUSED says of a row: it is a schedule put off until it is resumed."""
    return job.name is not None and as_aware(job.run_at) >= PAUSED_UNTIL


class Adjusting(Enqueueing, Operating):  # type: ignore[override]
    def run_now(self) -> int:
        """Let ready jobs that wait for their time be due at once; return how many.

        A schedule runs one extra time: its next planned due time stays. Running and settled jobs
        are left alone, and so are those that are due already, and paused schedules: the end of
        the extra run would resume them.
        """
        moved = sum(self._run_now(ids) for ids in self._id_batches(Q(status=READY) & ~PAUSED))
        if moved:
            self.wake_workers()
        return moved

    run_now.queryset_only = True  # type: ignore[attr-defined]

    def set_priority(self, priority: int) -> int:
        """Change the priority of ready jobs; return how many. Raises InvalidJob."""
        return self._change_ready(priority=check_priority(priority))

    set_priority.queryset_only = True  # type: ignore[attr-defined]

    def move_to_queue(self, queue: str) -> int:
        """Move ready jobs to another queue; return how many. Raises InvalidJob."""
        moved = self._change_ready(queue=check_queue(queue))
        if moved:
            self.wake_workers()
        return moved

    move_to_queue.queryset_only = True  # type: ignore[attr-defined]

    def remove(self) -> int:
        """Delete jobs that are not running, with their history, in batches; return how many."""
        return sum(self._remove(ids) for ids in self._id_batches(~Q(status=RUNNING)))

    remove.queryset_only = True  # type: ignore[attr-defined]

    def pause_schedules(self) -> int:
        """Let schedules that wait for their next occurrence wait for resume_schedules instead.

        Returns how many. A running one is left alone: its end would undo it.
        """
        schedules = Q(status=READY, name__isnull=False, run_at__lt=PAUSED_UNTIL)
        return sum(
            self._table.filter(schedules, pk__in=ids).update(
                due_at=Coalesce("due_at", "run_at"), run_at=PAUSED_UNTIL, updated_at=ServerClock()
            )
            for ids in self._id_batches(schedules)
        )

    pause_schedules.queryset_only = True  # type: ignore[attr-defined]

    def resume_schedules(self) -> int:
        """Let paused schedules go on at their due time; return how many.

        Occurrences that came and went meanwhile are missed, and treated as each schedule says.
        """
        paused = Q(status=READY, name__isnull=False, run_at=PAUSED_UNTIL)
        moved = sum(
            self._table.filter(paused, pk__in=ids).update(
                run_at=F("due_at"), updated_at=ServerClock()
            )
            for ids in self._id_batches(paused)
        )
        if moved:
            self.wake_workers()
        return moved

    resume_schedules.queryset_only = True  # type: ignore[attr-defined]

    def enqueue_again(self, job: Job, payload: Any) -> Job | None:
        """Enqueue a new job like `job` with another payload; return it.

        It has the same kind, queue, priority, key, ref and budget. None means that a live job
        holds the key. Raises InvalidJob for a bad payload, before any SQL.
        """
        return self.enqueue(
            job.kind,
            payload,
            dedup_key=job.dedup_key,
            ref=job.ref,
            queue=job.queue,
            priority=job.priority,
            max_attempts=job.max_attempts,
        )

    def _change_ready(self, **values: Any) -> int:
        return sum(
            self._table.filter(pk__in=ids, status=READY).update(**values, updated_at=ServerClock())
            for ids in self._id_batches(Q(status=READY))
        )

    def _remove(self, ids: Sequence[int]) -> int:
        idle = self._table.filter(~Q(status=RUNNING), pk__in=ids)
        return self.engine.retrying(lambda: self._delete(idle))

    def _run_now(self, ids: Sequence[int]) -> int:
        waiting = self._table.filter(~PAUSED, pk__in=ids, status=READY, run_at__gt=ServerClock())
        schedules = list(waiting.filter(name__isnull=False).defer("payload", "result"))
        moved = waiting.filter(name__isnull=True).update(
            run_at=ServerClock(), updated_at=ServerClock()
        )
        now = self.engine.now()
        for job in schedules:
            unmoved = waiting.filter(pk=job.pk, run_at=job.run_at)
            moved += unmoved.update(
                run_at=ServerClock(),
                due_at=_extra_due(job, now),
                deadline=None if job.lifetime is None else now + job.lifetime,
                updated_at=ServerClock(),
            )
        return moved


def _extra_due(schedule: Job, now: datetime) -> datetime:
    """Return a due time that is not in the future and is followed by the planned one."""
    due_at = as_aware(schedule.due_at or schedule.run_at)
    if due_at <= now:
        return due_at
    if schedule.cron:
        return now
    interval = schedule.interval or timedelta()
    return due_at - interval * -(-(due_at - now) // interval) if interval else now
