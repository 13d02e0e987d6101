"""The backend for the tasks framework: django.tasks, or django-tasks on Django 5.2.

TASKS = {"default": {"BACKEND": "django_sqlqueue.backend.SqlQueueBackend"}}

It is a client of the package like any other: a task is a job whose kind is the task's module path.
"""

from . import announcing as _announcing  # noqa: F401
from .sqlqueue import SqlQueueBackend
from .tasks import QueueTask, task

__all__ = ["QueueTask", "SqlQueueBackend", "task"]
