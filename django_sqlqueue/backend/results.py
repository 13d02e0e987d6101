"""A job as the framework's TaskResult."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string

from ..fields import DamagedJSON
from ..lifecycle import CANCELLED, DONE, RUNNING, SETTLED
from ..lifecycle import FAILED as JOB_FAILED
from ..reasons import class_path
from . import compat
from .compat import BaseTaskBackend, Task, TaskError, TaskResult, task_backends
from .envelope import (
    arguments_of,
    enqueued_at,
    instant_of,
    label_of,
    records_of,
    result_id,
    using_of,
    value_of,
    worker_of,
)
from .exceptions import REASONS, TaskCancelled, TaskFailed, explain
from .options import restored

if TYPE_CHECKING:
    from ..models import Job

UNKNOWN_WORKER = "unknown"
"""Stands for the worker of an attempt of which nothing was kept."""


@dataclass(slots=True)
class Turn:
    """One attempt, as far as it is known."""

    worker: str = UNKNOWN_WORKER
    started_at: datetime | None = None
    error: TaskError | None = None


_imported: dict[str, Task] = {}


def imported_task(path: str) -> Task | None:
    """Return the Task at this module path, imported if need be; None for anything else."""
    found = _imported.get(path)
    if found is None:
        found = import_string(path)
        if not isinstance(found, Task) or found.module_path != path:
            return None
        _imported[path] = found
    return found


def rebuilt(base: Task, job: Job, alias: str) -> Task:
    """Return the task as it was enqueued: the function's own one with what using() changed."""
    using = using_of(job.payload)
    same_place = (base.priority, base.queue_name, base.backend) == (job.priority, job.queue, alias)
    if same_place and not using:
        return base
    place = {"priority": job.priority, "queue_name": job.queue, "backend": alias}
    return with_fields(base, {**restored(using), **place})


def with_fields(base: Task, wanted: dict[str, Any]) -> Task:
    """Return a task with these fields, as far as its class knows them.

    It is not validated again: the settings may have changed since it was enqueued, and a stored
    result stays readable.
    """
    names = [field.name for field in fields(base)]
    changes = {
        name: value
        for name, value in wanted.items()
        if name in names and getattr(base, name) != value
    }
    if not changes:
        return base
    task = object.__new__(type(base))
    for name in names:
        object.__setattr__(task, name, changes.get(name, getattr(base, name)))
    return task


def alias_of(job: Job, default: str) -> str:
    """Return the alias of the backend that enqueued a job, or the default where it is gone."""
    alias = label_of(job.payload).get("backend")
    return alias if isinstance(alias, str) and alias in task_backends.settings else default


_backends: dict[str, tuple[Any, BaseTaskBackend]] = {}


def backend_of(alias: str) -> BaseTaskBackend:
    """Return the backend of an alias; the same for all threads and contexts.

    The framework makes one for each context, and every job runs in a context of its own.
    """
    known = _backends.get(alias)
    if known is None or known[0] is not task_backends.settings:
        known = _backends[alias] = (task_backends.settings, task_backends[alias])
    return known[1]


def result_of(job: Job, base: Task, default_alias: str) -> TaskResult:
    """Return the result of a job that calls `base`, read from the job and its attempts."""
    alias = alias_of(job, default_alias)
    turns = _turns(job)
    args, kwargs = _readable_arguments(job)
    status = _status(job)
    result: TaskResult[Any, Any] = TaskResult(
        task=rebuilt(base, job, alias),
        id=result_id(job),
        status=status,
        enqueued_at=enqueued_at(job),
        started_at=_first_start(job, turns),
        last_attempted_at=job.started_at if turns else None,
        finished_at=job.finished_at,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[turn.error for turn in turns if turn.error is not None] + _verdict(job, turns),
        worker_ids=[turn.worker for turn in turns],
    )
    if status == compat.SUCCESSFUL:
        object.__setattr__(result, "_return_value", value_of(job))
    return result


def _status(job: Job) -> Any:
    if job.status == DONE:
        return compat.SUCCESSFUL
    if job.status == RUNNING:
        return compat.RUNNING
    is_over = job.status in SETTLED or job.finished_at is not None
    return compat.FAILED if is_over else compat.READY


def _readable_arguments(job: Job) -> tuple[list[Any], dict[str, Any]]:
    try:
        return arguments_of({} if isinstance(job.payload, DamagedJSON) else job.payload)
    except TypeError:
        return [], {}


def _first_start(job: Job, turns: list[Turn]) -> datetime | None:
    for turn in turns:
        if turn.started_at is not None:
            return turn.started_at
    return job.started_at if turns else None


def _turns(job: Job) -> list[Turn]:
    """Return the attempts that count, the first one first."""
    if job.status == RUNNING and job.attempts == 1:
        return [Turn(job.lease_owner or UNKNOWN_WORKER, job.started_at)]
    turns: dict[int, Turn] = {}
    if job.status == RUNNING:
        turns[job.attempts] = Turn(job.lease_owner or UNKNOWN_WORKER, job.started_at)
    elif job.status == DONE and (worker := worker_of(job)):
        turns[job.attempts] = Turn(worker, job.started_at)
    if len(turns) < job.attempts:
        turns |= {record["attempt"]: _recorded(record) for record in records_of(job)}
    numbers = range(1, job.attempts + 1)
    if any(number not in turns for number in numbers):
        turns = _from_history(job) | turns
    return [turns.get(number) or Turn() for number in numbers]


def _recorded(record: dict[str, Any]) -> Turn:
    error = None
    if path := record.get("error"):
        error = TaskError(
            exception_class_path=compat.present_path(path), traceback=record.get("traceback", "")
        )
    return Turn(record["worker"], instant_of(record["started_at"]), error)


def _from_history(job: Job) -> dict[int, Turn]:
    """Return the attempts of the job's present life that its history holds.

    These ended without the function: the worker was lost, or gave up waiting for it. Numbers
    start again when a job is requeued, so the newest row ends the search where they rise.
    """
    turns: dict[int, Turn] = {}
    last = job.attempts + 1
    given_back = ("deferred", "released")
    ended = job.history.exclude(outcome__in=given_back)
    for row in ended.order_by("-id")[: job.attempts]:
        if row.number >= last:
            break
        last = row.number
        error = error_for(row.reason, row.traceback) if row.outcome != "done" else None
        turns[last] = Turn(row.runner or UNKNOWN_WORKER, row.started_at, error)
    return turns


def error_for(reason: str, traceback: str = "") -> TaskError:
    """Return the error of an attempt of which the queue kept the classified reason."""
    cls = REASONS.get(reason)
    if cls is not None:
        return TaskError(exception_class_path=class_path(cls), traceback=traceback or explain(cls))
    path = compat.present_path(_path_in(reason))
    return TaskError(exception_class_path=path, traceback=traceback or f"{path}: {reason}\n")


def _path_in(reason: str) -> str:
    """Return the class that a reason names, if it is a name."""
    if isinstance(getattr(builtins, reason, None), type):
        return f"builtins.{reason}"
    is_path = "." in reason and all(part.isidentifier() for part in reason.split("."))
    return reason if is_path else class_path(TaskFailed)


def cancelled() -> TaskError:
    return TaskError(
        exception_class_path=class_path(TaskCancelled), traceback=explain(TaskCancelled)
    )


def _verdict(job: Job, turns: list[Turn]) -> list[TaskError]:
    """Return the error that explains a failure which no attempt accounts for."""
    if job.status == CANCELLED:
        return [cancelled()]
    if job.status == JOB_FAILED and (not turns or turns[-1].error is None):
        return [error_for(job.last_error)]
    return []
