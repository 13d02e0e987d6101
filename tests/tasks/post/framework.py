"""Where a reusable app finds the tasks framework."""

from typing import TYPE_CHECKING

from django import VERSION

if TYPE_CHECKING or VERSION >= (6, 0):
    from django.tasks import TaskResultStatus, task, task_backends
    from django.tasks.base import Task, TaskContext
    from django.tasks.exceptions import (
        InvalidTask,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.tasks.signals import task_enqueued, task_finished, task_started

    LOGGER = "django.tasks"
else:
    from django_tasks import TaskContext, TaskResultStatus, task, task_backends
    from django_tasks.base import Task
    from django_tasks.exceptions import (
        InvalidTaskError as InvalidTask,
    )
    from django_tasks.exceptions import (
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django_tasks.signals import task_enqueued, task_finished, task_started

    LOGGER = "django_tasks"

__all__ = [
    "LOGGER",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "task",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
