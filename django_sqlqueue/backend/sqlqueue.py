"""The backend: the framework's calls as calls of Job.objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import connections

from ..conf import settings
from ..newjob import NewJob
from . import checking
from .compat import (
    READY,
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from .envelope import MOVED, label_of, payload_of, result_id
from .marks import token_of_schedule
from .options import check_place, normalized, option
from .results import imported_task, result_of
from .serving import task_of
from .tasks import QueueTask

if TYPE_CHECKING:
    from ..models import Job

RESULT_ID = re.compile(r"([0-9]{1,18})(?:-([0-9a-f]{1,40}))?", re.ASCII)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
TRIES = 20
ENQUEUED = ("dedup_key", "ref", "queue", "priority", "run_at", "deadline", "max_attempts")


class SqlQueueBackend(BaseTaskBackend):
    """Runs tasks as jobs of django_sqlqueue: the kind is the task's module path."""

    task_class = QueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task) -> None:
        """Raise InvalidTask for a task that this backend cannot run."""
        if task.run_after is not None and not isinstance(task.run_after, datetime):
            raise InvalidTask("run_after must be a datetime, or a timedelta for a QueueTask.")
        super().validate_task(task)
        check_place(task)

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Insert a job in the caller's transaction; return its result.

        Where a live job holds the task's dedup_key nothing is inserted, and the result is that
        job's. Raises InvalidTask, TypeError or ValueError, before any SQL, for what cannot be
        queued.
        """
        new = self.new_job(task, args, kwargs)
        job, is_new = self._insert_or_find(new)
        if not is_new:
            return self._result(job, task)
        return self._announced(job, task)

    def enqueue_many(
        self, task: Task, calls: Iterable[tuple[Iterable[Any], Mapping[str, Any]]]
    ) -> list[TaskResult]:
        """Insert one job for each (args, kwargs), all or none; return their results in order.

        Where the task has a dedup_key, only the first is inserted, if none is live.
        """
        new = [self.new_job(task, list(args), dict(kwargs)) for args, kwargs in calls]
        place = {job.payload["task"]["id"]: number for number, job in enumerate(new)}
        jobs = self.table().create_many(new)
        jobs.sort(key=lambda job: place[job.payload["task"]["id"]])
        return [self._announced(job, task) for job in jobs]

    def schedule(
        self,
        task: Task,
        name: str,
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TaskResult:
        """Name a recurring call of a task; return the result of its present occurrence."""
        if self._option(task, "dedup_key") is not None or task.run_after is not None:
            raise InvalidTask("A schedule has a name, and no dedup_key or run_after.")
        new = self.new_job(task, args, kwargs or {})
        new.payload["task"]["id"] = token_of_schedule(name)
        own = {
            "queue": new.queue,
            "priority": new.priority,
            "ref": new.ref,
            "max_attempts": new.max_attempts,
            "deadline": new.deadline,
        }
        given = {key: value for key, value in own.items() if value is not None}
        job = self.table().schedule(name, new.kind, payload=new.payload, **{**given, **options})
        return self._result(job, task)

    def get_result(self, result_id: str) -> TaskResult:
        """Return the result of this id; raises TaskResultDoesNotExist, for malformed ids too."""
        job = _job_of(self.table(), result_id)
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        try:
            base = task_of(job)
        except ImportError as error:
            raise TaskResultDoesNotExist(result_id) from error
        if base is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(job, base, self.alias)

    def check(self, **kwargs: Any) -> list[Any]:
        """Return what is wrong with this backend's settings."""
        return checking.problems(self.alias, self.queues, self.options)

    def new_job(self, task: Task, args: Any, kwargs: Any) -> NewJob:
        """Return the job of a call; raises what enqueue() raises."""
        self.validate_task(task)
        base = _own_task(task)
        payload = payload_of(task, base, self.alias, normalize_json(args), normalize_json(kwargs))
        return NewJob(
            task.module_path,
            payload,
            dedup_key=self._option(task, "dedup_key"),
            ref=self._option(task, "ref") or "",
            queue=task.queue_name,
            priority=int(task.priority),
            run_at=task.run_after,
            deadline=self._option(task, "deadline"),
            max_attempts=self._option(task, "max_attempts") or settings.MAX_ATTEMPTS,
        )

    def _option(self, task: Task, name: str) -> Any:
        value = option(task, self.options, name)
        return value if isinstance(task, QueueTask) else normalized(name, value)

    @staticmethod
    def table() -> Any:
        """Return Job.objects; models can be imported only once the apps are ready."""
        from ..models import Job

        return Job.objects

    def insert_new(self, new: NewJob) -> Job | None:
        """Insert a job; None where a live one holds its key."""
        options = {name: getattr(new, name) for name in ENQUEUED}
        return self.table().enqueue(new.kind, new.payload, **options)

    def _insert_or_find(self, new: NewJob) -> tuple[Job, bool]:
        """Return the new job and True, or the live one that holds its key and False."""
        for _ in range(TRIES):
            job = self.insert_new(new)
            if job is not None:
                return job, True
            job = _live(self.table(), new)
            if job is not None:
                return job, False
        raise RuntimeError(f"The live job of {new.kind!r} with key {new.dedup_key!r} is not seen.")

    def _result(self, job: Job, task: Task) -> TaskResult:
        return result_of(job, _own_task(task), self.alias)

    def _announced(self, job: Job, task: Task) -> TaskResult:
        result = self._fresh(job, task)
        task_enqueued.send(type(self), task_result=result)
        return result

    def _fresh(self, job: Job, task: Task) -> TaskResult:
        return TaskResult(
            task=task,
            id=result_id(job),
            status=READY,
            enqueued_at=job.created_at,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=job.payload["args"],
            kwargs=job.payload["kwargs"],
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


_own_tasks: dict[Any, Task] = {}
"""The functions that were seen at their module path as a Task, with that Task."""


def _own_task(task: Task) -> Task:
    """Return the Task that stands at a task's module path.

    Raises InvalidTask where none with the same function does: no worker could find it.
    """
    found = _own_tasks.get(task.func)
    if found is None:
        try:
            found = imported_task(task.module_path)
        except ImportError:
            found = None
        # The module that a process was started with has another name in every other process.
        is_script = task.func.__module__ == "__main__"
        if found is None or found.func is not task.func or is_script:
            raise InvalidTask(
                f"No worker could find this task: {task.module_path!r} is not the Task of this "
                "function. Decorate the function where it is defined, at module level."
            )
        _own_tasks[task.func] = found
    return found


def _live(table: Any, new: NewJob) -> Job | None:
    """Return the live job that holds the key of `new`."""
    held = table.find_live(new.kind, new.dedup_key)
    if held is None and connections[table.db].in_atomic_block:
        # The transaction may read an old snapshot; a locking read sees what is committed.
        live = table.live_by_key().filter(kind=new.kind, live_key=new.dedup_key)
        held = live.select_for_update().first()
    return held


def _job_of(table: Any, asked: Any) -> Job | None:
    """Return the job of a result's id, or of the id that it had in django-tasks-db."""
    if not isinstance(asked, str):
        return None
    if UUID.fullmatch(asked):
        return table.for_ref(MOVED + asked).first()
    match = RESULT_ID.fullmatch(asked)
    if match is None:
        return None
    job = table.filter(pk=int(match[1])).first()
    return job if job is not None and label_of(job.payload).get("id") == match[2] else None
