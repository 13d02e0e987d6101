"""What people and housekeeping do to jobs: cancel, requeue, delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import Case, F, Q, Value, When

from ..durations import Seconds, to_seconds
from ..exceptions import InvalidJob
from ..fields import ExactCharField, InstantField, ServerClock
from ..lifecycle import CANCELLED, LIVE, READY, SETTLED
from ..newjob import check_instant
from ..policy import Outcome
from .announcing import announce, somebody_listens
from .base import PinnedQuerySet, in_batches

if TYPE_CHECKING:
    from ..models import Job

BATCH = 500


class Operating(PinnedQuerySet):
    def cancel(self) -> int:
        """Cancel ready jobs and ask running ones to stop; return how many of both.

        A settled job, or one that was asked before, is left alone and not counted.
        """
        return sum(self._cancel(ids) for ids in self._id_batches(Q(status__in=LIVE)))

    cancel.queryset_only = True  # type: ignore[attr-defined]

    def requeue(self) -> int:
        """Move settled jobs to ready with a fresh budget of attempts; return how many.

        A job whose dedup key a live twin holds is skipped; of several settled twins one goes.
        """
        return sum(self._requeue(ids) for ids in self._id_batches(Q(status__in=SETTLED)))

    requeue.queryset_only = True  # type: ignore[attr-defined]

    def requeue_one(self, job: Job, delay: Seconds | timedelta) -> bool:
        """Move one settled job to ready; see Job.requeue."""
        run_at = self.engine.now() + timedelta(seconds=to_seconds("delay", delay))
        return bool(self._requeue_apart([job.pk], run_at))

    def cleanup(
        self, before: datetime, statuses: Iterable[str] = SETTLED, *, batches: int | None = None
    ) -> int:
        """Delete jobs that were settled before this instant, in batches; return how many.

        It may be stopped after any batch; `batches` bounds how many there are.
        """
        before = check_instant("before", before)
        statuses = _settled(statuses)
        self.engine.before_reading()
        old = self._table.filter(status__in=statuses, finished_at__lt=before)
        deleted, done = 0, 0
        while done != batches and (
            ids := list(old.order_by("finished_at").values_list("pk", flat=True)[:BATCH])
        ):
            deleted += self.engine.retrying(partial(self._delete, old.filter(pk__in=ids)))
            done += 1
        return deleted

    def cancel_for_uri(self, uri: str) -> int:
        """Delete the jobs of for_uri, whatever their status, in the caller's transaction.

        Returns how many. A running one loses its claim: what it does later changes nothing.
        """
        doomed = self._table.for_uri(uri)
        return self.engine.retrying(lambda: self._delete_found(doomed))

    @property
    def _table(self) -> Any:
        return self.model.objects.using(self.db)

    def _id_batches(self, condition: Q) -> Iterable[list[int]]:
        """Yield the ids of the matching jobs in ascending order, read batch by batch."""
        self.engine.before_reading()
        if self.query.is_sliced:
            ids = self._table.filter(pk__in=list(self.values_list("pk", flat=True)))
            yield from in_batches(ids.filter(condition).values_list("pk", flat=True), BATCH)
            return
        matching, last_id = self.order_by().filter(condition), 0
        while True:
            later = matching.filter(pk__gt=last_id).order_by("pk")
            ids = list(later.values_list("pk", flat=True)[:BATCH])
            if not ids:
                return
            yield ids
            last_id = ids[-1]

    def _cancel(self, ids: Sequence[int]) -> int:
        live = self._table.filter(pk__in=ids, status__in=LIVE, cancel_requested_at__isnull=True)
        if not somebody_listens(self.model):
            return self.engine.retrying(lambda: self._cancel_live(live))
        waiting, moved = self.engine.retrying(lambda: self._cancel_seen(live))
        outcome = Outcome(move="cancel", reason=None)
        statuses = {job.id: CANCELLED for job in waiting}
        announce([(job, outcome) for job in waiting], statuses, self.db)
        return moved

    def _cancel_seen(self, live: Any) -> tuple[list[Job], int]:
        """Cancel, and return the jobs that had not begun too, for those who listen."""
        with self.engine.unit():
            waiting = list(live.select_for_update().filter(status=READY).order_by("pk"))
            return waiting, self._cancel_live(live)

    def _cancel_live(self, live: Any) -> int:
        # One statement, so that a job which is claimed meanwhile is cancelled or asked, never
        # missed. The status comes last: on one engine later assignments see it.
        return live.update(
            cancel_requested_at=ServerClock(),
            finished_at=Case(When(status=READY, then=ServerClock()), output_field=InstantField()),
            updated_at=ServerClock(),
            status=Case(
                When(status=READY, then=Value(CANCELLED)),
                default=F("status"),
                output_field=ExactCharField(),
            ),
        )

    def _requeue(self, ids: Sequence[int]) -> int:
        """Requeue a batch at once; where twins meet, job by job."""
        try:
            return self.engine.retrying(lambda: self._requeue_free(ids))
        except IntegrityError:
            return self._requeue_apart(ids, ServerClock())

    def _requeue_free(self, ids: Sequence[int]) -> int:
        with self.engine.transaction():
            return self._make_ready(self._free(ids), ServerClock())

    def _free(self, ids: Sequence[int]) -> list[int]:
        """Return those of the jobs that have no live twin, one for each key."""
        rows = self._table.filter(pk__in=ids).values_list("kind", "dedup_key", "pk")
        keyed = {(kind, key): pk for kind, key, pk in rows if key is not None}
        live = self._table.live_by_key().filter(
            kind__in={kind for kind, _ in keyed}, live_key__in={key for _, key in keyed}
        )
        taken = set(live.values_list("kind", "dedup_key")) if keyed else set()
        plain = [pk for _, key, pk in rows if key is None]
        return sorted([*plain, *(pk for twin, pk in keyed.items() if twin not in taken)])

    def _requeue_apart(self, ids: Sequence[int], run_at: Any) -> int:
        retrying = self.engine.retrying
        return sum(retrying(partial(self._requeue_alone, pk, run_at)) for pk in ids)

    def _requeue_alone(self, pk: int, run_at: Any) -> int:
        try:
            with transaction.atomic(using=self.db):
                return self._make_ready([pk], run_at)
        except IntegrityError:
            return 0

    def _make_ready(self, ids: Sequence[int], run_at: Any) -> int:
        moved = self._table.filter(pk__in=ids, status__in=SETTLED).update(
            status=READY,
            attempts=0,
            run_at=run_at,
            last_error="",
            result=None,
            progress=None,
            progress_note="",
            cancel_requested_at=None,
            finished_at=None,
            updated_at=ServerClock(),
        )
        if moved:
            self.wake_workers()
        return moved

    def _delete_found(self, doomed: Any) -> int:
        """Delete jobs that no index finds, all or none.

        They are looked for without locks: one engine would wait for every row it looks at.
        """
        self.engine.before_reading()
        with self.engine.unit():
            ids = list(doomed.order_by("pk").values_list("pk", flat=True))
            return sum(
                self._delete(self._table.filter(pk__in=each)) for each in in_batches(ids, BATCH)
            )

    def _delete(self, doomed: Any) -> int:
        """Delete jobs with their history; the rows are locked first, lowest id first."""
        history: Any = self.model._meta.get_field("history").related_model
        self.engine.before_reading()
        with self.engine.unit():
            locked = doomed.select_for_update().order_by("pk").values_list("pk", flat=True)
            deleted = 0
            for ids in in_batches(list(locked), BATCH):
                history.objects.using(self.db).filter(job_id__in=ids).delete()
                deleted += self._table.filter(pk__in=ids)._raw_delete(self.db)
            return deleted


def _settled(statuses: Iterable[str]) -> list[str]:
    found = [statuses] if isinstance(statuses, str) else list(statuses)
    if unknown := set(found) - set(SETTLED):
        raise InvalidJob("statuses", f"must be among {SETTLED}, not {sorted(unknown)}.")
    return found
