"""A durable job queue in the tables of the database that a Django project already has."""

from typing import Any

from .exceptions import Abandon, Defer, Retry
from .handlers import all_kinds, handler
from .newjob import NewJob
from .policy import Backoff

__version__ = "0.1.0"

__all__ = ["Abandon", "Backoff", "Defer", "NewJob", "Retry", "all_kinds", "handler"]


def __getattr__(name: str) -> Any:
    """Load the tasks framework only for those who ask for `task`."""
    if name == "task":
        from .backend import task

        return task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
