"""A task with the queue's own options, and the decorator that makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.module_loading import import_string

from ..durations import Seconds
from ..policy import Backoff
from .compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    InvalidTask,
    Task,
    TaskResult,
    task_backends,
)
from .options import OPTIONS, normalized
from .serving import serve

TaskBackoff = Backoff | Callable[[BaseException, TaskResult], Seconds | timedelta | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTask(Task):
    """A Task that also says how its jobs are queued; None leaves it to OPTIONS or the settings.

    Under another backend, such as the immediate one in a project's tests, these say nothing.
    """

    # While a live job holds this key, enqueue() returns that job's result.
    dedup_key: str | None = None
    # How often it may be tried.
    max_attempts: int | None = None
    # A Backoff, or a function of exception and task_result that returns seconds, None to give up.
    backoff: TaskBackoff | None = None
    # The instant after which it is retired instead of run; a timedelta counts from enqueue().
    deadline: datetime | timedelta | None = None
    # The longest that one attempt may take, in seconds.
    timeout: Seconds | timedelta | None = None
    # What it is about, such as "library:42".
    ref: str | None = None

    def __post_init__(self) -> None:
        for name in OPTIONS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, normalized(name, value))
        # Not super(): a dataclass with slots is not the class that super() was compiled for.
        Task.__post_init__(self)
        serve(self)

    def __reduce__(self) -> Any:
        """Pickle by import path, as Django does from 6.1 on."""
        kwargs = {field.name: getattr(self, field.name) for field in fields(self)}
        return _unpickled, (type(self), {**kwargs, "func": self.module_path})

    def using(self, *, run_after: datetime | timedelta | None = None, **changes: Any) -> QueueTask:
        """Return a task with other options: those of Task.using() and of this class.

        None leaves an option as it is. `run_after` may be a timedelta from now.
        """
        ours = {name: value for name in OPTIONS if (value := changes.pop(name, None)) is not None}
        if isinstance(run_after, timedelta):
            run_after = timezone.now() + run_after
        task: Any = Task.using(self, run_after=run_after, **changes)
        return replace(task, **ours) if ours else task

    def enqueue_many(self, calls: Iterable[tuple[Iterable[Any], Mapping[str, Any]]]) -> list[Any]:
        """Enqueue one job for each (args, kwargs), all or none; return their results in order."""
        return self._queue().enqueue_many(self, calls)

    def schedule(self, name: str, *args: Any, **options: Any) -> TaskResult:
        """Name a recurring call of this task; see Job.objects.schedule for the options.

        Positional arguments are the task's; `kwargs=` gives it keyword arguments. The result is
        that of the present occurrence.
        """
        return self._queue().schedule(self, name, args, **options)

    def _queue(self) -> Any:
        backend = self.get_backend()
        if not hasattr(backend, "enqueue_many"):
            raise InvalidTask(f"The backend {self.backend!r} is not SqlQueueBackend.")
        return backend


def _unpickled(cls: type[Task], kwargs: dict[str, Any]) -> Task:
    path = kwargs["func"]
    found = import_string(path)
    if not isinstance(found, Task):
        raise ValueError(f"Expected {path!r} to point to a Task instance.")
    return cls(**{**kwargs, "func": found.func})


def task(
    function: Callable[..., Any] | None = None,
    *,
    priority: int = DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Make the decorated function a task, with the framework's arguments and QueueTask's.

    The same on every Django. Where the backend has a Task class of its own, the options that it
    does not know are left out.
    """
    if "run_after" in options:
        raise TypeError("run_after is not for the decorator; use .using(run_after=...).")
    if unknown := set(options) - {field.name for field in fields(QueueTask)}:
        raise TypeError(f"task() got an unexpected keyword argument {min(unknown)!r}")

    def wrapper(func: Callable[..., Any]) -> Task:
        cls = task_backends[backend].task_class
        if issubclass(QueueTask, cls):
            cls = QueueTask
        known = {field.name for field in fields(cls)}
        return cls(
            func=func,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            run_after=None,
            takes_context=takes_context,
            **{name: value for name, value in options.items() if name in known},
        )

    return wrapper if function is None else wrapper(function)
