"""What is seen of the workers, and which queues are paused; neither is needed for recovery."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..fields import ExactCharField, InstantField, ServerClock
from ..managers.pausing import PausedQueueQuerySet
from ..managers.workers import WorkerQuerySet
from ..runner_names import in_short


class Worker(models.Model):
    """A worker process, as it last showed itself."""

    id = models.BigAutoField(primary_key=True)
    runner = ExactCharField(
        max_length=200, help_text=_("Its unique name, the lease_owner of what it claims.")
    )
    host = ExactCharField(max_length=255, help_text=_("The machine it runs on."))
    pid = models.BigIntegerField(help_text=_("Its process id on that machine."))
    queues = models.JSONField(null=True, help_text=_("The queues it serves; null is all."))
    kinds = models.JSONField(default=list, help_text=_("The kinds it has handlers for."))
    threads = models.IntegerField(help_text=_("How many jobs it runs side by side."))
    started_at = InstantField(db_default=ServerClock(), help_text=_("When it started."))
    last_seen_at = InstantField(db_default=ServerClock(), help_text=_("Its last sign of life."))
    jobs_done = models.BigIntegerField(
        db_default=0, help_text=_("How many attempts it has ended since it started.")
    )

    objects = WorkerQuerySet.as_manager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        constraints = (models.UniqueConstraint(name="sqlqueue_runner", fields=("runner",)),)

    def __str__(self) -> str:
        return in_short(self.runner)


class PausedQueue(models.Model):
    """A queue that nothing is claimed from until it is resumed."""

    id = models.BigAutoField(primary_key=True)
    name = ExactCharField(max_length=100, help_text=_("The queue."))
    paused_at = InstantField(db_default=ServerClock(), help_text=_("Since when."))

    objects = PausedQueueQuerySet.as_manager()

    class Meta:
        verbose_name = _("paused queue")
        verbose_name_plural = _("paused queues")
        constraints = (models.UniqueConstraint(name="sqlqueue_paused_name", fields=("name",)),)

    def __str__(self) -> str:
        return self.name
