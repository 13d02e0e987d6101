"""The admin's own log: who did what to which job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

LONGEST = 200


def record(request: Any, objects: Iterable[Any], message: str, flag: int = CHANGE) -> None:
    """Log one act on each of these rows."""
    LogEntry.objects.bulk_create(
        _entry(request, type(row), str(row.pk), str(row), message, flag) for row in objects
    )


def record_many(request: Any, model: Any, what: str, message: str, flag: int = CHANGE) -> None:
    """Log one act on a whole selection, without a line for each row."""
    _entry(request, model, None, what, message, flag).save()


def of(row: Any) -> list[LogEntry]:
    """Return what was done to this row, oldest first."""
    kind = ContentType.objects.get_for_model(row)
    entries = LogEntry.objects.filter(content_type=kind, object_id=str(row.pk))
    return list(entries.select_related("user").order_by("-action_time")[:100])[::-1]


def _entry(
    request: Any, model: Any, pk: str | None, name: str, message: str, flag: int
) -> LogEntry:
    return LogEntry(
        user_id=request.user.pk,
        content_type=ContentType.objects.get_for_model(model),
        object_id=pk,
        object_repr=name[:LONGEST],
        action_flag=flag,
        change_message=message,
    )
