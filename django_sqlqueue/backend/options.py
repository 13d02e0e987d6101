"""What a task may say beyond the framework: the options, their checks and their stored form."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils.module_loading import import_string

from ..conf import settings
from ..durations import to_seconds
from ..exceptions import InvalidJob
from ..newjob import check_instant, check_max_attempts, check_queue, check_text
from ..policy import Backoff
from .compat import InvalidTask

OPTIONS = ("dedup_key", "max_attempts", "backoff", "deadline", "timeout", "ref")
"""Fields of QueueTask and keys of a backend's OPTIONS; the task's own value goes first."""

BACKEND_OPTIONS = (*OPTIONS, "store_messages")

STORED = ("run_after", *OPTIONS)
"""What a job's payload keeps of a task that differs from the function's own task."""


def option(task: Any, given: dict[str, Any], name: str) -> Any:
    """Return an option of a task, or else of its backend's OPTIONS; None where neither says it."""
    own = getattr(task, name, None)
    if own is not None:
        return own
    value = given.get(name)
    return import_string(value) if name == "backoff" and isinstance(value, str) else value


def normalized(name: str, value: Any) -> Any:
    """Return a usable value of an option; raises InvalidTask."""
    if value is None:
        return None
    try:
        return _CHECKS[name](value)
    except InvalidJob as error:
        raise InvalidTask(str(error)) from None


def check_place(task: Any) -> None:
    """Raise InvalidTask for a queue or a module path that the table cannot hold."""
    try:
        check_queue(task.queue_name)
        check_text("kind", task.module_path)
    except InvalidJob as error:
        raise InvalidTask(str(error)) from None


def _deadline(value: Any) -> datetime | timedelta:
    if isinstance(value, timedelta):
        return timedelta(seconds=to_seconds("deadline", value))
    check_instant("deadline", value)
    return value


def _timeout(value: Any) -> float:
    seconds = to_seconds("timeout", value)
    if not seconds:
        raise InvalidJob("timeout", "must be more than 0 seconds.")
    return seconds


def _backoff(value: Any) -> Any:
    if isinstance(value, Backoff) or callable(value):
        return value
    raise InvalidJob("backoff", "must be a Backoff or a function of exception and task_result.")


_CHECKS: dict[str, Any] = {
    "dedup_key": lambda value: check_text("dedup_key", value),
    "max_attempts": check_max_attempts,
    "backoff": _backoff,
    "deadline": _deadline,
    "timeout": _timeout,
    "ref": lambda value: check_text("ref", value, blank=True),
}


def changes_of(task: Any, base: Any) -> dict[str, Any]:
    """Return, as JSON, the fields in which a task differs from its function's own task.

    Raises InvalidTask for a backoff function given by using(): a function cannot be stored, and
    a name would let whoever writes a row choose what is called.
    """
    changes = {}
    for name in STORED:
        value = getattr(task, name, None)
        if value == getattr(base, name, None):
            continue
        if isinstance(value, datetime):
            value = value.isoformat()
        elif isinstance(value, timedelta):
            value = value.total_seconds()
        elif isinstance(value, Backoff):
            value = [value.base, value.factor, value.cap, value.jitter]
        elif callable(value):
            raise InvalidTask(
                "backoff functions are given in the decorator or in OPTIONS; "
                "using() takes a Backoff."
            )
        changes[name] = value
    return changes


def restored(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that changes_of wrote; what cannot be read is left out."""
    fields = {}
    for name, value in changes.items():
        try:
            if name in STORED:
                fields[name] = _restored(name, value)
        except (TypeError, ValueError):
            continue
    return fields


def _restored(name: str, value: Any) -> Any:
    if name in ("run_after", "deadline") and isinstance(value, str):
        return datetime.fromisoformat(value)
    if name == "deadline":
        return timedelta(seconds=value)
    if name == "backoff":
        return Backoff(*value)
    return _CHECKS[name](value)


def stores_messages(given: dict[str, Any]) -> bool:
    """Say whether stored tracebacks carry the exceptions' messages."""
    return bool(given.get("store_messages", settings.STORE_MESSAGES))
