"""Lets the statements of a worker process meet a fault, as settings.FAULT describes it.

{"error": its name, "where": [texts, one of which is in the statement], "times": how often}
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db import DataError, OperationalError
from django.db.backends.signals import connection_created

FAULT: dict[str, Any] = getattr(settings, "FAULT", {})

DEADLOCKS = {
    "sqlite": OperationalError("database is locked"),
    "postgresql": OperationalError("deadlock detected"),
    "mysql": OperationalError(1213, "Deadlock found when trying to get lock"),
}
SELF_KILL = {
    "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
    "mysql": "KILL CONNECTION_ID()",
}


class FaultsConfig(AppConfig):
    name = "tests.worker.faults"

    def ready(self) -> None:
        if FAULT:
            connection_created.connect(_watch, dispatch_uid="faults")


def _watch(connection: Any, **kwargs: Any) -> None:
    if _meet not in connection.execute_wrappers:
        connection.execute_wrappers.append(_meet)


_left = threading.Semaphore(FAULT.get("times", 0))


def _meet(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    if any(text in sql for text in FAULT["where"]) and _left.acquire(blocking=False):
        FAULTS[FAULT["error"]](context["connection"])
    return execute(sql, params, many, context)


def _deadlock(connection: Any) -> None:
    error = DEADLOCKS[connection.vendor]
    # As a driver's error that Django has wrapped.
    error.__cause__ = _DriverError("40P01")
    raise error


def _drop(connection: Any) -> None:
    """Let the server end the session, so that the statement itself finds it gone."""
    with suppress(Exception), connection.connection.cursor() as cursor:
        cursor.execute(SELF_KILL[connection.vendor])


def _refuse(connection: Any) -> None:
    raise DataError("value out of range for whatever reason")


def _refuse_oddly(connection: Any) -> None:
    raise OperationalError("the disk is full for this very row")


class _DriverError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate
        self.diag = SimpleNamespace(sqlstate=sqlstate)


FAULTS: dict[str, Callable[[Any], None]] = {
    "deadlock": _deadlock,
    "drop": _drop,
    "refuse": _refuse,
    "refuse oddly": _refuse_oddly,
}
