"""The tasks framework: Django's own from 6.0 on, the django-tasks package on Django 5.2.

Chosen by Django's version alone, so that a stray backport on Django 6 is not picked up. No other
file imports either of them; the names are those of Django.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import VERSION
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING or VERSION >= (6, 0):
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
    from django.tasks.signals import (
        log_task_finished,
        log_task_started,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django.utils.json import normalize_json
else:
    try:
        import django_tasks  # noqa: F401
    except ImportError as error:
        raise ImproperlyConfigured(
            "The tasks backend needs django-tasks on Django 5.2: "
            "install django-sqlqueue[tasks] and add 'django_tasks' to INSTALLED_APPS."
        ) from error
    from django_tasks import exceptions, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import (
        log_task_finished,
        log_task_started,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django_tasks.utils import normalize_json

    # The backport takes over Django's names for these two.
    InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
    InvalidTaskBackend = (
        getattr(exceptions, "InvalidTaskBackend", None) or exceptions.InvalidTaskBackendError
    )

RENAMED = {
    "django_tasks.exceptions.InvalidTaskError": "django.tasks.exceptions.InvalidTask",
    "django_tasks.exceptions.InvalidTaskBackendError": "django.tasks.exceptions.InvalidTaskBackend",
}


def present_path(path: str) -> str:
    """Return where the class of a stored path stands on this Django.

    A result that was stored with the backport names the backport's exceptions.
    """
    if VERSION < (6, 0) or not path.startswith("django_tasks."):
        return path
    return RENAMED.get(path) or path.replace("django_tasks.", "django.tasks.", 1)


LOGGER_NAME = "django.tasks" if VERSION >= (6, 0) else "django_tasks"

FAILED = TaskResultStatus.FAILED
READY = TaskResultStatus.READY
RUNNING = TaskResultStatus.RUNNING
SUCCESSFUL = TaskResultStatus.SUCCESSFUL

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_PRIORITY",
    "DEFAULT_TASK_QUEUE_NAME",
    "FAILED",
    "LOGGER_NAME",
    "READY",
    "RUNNING",
    "SUCCESSFUL",
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "log_task_finished",
    "log_task_started",
    "normalize_json",
    "present_path",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
