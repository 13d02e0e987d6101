"""What a handler may leave behind in the connections of its thread, undone."""

from __future__ import annotations

import contextlib
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
                    connection.close_if_unusable_or_obsolete()


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
