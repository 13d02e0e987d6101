"""Wiring only."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class SqlQueueConfig(AppConfig):
    name = "django_sqlqueue"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks, schedules  # noqa: F401

        autodiscover_modules("jobs")
        post_migrate.connect(schedules.sync_after_migrate, sender=self)
