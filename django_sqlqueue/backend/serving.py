"""Tasks as handlers of the queue: registered when they are made, or found when one is met."""

from __future__ import annotations

import logging
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

from .. import discovery
from ..conf import settings
from ..exceptions import InvalidJob
from ..handlers import Handler, handler_of, register_handler
from ..kinds import Options
from ..newjob import check_text
from ..policy import Backoff
from ..reasons import class_path
from .compat import Task, task_backends
from .envelope import label_of, using_of
from .marks import holds
from .options import option
from .results import alias_of, backend_of, imported_task
from .running import perform, perform_coroutine

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")


def serve(task: Task) -> None:
    """Register the handler of a task's module path, where there is none yet.

    Raises ImproperlyConfigured where another function handles that kind.
    """
    known = handler_of(task.module_path)
    if known is None or not performs(known):
        try:
            check_text("kind", task.module_path)
        except InvalidJob:
            return
        register_handler(_handler(task))


def task_of(job: Job) -> Task | None:
    """Return the Task that a job calls, None where it is not one or cannot be trusted.

    Its module is imported only if the task is registered here, its module path stands in
    settings.SQLQUEUE["SCHEDULES"], or the payload carries this project's mark.
    """
    known = handler_of(job.kind)
    if known is not None and not performs(known):
        return None
    if known is None and not _is_trusted(job):
        return None
    return imported_task(job.kind)


def resolve(job: Job, trusted: bool) -> Handler | None:
    """Return the handler of a job whose kind is a task of this project; see discovery.py."""
    if "." not in job.kind or not (trusted or _is_trusted(job)):
        return None
    try:
        task = imported_task(job.kind)
    except Exception as error:
        log.error(
            "The task %r cannot be imported (%s); its jobs are left alone.",
            job.kind,
            class_path(type(error)),
        )
        return None
    return None if task is None else _handler(task)


def _handler(task: Task) -> Handler:
    """Return the handler; its options hold for rows that this backend did not write."""
    backoff = getattr(task, "backoff", None)
    return Handler(
        task.module_path,
        perform_coroutine if iscoroutinefunction(task.func) else perform,
        Options(
            queue=task.queue_name,
            priority=int(task.priority),
            max_attempts=option(task, task_backends[task.backend].options, "max_attempts"),
            backoff=backoff if isinstance(backoff, Backoff) else None,
            timeout=lambda job: _timeout(task, job),
        ),
        schedule={},
    )


def performs(handler: Handler) -> bool:
    """Say whether a handler runs tasks, and not a function of its own."""
    return handler.function in (perform, perform_coroutine)


def _is_trusted(job: Job) -> bool:
    declared = (schedule.get("kind") for schedule in settings.SCHEDULES.values())
    return job.kind in declared or holds(job.kind, label_of(job.payload).get("mark"))


def _timeout(task: Task, job: Job) -> float | None:
    if using := using_of(job.payload):
        own = using.get("timeout")
        if isinstance(own, (int, float)):
            return own
    return option(task, backend_of(alias_of(job, task.backend)).options, "timeout")


discovery.add_resolver(resolve)
