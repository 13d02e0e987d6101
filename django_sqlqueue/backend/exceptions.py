"""Why a task failed that did not fail by an exception of its own; named in TaskResult.errors."""

from __future__ import annotations

from .. import policy
from ..exceptions import JobTimeout, SqlQueueError
from ..reasons import class_path


class TaskLost(SqlQueueError):
    """The worker that ran this attempt disappeared."""


class TaskExpired(SqlQueueError):
    """The task's deadline passed before it could run."""


class TaskCancelled(SqlQueueError):
    """The task was cancelled."""


class TaskNotRun(SqlQueueError):
    """The task could not be started: its function or its payload cannot be used."""


class TaskFailed(SqlQueueError):
    """The attempt failed; only the classified reason is known."""


REASONS: dict[str, type[SqlQueueError]] = {
    policy.LEASE_EXPIRED: TaskLost,
    "reset": TaskLost,
    policy.DEADLINE_PASSED: TaskExpired,
    policy.NO_HANDLER: TaskNotRun,
    policy.DAMAGED_PAYLOAD: TaskNotRun,
    policy.TIMEOUT: JobTimeout,
}


def explain(cls: type[SqlQueueError]) -> str:
    """Return one line in the form of the last line of a traceback."""
    return f"{class_path(cls)}: {(cls.__doc__ or '').splitlines()[0]}\n"
