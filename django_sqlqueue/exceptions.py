"""Everything that django_sqlqueue raises, or that a handler raises to steer its own job."""

from __future__ import annotations

from datetime import timedelta

from .durations import Seconds, to_seconds


class SqlQueueError(Exception):
    """The base of the errors that django_sqlqueue raises."""


class InvalidJob(SqlQueueError, ValueError):
    """A job was refused before any SQL; the message names the field and says what to do."""

    def __init__(self, field: str, problem: str):
        self.field, self.problem = field, problem
        super().__init__(f"{field} {problem}")


class InvalidSetting(SqlQueueError):
    """A key of settings.SQLQUEUE, or the whole of it, holds what cannot be used."""

    def __init__(self, key: str | None, problem: str, hint: str = ""):
        self.key, self.problem, self.hint = key, problem, hint
        where = "SQLQUEUE" if key is None else f"SQLQUEUE[{key!r}]"
        super().__init__(f"{where} {problem}")


class UnguardedSave(SqlQueueError):
    """An existing job was to be saved as a whole, over what others have written meanwhile."""

    def __init__(self, job_id: int | None):
        super().__init__(
            f"Job {job_id} changes by its verbs (complete, defer, requeue, …); "
            "to change a column of your own, name it in update_fields."
        )


class ClaimLost(SqlQueueError):
    """The claim on this job is over: its lease ended or someone else settled it."""


class JobTimeout(SqlQueueError):
    """Raised inside a handler that has run longer than its timeout."""


class Steering(SqlQueueError):
    """The base of what a handler raises to say how its attempt ends."""


class Defer(Steering):
    """Put the job back for `delay` (seconds or timedelta) without spending the attempt."""

    def __init__(self, delay: Seconds | timedelta = 0):
        self.delay = to_seconds("delay", delay)
        super().__init__(f"deferred for {self.delay:g} s")


class Retry(Steering):
    """End the attempt as failed, to run again while attempts remain.

    `delay` is in seconds or a timedelta; None means the handler's backoff.
    `reason` is stored as the job's last_error; None stores "retry".
    """

    def __init__(self, delay: Seconds | timedelta | None = None, reason: str | None = None):
        self.delay = None if delay is None else to_seconds("delay", delay)
        self.reason = "retry" if reason is None else reason
        super().__init__(self.reason)


class Abandon(Steering):
    """Fail the job for good; `reason` is stored as its last_error."""

    def __init__(self, reason: str = "abandoned"):
        self.reason = reason
        super().__init__(reason)
