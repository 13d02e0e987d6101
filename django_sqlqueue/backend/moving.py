"""Moving the waiting results of django-tasks-db into the queue, each exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from .compat import InvalidTask, task_backends
from .envelope import MOVED, label_of
from .results import imported_task, with_fields
from .sqlqueue import SqlQueueBackend

NO_RUN_AFTER = 9999
"""The year that django-tasks-db stores for "at once"."""
WAITING = "READY"


class CannotMove(Exception):
    """This result stays where it is; the message says why."""


@dataclass(slots=True)
class Report:
    """What a run has moved, and what it left where it was."""

    moved: int = 0
    left: list[str] = field(default_factory=list)


def move_waiting(results: Any, default_alias: str) -> Report:
    """Move every waiting result of the manager `results` into the queue; return what was done.

    A result's job is inserted and its row deleted in one transaction, where both are in one
    database. Where they are not, a run that breaks off between the two leaves a row whose job
    is known by its ref: the next run deletes that row and inserts nothing. A result that a
    worker of django-tasks-db takes meanwhile is left to it.
    """
    report = Report()
    for row in _waiting(results):
        try:
            report.moved += _move(results, row, default_alias)
        except CannotMove as error:
            report.left.append(f"{row.pk} {row.task_path}: {error}")
    return report


def _waiting(results: Any) -> Iterator[Any]:
    ids = results.filter(status=WAITING).order_by("enqueued_at", "pk").values_list("pk", flat=True)
    for pk in list(ids):
        if (row := results.filter(pk=pk, status=WAITING).first()) is not None:
            yield row


def _move(results: Any, row: Any, default_alias: str) -> bool:
    backend = _backend(row.backend_name, default_alias)
    new = _job_for(backend, row)
    with transaction.atomic(using=results.db):
        if not results.filter(pk=row.pk, status=WAITING).delete()[0]:
            return False
        if not backend.table().for_ref(new.ref).exists() and backend.insert_new(new) is None:
            raise CannotMove("a live job holds its dedup_key")
    return True


def _backend(alias: str, default_alias: str) -> SqlQueueBackend:
    for name in (alias, default_alias):
        try:
            backend = task_backends[name]
        except ImproperlyConfigured:
            continue
        if isinstance(backend, SqlQueueBackend):
            return backend
    raise CannotMove(f"neither {alias!r} nor {default_alias!r} in TASKS is SqlQueueBackend")


def _job_for(backend: SqlQueueBackend, row: Any) -> Any:
    """Return the job that does what the row would have done, under the result's old id."""
    try:
        base = imported_task(row.task_path)
    except ImportError as error:
        raise CannotMove(str(error)) from None
    if base is None:
        raise CannotMove("no Task stands at this path")
    fields = {
        "priority": row.priority,
        "queue_name": row.queue_name,
        "run_after": None if _is_at_once(row.run_after) else row.run_after,
        "backend": backend.alias,
    }
    try:
        new = backend.new_job(
            with_fields(base, fields), row.args_kwargs["args"], row.args_kwargs["kwargs"]
        )
    except (InvalidTask, TypeError, ValueError) as error:
        raise CannotMove(str(error)) from None
    label_of(new.payload).update(moved_from=str(row.pk), enqueued_at=row.enqueued_at.isoformat())
    return replace(new, ref=f"{MOVED}{row.pk}")


def _is_at_once(run_after: datetime | None) -> bool:
    return run_after is None or run_after.year >= NO_RUN_AFTER
