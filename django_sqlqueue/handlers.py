"""The registry: which function runs the jobs of a kind, and with which options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from . import kinds
from .durations import Seconds, to_seconds
from .exceptions import InvalidJob
from .kinds import Options
from .newjob import check_max_attempts, check_priority, check_text
from .policy import Backoff, BackoffLike
from .reasons import Classify

if TYPE_CHECKING:
    from .models import Job

Function = Callable[..., Any]

SCHEDULE_OPTIONS = ("every", "cron", "timezone", "payload", "missed", "ref", "deadline")

_handlers: dict[str, Handler] = {}


class Handler:
    """The function of a kind: it can be called as before, and enqueues jobs of its kind."""

    def __init__(self, kind: str, function: Function, options: Options, schedule: dict[str, Any]):
        self.kind, self.function, self.options = kind, function, options
        self.schedule = schedule
        functools.update_wrapper(self, function)

    @property
    def is_coroutine(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<handler of {self.kind!r}>"

    def enqueue(self, payload: Any = None, **options: Any) -> Job | None:
        """Enqueue a job of this kind; the options are those of Job.objects.enqueue."""
        from .models import Job

        return Job.objects.enqueue(self.kind, payload, **options)


def handler(
    kind: str,
    *,
    queue: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    backoff: BackoffLike | None = None,
    timeout: Seconds | timedelta | None = None,
    atomic: bool = False,
    classify: Classify = None,
    **schedule: Any,
) -> Callable[[Function], Handler]:
    """Register the decorated function as the handler of `kind`.

    `backoff` is a Backoff or a function of the attempt (from 1) that returns seconds. `timeout`
    is the longest that one attempt may take. With `atomic` the handler's effects on the queue's
    database commit together with the job's completion, or not at all. `classify` maps exception
    classes to reasons. Options left None come from the settings.

    With `every` or `cron` (and timezone, payload, missed, ref, deadline: schedule's options) the
    handler also declares a schedule that is named as its kind.

    Raises ImproperlyConfigured for a wrong option, or a kind that another function handles.
    """
    try:
        options = Options(
            queue=None if queue is None else check_text("queue", queue),
            priority=None if priority is None else check_priority(priority),
            max_attempts=None if max_attempts is None else check_max_attempts(max_attempts),
            backoff=_check_backoff(backoff),
            timeout=None if timeout is None else _check_timeout(timeout),
            atomic=_check_atomic(atomic),
            classify=_check_classify(classify),
        )
        check_text("kind", kind)
    except InvalidJob as error:
        raise ImproperlyConfigured(f"The handler of kind {kind!r}: {error}") from None

    def register(function: Function) -> Handler:
        if not callable(function):
            raise ImproperlyConfigured(
                f"The handler of kind {kind!r} is {function!r}, which cannot be called."
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ImproperlyConfigured(
                f"The handler of kind {kind!r} is a generator, whose body would never run; "
                "return a value instead of yielding."
            )
        return register_handler(Handler(kind, function, options, _check_schedule(kind, schedule)))

    return register


def register_handler(new: Handler) -> Handler:
    """Add a handler; raises ImproperlyConfigured for a kind that another function handles."""
    known = _handlers.get(new.kind)
    if known is not None and _origin(known) != _origin(new):
        raise ImproperlyConfigured(
            f"Two functions handle the kind {new.kind!r}: {_name(known)} and {_name(new)}. "
            "Give one of them another kind."
        )
    _handlers[new.kind] = new
    kinds.declare(new.kind, new.options)
    return new


def handler_of(kind: str) -> Handler | None:
    """Return the handler of a kind, or None where this process has none."""
    return _handlers.get(kind)


def all_kinds() -> list[str]:
    """Return the kinds that have a handler in this process, sorted."""
    return sorted(_handlers)


def all_handlers() -> list[Handler]:
    """Return the handlers in this process, in the order of their kinds."""
    return [_handlers[kind] for kind in all_kinds()]


def unregister(kind: str) -> None:
    """Forget the handler of a kind; for tests."""
    _handlers.pop(kind, None)
    kinds.forget(kind)


def _name(of: Handler) -> str:
    named = inspect.unwrap(of.function)
    return f"{named.__module__}.{getattr(named, '__qualname__', repr(named))}"


def _origin(of: Handler) -> tuple[str, int]:
    """Return where a function is defined: a module that is loaded again registers it again."""
    code = getattr(of.function, "__code__", None)
    return _name(of), getattr(code, "co_firstlineno", id(of.function))


def _check_backoff(backoff: Any) -> BackoffLike | None:
    if backoff is None or isinstance(backoff, Backoff) or callable(backoff):
        return backoff
    raise InvalidJob("backoff", "must be a Backoff or a function of the attempt.")


def _check_schedule(kind: str, schedule: dict[str, Any]) -> dict[str, Any]:
    unknown = set(schedule) - set(SCHEDULE_OPTIONS)
    if unknown or (schedule and not {"every", "cron"} & set(schedule)):
        raise ImproperlyConfigured(
            f"The handler of kind {kind!r}: {min(unknown or set(schedule))} is no option of a "
            "handler, or lacks every= or cron= beside it."
        )
    return schedule


def _check_atomic(atomic: Any) -> bool:
    if isinstance(atomic, bool):
        return atomic
    raise InvalidJob("atomic", "must be True or False.")


def _check_classify(classify: Any) -> Classify:
    if classify is None or isinstance(classify, Mapping) or callable(classify):
        return classify
    raise InvalidJob("classify", "must map exception classes to reasons, or be a function.")


def _check_timeout(timeout: Any) -> float:
    seconds = to_seconds("timeout", timeout)
    if not seconds:
        raise InvalidJob("timeout", "must be more than 0 seconds.")
    return seconds
