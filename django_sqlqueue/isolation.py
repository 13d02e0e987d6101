"""What a handler may leave behind in the connections of its thread, undone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error, connections, reset_queries, transaction


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Run the body so that it leaves no transaction open or broken and no connection dead.

    Inside a transaction, as in a TestCase, the body runs in a savepoint. That is kept even when
    the body raises, as its effects would be without a transaction, unless the database has
    aborted it.
    """
    outer = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
    with _savepoints(outer) if outer else contextlib.nullcontext():
        try:
            yield
        finally:
            tidy_connections(outer)


@contextlib.contextmanager
def _savepoints(outer: Sequence[Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for connection in outer:
            stack.enter_context(_savepoint(connection))
        yield


@contextlib.contextmanager
def _savepoint(connection: Any) -> Iterator[None]:
    depth = len(connection.atomic_blocks)
    block = transaction.atomic(using=connection.alias)
    block.__enter__()
    try:
        yield
    finally:
        leave_blocks(connection, depth + 1)
        with contextlib.suppress(Error):
            block.__exit__(None, None, None)


@contextlib.contextmanager
def tidied() -> Iterator[None]:
    """Do the same in a thread of the queue's own, in which no transaction is open before."""
    try:
        yield
    finally:
        tidy_own_connections()


def tidy_own_connections() -> None:
    """Undo what a handler left in the connections of this thread, which is the queue's own."""
    tidy_connections()
    if settings.DEBUG:
        # Django keeps the statements until a request ends, and here none does.
        reset_queries()


def tidy_connections(outer: Sequence[Any] = ()) -> None:
    """Undo what a handler left in the connections of this thread, but for those of `outer`."""
    for connection in connections.all(initialized_only=True):
        if connection not in outer:
            _leave_transaction(connection)
            _replace_if_broken(connection)


def _leave_transaction(connection: Any) -> None:
    """Roll back what the body left open, so that the thread is in autocommit again."""
    leave_blocks(connection, 0)
    if connection.connection is None:
        return
    try:
        # Also where Django knows of no transaction: the body may have begun one by SQL.
        connection.rollback()
        if not connection.get_autocommit():
            connection.set_autocommit(True)
    except Error:
        close(connection)


def leave_blocks(connection: Any, depth: int) -> None:
    """Leave the atomic blocks beyond `depth`, rolled back."""
    while connection.in_atomic_block and len(connection.atomic_blocks) > depth:
        abandoned = RuntimeError("left open by a handler")
        with contextlib.suppress(Error):
            connection.atomic_blocks[-1].__exit__(RuntimeError, abandoned, None)


def _replace_if_broken(connection: Any) -> None:
    # A connection lives on for the next job also where CONN_MAX_AGE is 0: a worker serves no
    # requests whose end would close it.
    if connection.settings_dict["CONN_MAX_AGE"]:
        connection.close_if_unusable_or_obsolete()
    elif connection.errors_occurred and connection.connection is not None:
        if connection.is_usable():
            connection.errors_occurred = False
        else:
            close(connection)


def close(connection: Any) -> None:
    """Close a connection, in whatever state it is; its next use opens a new one."""
    # A driver may refuse to close what is closed already.
    with contextlib.suppress(Exception):
        connection.close()


@contextlib.contextmanager
def own_connections() -> Iterator[None]:
    """Run the body with connections of its own, and let those of before alone.

    After a fork they are the parent's too: to use them, or to close them, would break its own.
    """
    before = connections.all(initialized_only=True)
    for connection in before:
        del connections[connection.alias]
    try:
        yield
    finally:
        for connection in connections.all(initialized_only=True):
            close(connection)
        for connection in before:
            connections[connection.alias] = connection


IDLE = 1.0
"""Seconds after which a connection may have been closed by the server."""


def check_before_use() -> None:
    """Let each use of a connection of this thread that was idle first ask whether it lives.

    That holds from now on, also for a handler that comes back to its connection after a while.
    """
    connection: Any
    for connection in connections.all():
        if "_sqlqueue_used_at" not in connection.__dict__:
            connection._sqlqueue_used_at, connection._sqlqueue_seen = 0.0, None
            connection.close_if_health_check_failed = partial(_close_if_idle_and_dead, connection)


def _close_if_idle_and_dead(connection: Any) -> None:
    now, opened = time.monotonic(), connection.connection
    if opened is not connection._sqlqueue_seen:
        # A new one lives, and nothing may be asked before Django has set it up.
        connection._sqlqueue_seen = opened
    elif now - connection._sqlqueue_used_at > IDLE and connection.autocommit:
        # Not at the end of a transaction that took long: Django asks once more before it turns
        # autocommit on again, and a question then would begin a transaction that nobody ends.
        connection.health_check_enabled = True
        connection.health_check_done = False
    connection._sqlqueue_used_at = now
    type(connection).close_if_health_check_failed(connection)
