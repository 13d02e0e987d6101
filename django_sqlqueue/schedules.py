"""The schedules that a project's code declares, and their rows made to match."""

from __future__ import annotations

import logging
from typing import Any

from django.db import connections

from .conf import settings
from .exceptions import SqlQueueError
from .handlers import all_handlers
from .models import Job

log = logging.getLogger("django_sqlqueue")


def declared() -> dict[str, dict[str, Any]]:
    """Return what SQLQUEUE["SCHEDULES"] and the handlers declare, by name; the settings rule."""
    beside_handlers = {
        handler.kind: {"kind": handler.kind, **handler.schedule}
        for handler in all_handlers()
        if handler.schedule
    }
    return beside_handlers | settings.SCHEDULES


def sync(alias: str | None = None) -> None:
    """Make the declared schedules' rows match, and cancel those declared no longer.

    Any number of processes may do so at once. What was scheduled by a call or in the admin is
    left alone. A declaration that cannot be used is logged and passed over; checks tell more.
    """
    table = Job.objects.using(alias)
    wanted = declared()
    for name, options in wanted.items():
        try:
            table.declare(name, **options)
        except (SqlQueueError, TypeError) as error:
            log.error("The schedule %r cannot be declared: %s", name, error)
    table.withdraw(list(wanted))


def sync_after_migrate(using: str, **kwargs: Any) -> None:
    """Sync the schedules once the table is there; not after it was migrated away."""
    table = Job.objects.all()
    if using == table.db and Job._meta.db_table in connections[using].introspection.table_names():
        sync(using)
