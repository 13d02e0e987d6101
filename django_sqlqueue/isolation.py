"""What a handler may leave behind in the connections of its thread, undone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from django.db import DatabaseError, connections, transaction


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Run the body so that it leaves no transaction open or broken and no connection dead.

    Inside a transaction, as in a TestCase, the body runs in a savepoint. That is kept even when
    the body raises, as its effects would be without a transaction, unless the database has
    aborted it.
    """
    with contextlib.ExitStack() as stack:
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block:
                stack.enter_context(_savepoint(connection))
            else:
                stack.callback(_leave_transaction, connection)
        try:
            yield
        finally:
            for connection in connections.all(initialized_only=True):
                if not connection.in_atomic_block:
                    _replace_if_broken(connection)


@contextlib.contextmanager
def _savepoint(connection: Any) -> Iterator[None]:
    depth = len(connection.atomic_blocks)
    block = transaction.atomic(using=connection.alias)
    block.__enter__()
    try:
        yield
    finally:
        _unwind(connection, depth + 1)
        with contextlib.suppress(DatabaseError):
            block.__exit__(None, None, None)


def _leave_transaction(connection: Any) -> None:
    """Roll back what the body left open, so that the thread is in autocommit again."""
    _unwind(connection, 0)
    if connection.connection is None:
        return
    try:
        if not connection.get_autocommit():
            connection.rollback()
            connection.set_autocommit(True)
    except DatabaseError:
        connection.close()


def _unwind(connection: Any, depth: int) -> None:
    """Leave the atomic blocks beyond `depth`, rolled back."""
    while len(connection.atomic_blocks) > depth:
        abandoned = RuntimeError("left open by a handler")
        with contextlib.suppress(DatabaseError):
            connection.atomic_blocks[-1].__exit__(RuntimeError, abandoned, None)


def tidy_connections() -> None:
    """Undo what a handler left in the connections of this thread."""
    for connection in connections.all(initialized_only=True):
        _leave_transaction(connection)
        _replace_if_broken(connection)


def _replace_if_broken(connection: Any) -> None:
    # A connection lives on for the next job also where CONN_MAX_AGE is 0: a worker serves no
    # requests whose end would close it.
    if connection.settings_dict["CONN_MAX_AGE"]:
        connection.close_if_unusable_or_obsolete()
    elif connection.errors_occurred:
        if connection.is_usable():
            connection.errors_occurred = False
        else:
            connection.close()


IDLE = 1.0
"""Seconds after which a connection may have been closed by the server."""


def check_before_use() -> None:
    """Let the next use of each idle connection of this thread first ask whether it lives."""
    now = time.monotonic()
    for connection in connections.all(initialized_only=True):
        used_at = connection.__dict__.get("_sqlqueue_used_at", 0.0)
        connection._sqlqueue_used_at = now
        if now - used_at > IDLE and not connection.in_atomic_block:
            connection.health_check_enabled = True
            connection.health_check_done = False
