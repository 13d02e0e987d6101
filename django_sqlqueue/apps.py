"""Wiring only."""

from __future__ import annotations

from contextlib import suppress

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules, import_string
from django.utils.translation import gettext_lazy as _

OF_THE_FRAMEWORK = ("django.tasks.", "django_tasks.")


def _load_task_backends() -> None:
    """Load this package's tasks backend where TASKS uses it, also by a subclass elsewhere.

    A worker may serve tasks, and a web process cancel them, before any task module is imported.
    """
    for params in getattr(settings, "TASKS", {}).values():
        path = params.get("BACKEND", "") if isinstance(params, dict) else ""
        if path and not path.startswith(OF_THE_FRAMEWORK):
            # The framework itself tells what cannot be imported, when it is used or checked.
            with suppress(ImportError):
                import_string(path)


class SqlQueueConfig(AppConfig):
    name = "django_sqlqueue"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks, schedules  # noqa: F401

        _load_task_backends()
        autodiscover_modules("jobs")
        post_migrate.connect(schedules.sync_after_migrate, sender=self)
