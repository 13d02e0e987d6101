"""Running a task as the handler of its module path: the framework's side of one attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal
from django.utils import timezone
from django.utils.functional import cached_property

from .. import policy, reasons
from ..conf import settings
from ..exceptions import Abandon, Defer, JobTimeout, Retry, Steering
from ..policy import Backoff
from . import compat
from .compat import (
    BaseTaskBackend,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    normalize_json,
    task_started,
)
from .envelope import arguments_of, failed, record_of, successful, text_of_none
from .exceptions import TaskNotRun
from .listening import has_receivers, is_logged
from .options import option, stores_messages
from .results import alias_of, backend_of, imported_task, result_of

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")

ATTRIBUTE = "_performance"
"""Where a claimed job keeps its Performance until it is settled."""

TO_STORE = "_result_to_store"
"""Where a job keeps, as JSON text, the result that its handler set."""


def perform(job: Job) -> None:
    """Run one attempt of a task; the handler of every task that is no coroutine."""
    turn = Performance(job)
    if turn.is_heard(task_started):
        task_started.send_robust(turn.sender, task_result=turn.result)
    try:
        turn.succeed(turn.function()(*turn.arguments(), **turn.kwargs))
    except BaseException as error:
        steering = turn.fail(error)
        if steering is None:
            raise
        raise steering from error


async def perform_coroutine(job: Job) -> None:
    """Run one attempt of a coroutine task, on the worker's event loop."""
    turn = Performance(job)
    if job.attempts > 1:
        await sync_to_async(turn.read_result)()
    if turn.is_heard(task_started):
        await task_started.asend_robust(turn.sender, task_result=turn.result)
    try:
        turn.succeed(await turn.result.task.acall(*turn.arguments(), **turn.kwargs))
    except BaseException as error:
        steering = turn.fail(error)
        if steering is None:
            raise
        raise steering from error


class Performance:
    """One attempt under way; its TaskResult is made when somebody wants it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.error: BaseException | None = None
        self.value: Any = None
        self.has_returned = False
        base = imported_task(job.kind)
        if base is None:
            raise TaskNotRun(f"{job.kind!r} is not a Task.")
        self.base = base
        self.args, self.kwargs = arguments_of(job.payload)
        self._is_logged = is_logged(logging.INFO)
        job.__dict__[ATTRIBUTE] = self

    @cached_property
    def result(self) -> TaskResult:
        """The task's result as it was when the attempt began, until the attempt ends."""
        return result_of(self.job, self.base, self.base.backend)

    @cached_property
    def backend(self) -> BaseTaskBackend:
        return backend_of(alias_of(self.job, self.base.backend))

    @property
    def sender(self) -> type[BaseTaskBackend]:
        return type(self.backend)

    def is_heard(self, signal: Signal) -> bool:
        """Say whether anybody would notice that this attempt began, or succeeded."""
        return self._is_logged or has_receivers(signal)

    def read_result(self) -> None:
        """Make the result now: it may ask the database for earlier attempts."""
        _ = self.result

    def function(self) -> Callable[..., Any]:
        """Return what Task.call would call, for a function that is no coroutine."""
        return self.base.func if type(self.base).call is Task.call else self.result.task.call

    def arguments(self) -> list[Any]:
        if self.base.takes_context:
            return [TaskContext(task_result=self.result), *self.args]
        return self.args

    def succeed(self, returned: Any) -> None:
        """Keep what the function returned, to be stored when the job is settled.

        Raises TypeError or ValueError for what cannot be stored as JSON.
        """
        self.has_returned = True
        if returned is None and self.job.attempts == 1:
            self.job.__dict__[TO_STORE] = text_of_none(self.job.lease_owner or "")
            return
        self.value = normalize_json(returned)
        if not self.job.set_result(successful(self.job, self.value)):
            raise ValueError("Unsupported value: it cannot be stored as JSON.")

    def finished(self) -> TaskResult:
        """Return the result of an attempt that ended the task."""
        if self.error is None:
            object.__setattr__(self.result, "_return_value", self.value)
            self._end(compat.SUCCESSFUL)
        return self.result

    def fail(self, error: BaseException) -> Steering | None:
        """Keep the failure; return what to raise instead, None to let the error pass.

        A value that cannot be stored fails the task for good: running it once more would repeat
        what it did and return the same.
        """
        if isinstance(error, Defer):
            return None
        self.error = error
        self._record(_error_of(error, stores_messages(self.backend.options)))
        self._end(compat.FAILED)
        if self.has_returned:
            return Abandon(_reason(error))
        is_decided = isinstance(error, Steering) and getattr(error, "delay", 0) is not None
        if is_decided or not isinstance(error, Exception) or not policy.attempts_left(self.job):
            return None
        return self._after(error)

    def _record(self, error: TaskError) -> None:
        self.result.errors.append(error)
        record = record_of(self.job, error.exception_class_path, error.traceback)
        if not self.job.set_result(failed(self.job, record)):
            self.job.set_result({"attempts": [record]})

    def _end(self, status: Any) -> None:
        object.__setattr__(self.result, "status", status)
        object.__setattr__(self.result, "finished_at", timezone.now())

    def _after(self, error: Exception) -> Steering | None:
        """Return the retry that the task's own backoff asks for, or the end if it says None."""
        backoff = option(self.result.task, self.backend.options, "backoff")
        if backoff is None:
            return None
        try:
            if isinstance(backoff, Backoff):
                delay = backoff(self.job.attempts)
            else:
                delay = backoff(error, self.result)
            return Abandon(_reason(error)) if delay is None else Retry(delay, _reason(error))
        except Exception as broken:
            log.error(
                "The backoff of task %r raised %s; the default is used.",
                self.job.kind,
                type(broken).__name__,
            )
            return None


def _error_of(error: BaseException, messages: bool) -> TaskError:
    cls = type(error)
    text = "".join(format_exception(error)) if messages else reasons.trace(error)
    return TaskError(
        exception_class_path=f"{cls.__module__}.{cls.__qualname__}",
        traceback=reasons.storable(text)[-reasons.MAX_TRACEBACK :],
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, Steering):
        return str(error)
    if isinstance(error, JobTimeout):
        return policy.TIMEOUT
    return reasons.classify(error, settings.CLASSIFY)
