"""A job: one row of work, its columns, constraints and the verbs of a single job."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..constraints import LiveKeyConstraint, UniqueIfSet
from ..durations import Seconds
from ..engines.instants import as_aware
from ..fields import ExactCharField, InstantField, ServerClock, StoredJSONField
from ..indexes import PartialIndex
from ..lifecycle import LIVE, READY, RUNNING, SETTLED, STATUSES
from ..managers import JobManager, JobQuerySet
from ..policy import Outcome
from .guarded import GuardedRow


class Job(GuardedRow):
    """One row of work. Its columns change only by the moves of lifecycle.py."""

    id = models.BigAutoField(primary_key=True)
    kind = ExactCharField(max_length=200, help_text=_("The string that chooses the handler."))
    queue = ExactCharField(
        max_length=100,
        db_default="default",
        help_text=_("The named lane, which workers may choose."),
    )
    priority = models.SmallIntegerField(
        db_default=0, help_text=_("From -100 to 100; higher goes first.")
    )
    dedup_key = ExactCharField(
        max_length=255,
        null=True,
        blank=True,
        db_default=None,
        help_text=_("At most one live job of a kind holds a key; empty means none is held."),
    )
    ref = ExactCharField(
        max_length=255,
        blank=True,
        db_default="",
        help_text=_("What the job is about, such as “library:42”; blank is nothing."),
    )
    payload = StoredJSONField(
        db_default={}, blank=True, help_text=_("The JSON input of the handler.")
    )
    status = ExactCharField(
        max_length=20, db_default=READY, help_text=_("ready, running, done, failed or cancelled.")
    )
    run_at = InstantField(
        db_default=ServerClock(), help_text=_("The earliest time it may be claimed.")
    )
    attempts = models.IntegerField(
        db_default=0, help_text=_("Turns at running so far, counted at the claim.")
    )
    max_attempts = models.IntegerField(
        db_default=5, help_text=_("The turns it may have before it fails for good.")
    )
    deadline = InstantField(
        null=True,
        blank=True,
        db_default=None,
        help_text=_("After this instant it is retired instead of run."),
    )
    lease_until = InstantField(
        null=True,
        blank=True,
        db_default=None,
        help_text=_("How long the present claim holds without renewal."),
    )
    lease_owner = ExactCharField(
        max_length=200,
        null=True,
        blank=True,
        db_default=None,
        help_text=_("The runner that holds the claim; empty unless running."),
    )
    claims = models.BigIntegerField(
        db_default=0,
        help_text=_("How often it was claimed; only ever grows. With the id it names a claim."),
    )
    last_error = ExactCharField(
        max_length=200,
        blank=True,
        db_default="",
        help_text=_("The classified reason of the latest failure; blank when there is none."),
    )
    # Without a db_default: None would become JSON's null there, which is a value and not NULL.
    result = StoredJSONField(
        null=True, blank=True, help_text=_("What the handler returned, as JSON.")
    )
    progress = models.SmallIntegerField(
        null=True, blank=True, db_default=None, help_text=_("Percent done, as the handler says.")
    )
    progress_note = ExactCharField(
        max_length=200, blank=True, db_default="", help_text=_("What the handler says it is doing.")
    )
    name = ExactCharField(
        max_length=200,
        null=True,
        blank=True,
        db_default=None,
        help_text=_("The unique name of a schedule; empty for a plain job."),
    )
    interval = models.DurationField(
        null=True,
        blank=True,
        db_default=None,
        help_text=_("The time between two due times of a schedule."),
    )
    cron = ExactCharField(
        max_length=200,
        blank=True,
        db_default="",
        help_text=_("The five-field expression of a schedule's due times."),
    )
    timezone = ExactCharField(
        max_length=100,
        blank=True,
        db_default="",
        help_text=_("The time zone whose clock the expression follows."),
    )
    missed = ExactCharField(
        max_length=10,
        db_default="once",
        help_text=_("What is done for missed occurrences: once, all or skip."),
    )
    missed_count = models.BigIntegerField(
        db_default=0, help_text=_("How many occurrences were passed over so far.")
    )
    declared = models.BooleanField(
        db_default=False,
        help_text=_("Is the schedule declared in the project's code, and ends with that?"),
    )
    due_at = InstantField(
        null=True,
        blank=True,
        db_default=None,
        help_text=_("The due time of the present occurrence, which retries do not move."),
    )
    lifetime = models.DurationField(
        null=True, blank=True, db_default=None, help_text=_("From a due time to its deadline.")
    )
    cancel_requested_at = InstantField(
        null=True, blank=True, db_default=None, help_text=_("When it was asked to stop.")
    )
    created_at = InstantField(db_default=ServerClock(), help_text=_("When it was enqueued."))
    updated_at = InstantField(db_default=ServerClock(), help_text=_("When it last moved."))
    started_at = InstantField(
        null=True, blank=True, db_default=None, help_text=_("When the latest attempt began.")
    )
    finished_at = InstantField(
        null=True, blank=True, db_default=None, help_text=_("When it was settled.")
    )

    objects = JobManager()

    class Meta:
        # refresh_from_db and attempt.job ask the base manager, and that must not ask a replica.
        base_manager_name = "objects"
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions = (
            ("retry_job", _("Can retry jobs")),
            ("cancel_job", _("Can cancel jobs")),
            ("view_payload", _("Can view payloads and results")),
        )
        indexes = (
            PartialIndex(
                name="sqlqueue_claim_idx",
                fields=("kind", "queue", "priority", "run_at", "id"),
                where=Q(status=READY),
                instead=("status",),
            ),
            PartialIndex(
                name="sqlqueue_lease_idx",
                fields=("lease_until",),
                where=Q(status=RUNNING),
                instead=("status",),
            ),
            PartialIndex(
                name="sqlqueue_settled_idx",
                fields=("status", "finished_at"),
                where=Q(finished_at__isnull=False),
            ),
            PartialIndex(name="sqlqueue_ref_idx", fields=("ref",), where=~Q(ref="")),
            PartialIndex(
                name="sqlqueue_key_idx",
                fields=("dedup_key",),
                where=Q(dedup_key__isnull=False, finished_at__isnull=False),
            ),
        )
        constraints = (
            LiveKeyConstraint(
                name="sqlqueue_live_key",
                fields=("kind", "dedup_key"),
                condition=Q(dedup_key__isnull=False, status__in=LIVE),
            ),
            UniqueIfSet(name="sqlqueue_schedule_name", fields=("name",)),
            models.CheckConstraint(
                name="sqlqueue_lease_if_running",
                condition=~Q(status__in=STATUSES)
                | Q(status=RUNNING, lease_until__isnull=False, lease_owner__isnull=False)
                | (~Q(status=RUNNING) & Q(lease_until__isnull=True, lease_owner__isnull=True)),
            ),
            models.CheckConstraint(
                name="sqlqueue_finished_if_settled",
                condition=~Q(status__in=STATUSES)
                | Q(status__in=SETTLED, finished_at__isnull=False)
                | Q(status__in=LIVE, finished_at__isnull=True),
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    @property
    def is_settled(self) -> bool:
        return self.status in SETTLED

    @property
    def occurrence_id(self) -> str:
        """An id of this piece of work that its retries share and no other has."""
        if self.name is None or self.due_at is None:
            return str(self.pk)
        return f"{self.pk}@{as_aware(self.due_at).isoformat()}"

    # Settling: each ends this claim and returns True, or writes nothing and returns False where
    # the claim was lost.

    def complete(self, result: Any = None) -> bool:
        """Move the job from running to done, with what the handler returned.

        A result that JSON cannot hold is dropped with a log line: the job is done. A schedule
        goes on to its next occurrence.
        """
        text = self._table.kept(self, result)
        return self._table.settle(self, Outcome(move="complete", result=text))

    def fail(self, reason: str) -> bool:
        """Move the job from running to ready, after its backoff, or to failed when spent."""
        return self._table.settle(self, self._table.failure(self, reason))

    def retry(self, run_at: datetime, reason: str) -> bool:
        """Move the job from running to ready, to run again at `run_at`."""
        return self._table.settle(self, Outcome(move="retry", run_at=run_at, reason=reason))

    def abandon(self, reason: str) -> bool:
        """Move the job from running to failed; a schedule goes on to its next occurrence."""
        return self._table.settle(self, Outcome(move="abandon", reason=reason))

    def defer(self, delay: Seconds | timedelta) -> bool:
        """Move the job from running to ready after `delay`, and give the attempt back."""
        return self._table.settle(self, self._table.deferral(delay))

    def reschedule(self, run_at: datetime) -> bool:
        """Move the job from running to ready at `run_at` as a fresh occurrence."""
        return self._table.settle(self, Outcome(move="reschedule", run_at=run_at))

    def renew(self, lease: Seconds | timedelta) -> bool:
        """Let this claim's lease hold for `lease` more from now."""
        return bool(self._table.renew([self], lease))

    def requeue(self, delay: Seconds | timedelta = 0) -> bool:
        """Move the settled job to ready with a fresh budget of attempts.

        Returns False, and writes nothing, where it is not settled or a live twin holds its key.
        """
        return self._table.requeue_one(self, delay)

    def report_progress(self, percent: float, note: str = "") -> bool:
        """Store how far the job is, 0 to 100 percent; False where the claim was lost."""
        return self._table.report_progress(self, percent, note)

    def cancel_requested(self) -> bool:
        """Ask the database whether this job was asked to stop, or its claim lost."""
        return self._table.cancel_requested(self)

    def set_result(self, value: Any) -> bool:
        """Keep `value` as the result that is stored however this attempt ends.

        A handler that returns something other than None replaces it. False means that JSON
        cannot hold it, and that there is none now.
        """
        self._result_to_store = self._table.kept(self, value)
        return self._result_to_store is not None

    @property
    def _table(self) -> Any:
        return JobQuerySet(type(self), using=self._state.db)
