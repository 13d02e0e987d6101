"""How a task lies in a job: what its payload and its result hold.

payload: {"args": [...], "kwargs": {...}, "task": {"backend": alias, "id": secret part of the
result's id, "mark": see marks.py, "using": what differs from the function's own task}}

result: {"value": what the function returned, unless that is None, "worker": who ran that attempt,
"attempts": [one record for each attempt that failed in the function, with "attempt", "worker",
"started_at", "error" and "traceback"], "due_at": the occurrence of a schedule that they belong to}

The records stand in the result, not in the attempts' history alone, because the history may be
switched off, does not hold what succeeded, and has its own rule about messages. The key
"metadata" of the payload is kept free for the framework. A job that came from django-tasks-db
has "moved_from" and "enqueued_at" beside its backend.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from functools import lru_cache
from typing import Any

from .. import payloads
from ..engines.instants import as_attribute, as_aware
from .compat import Task
from .marks import mark_of
from .options import changes_of

MOVED = "django_tasks_db:"
"""How the ref of a job begins that came from django-tasks-db; the old result's id follows."""

KEPT_RECORDS = 100
KEPT_TRACEBACKS = 20
"""So many of a job's failed attempts keep their record and their traceback, the newest."""


def payload_of(task: Task, base: Task, alias: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the payload of a job that calls a task; `base` is the function's own task."""
    label = {"backend": alias, "id": secrets.token_hex(8), "mark": mark_of(task.module_path)}
    if task is not base and (changes := changes_of(task, base)):
        label["using"] = changes  # type: ignore[assignment]
    return {"args": args, "kwargs": kwargs, "task": label}


def label_of(payload: Any) -> dict[str, Any]:
    """Return what the backend wrote about the task, nothing where another hand wrote the row."""
    label = payload.get("task") if isinstance(payload, dict) else None
    return label if isinstance(label, dict) else {}


def using_of(payload: Any) -> dict[str, Any]:
    changes = label_of(payload).get("using")
    return changes if isinstance(changes, dict) else {}


def arguments_of(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return args and kwargs; raises TypeError where the payload holds something else."""
    payload = payload or {}
    args = payload.get("args", []) if isinstance(payload, dict) else None
    kwargs = payload.get("kwargs", {}) if isinstance(payload, dict) else None
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise TypeError('The payload of a task holds a list "args" and an object "kwargs".')
    return args, kwargs


def result_id(job: Any) -> str:
    """Return the id by which a task's result is asked for; its second part cannot be guessed."""
    label = label_of(job.payload)
    if "moved_from" in label:
        return str(label["moved_from"])
    return f"{job.pk}-{label['id']}" if label.get("id") else str(job.pk)


def enqueued_at(job: Any) -> datetime:
    """Return when the task was enqueued, which was elsewhere if the job was moved here."""
    earlier = label_of(job.payload).get("enqueued_at")
    return instant_of(earlier) if earlier else job.created_at


def instant_of(text: str) -> datetime:
    """Return a stored instant as the project's attributes hold it, whatever USE_TZ was then."""
    return as_attribute(as_aware(datetime.fromisoformat(text)))


def record_of(job: Any, error: str, traceback: str) -> dict[str, Any]:
    """Return the record of a failed attempt of a claimed job."""
    return {
        "attempt": job.attempts,
        "worker": job.lease_owner or "",
        "started_at": as_aware(job.started_at).isoformat(),
        "error": error,
        "traceback": traceback,
    }


def records_of(job: Any) -> list[dict[str, Any]]:
    """Return the records that a job's result holds, of the present occurrence of a schedule."""
    stored = job.result
    if not isinstance(stored, dict) or stored.get("due_at") != _due_at(job):
        return []
    records = stored.get("attempts", [])
    if not isinstance(records, list):
        return []
    return [record for record in records if _is_record(record) and _counts(record, job)]


def successful(job: Any, value: Any) -> dict[str, Any]:
    """Return a claimed job's result after an attempt that returned `value`."""
    result: dict[str, Any] = {"worker": job.lease_owner or ""}
    if value is not None:
        result["value"] = value
    if job.attempts > 1 and (records := records_of(job)):
        result["attempts"] = records
    return result


@lru_cache(maxsize=256)
def text_of_none(worker: str) -> str:
    """Return, as JSON text, the result of a job whose first attempt returned None."""
    return payloads.dump({"worker": worker}, "result")


def failed(job: Any, record: dict[str, Any]) -> dict[str, Any]:
    """Return a claimed job's result after a failed attempt."""
    records = [*records_of(job), record][-KEPT_RECORDS:]
    for old in records[:-KEPT_TRACEBACKS]:
        old.pop("traceback", None)
    due_at = _due_at(job)
    return {"attempts": records} if due_at is None else {"attempts": records, "due_at": due_at}


def worker_of(job: Any) -> str | None:
    """Return who ran the attempt that made a job done."""
    worker = job.result.get("worker") if isinstance(job.result, dict) else None
    return worker if isinstance(worker, str) else None


def value_of(job: Any) -> Any:
    return job.result.get("value") if isinstance(job.result, dict) else None


def _due_at(job: Any) -> str | None:
    return None if job.name is None or job.due_at is None else as_aware(job.due_at).isoformat()


def _is_record(record: Any) -> bool:
    return isinstance(record, dict) and type(record.get("attempt")) is int


def _counts(record: dict[str, Any], job: Any) -> bool:
    """Say whether an attempt of that number has ended: deferred ones were given back."""
    running = job.status == "running"
    return record["attempt"] < job.attempts + (not running)
