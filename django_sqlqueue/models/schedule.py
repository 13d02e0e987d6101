"""The named recurring jobs, as pages and permissions of their own over the jobs' table."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from .job import Job


class Schedule(Job):
    """A job with a name and a rhythm; made and changed by Job.objects.schedule."""

    class Meta:
        proxy = True
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")

    def __str__(self) -> str:
        return str(self.name)
