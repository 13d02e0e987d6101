"""The history of a job: one row for each attempt that is kept."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..fields import ExactCharField, InstantField, ServerClock
from ..managers.base import PinnedManager
from .job import Job


class Attempt(models.Model):
    """One turn of a job at running, kept for those that did not succeed."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="history")
    number = models.IntegerField(help_text=_("Which attempt of the job it was, from 1."))
    runner = ExactCharField(max_length=200, help_text=_("The worker process that ran it."))
    started_at = InstantField(null=True, help_text=_("When it was claimed."))
    ended_at = InstantField(db_default=ServerClock(), help_text=_("When it was settled."))
    outcome = ExactCharField(
        max_length=20,
        help_text=_("done, retried, failed, deferred, released, lost or cancelled."),
    )
    reason = ExactCharField(
        max_length=200, blank=True, db_default="", help_text=_("The classified cause.")
    )
    traceback = models.TextField(
        blank=True,
        db_default="",
        help_text=_("Files, lines, functions and class names; no messages and no values."),
    )

    objects = PinnedManager()

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.job_id} · {self.number} · {self.outcome}"
