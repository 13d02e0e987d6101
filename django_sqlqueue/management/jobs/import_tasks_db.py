"""`manage.py jobs import_tasks_db`: take over what waits in django-tasks-db."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import router

HELP = "Moves the waiting results of django-tasks-db into this queue; may be run again."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--backend", metavar="ALIAS", default="default",
        help="The alias in TASKS for results whose own alias is no longer SqlQueueBackend.",
    )  # fmt: skip


def handle(command: BaseCommand, backend: str, **options: Any) -> None:
    """Move them and say how many; raises CommandError, exit code 1, where some had to stay."""
    apps_found = [app for app in apps.get_app_configs() if app.name == "django_tasks_db"]
    if not apps_found:
        raise CommandError("Keep 'django_tasks_db' in INSTALLED_APPS until its results are moved.")
    from ...backend.moving import WAITING, move_waiting

    model: Any = apps_found[0].get_model("DBTaskResult")
    results = model.objects.using(router.db_for_write(model))
    report = move_waiting(results, backend)
    others = results.exclude(status=WAITING).count()
    command.stdout.write(f"Moved {report.moved}; {others} that run or have ended stay there.")
    if report.left:
        lines = "\n".join(report.left)
        raise CommandError(f"{len(report.left)} cannot be moved:\n{lines}", returncode=1)
