"""The framework's task_finished signal, when a task's job is settled, whoever settled it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from .. import policy
from ..handlers import handler_of
from ..lifecycle import CANCELLED
from ..policy import Outcome
from ..signals import job_settled
from . import compat, exceptions
from .compat import TaskResult, task_backends, task_finished
from .results import cancelled, error_for, result_of
from .running import ATTRIBUTE, TO_STORE, Performance
from .serving import performs, task_of

if TYPE_CHECKING:
    from ..models import Job


def announce(sender: type[Job], job: Job, outcome: Outcome, status: str, **kwargs: Any) -> None:
    """Send task_finished for a task that has ended, or for a schedule's occurrence that has."""
    turn: Performance | None = job.__dict__.pop(ATTRIBUTE, None)
    if turn is None and (known := handler_of(job.kind)) is not None and not performs(known):
        return
    if outcome.skipped or not (policy.ends(job, outcome) or status == CANCELLED):
        return
    if turn is None or outcome.result is None or outcome.result != job.__dict__.get(TO_STORE):
        _announce_stored(job, outcome)
        return
    is_success = turn.error is None and status != CANCELLED
    if is_success and not turn.is_heard(task_finished):
        return
    result = turn.finished()
    if status == CANCELLED:
        result.errors.append(cancelled())
        object.__setattr__(result, "status", compat.FAILED)
    _send(turn.sender, result, turn.error)


def _announce_stored(job: Job, outcome: Outcome) -> None:
    """Announce what was settled without its function: lost, expired, cancelled or never begun."""
    stored = type(job).objects.using(job._state.db).filter(pk=job.pk).first()
    try:
        base = None if stored is None else task_of(stored)
    except ImportError:
        # Its function was renamed or removed: no result could name its task.
        return
    if stored is None or base is None:
        return
    result = result_of(stored, base, base.backend)
    if not result.is_finished:
        # The schedule went on; what has ended is one occurrence of it.
        result.errors.append(error_for(outcome.reason or ""))
        object.__setattr__(result, "status", compat.FAILED)
        object.__setattr__(result, "finished_at", stored.updated_at)
    try:
        sender = type(task_backends[result.backend])
    except ImproperlyConfigured:
        return
    _send(sender, result, None)


def _send(sender: Any, result: TaskResult, error: BaseException | None) -> None:
    """Send task_finished; for a failure inside an except block, where receivers look for it."""
    if result.status != compat.FAILED:
        task_finished.send_robust(sender, task_result=result)
        return
    try:
        raise error or _explained(result)
    except BaseException:
        task_finished.send_robust(sender, task_result=result)


def _explained(result: TaskResult) -> Exception:
    path = result.errors[-1].exception_class_path
    known: dict[str, type[Exception]] = {
        f"{cls.__module__}.{cls.__qualname__}": cls
        for cls in (*exceptions.REASONS.values(), exceptions.TaskCancelled)
    }
    return known.get(path, exceptions.TaskFailed)(result.errors[-1].traceback.strip())


job_settled.connect(announce, dispatch_uid="django_sqlqueue.backend")
