"""LISTEN and NOTIFY: how a commit, and the INSERT of a job, wake idle workers on PostgreSQL."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from django.db import DatabaseError, transaction

from .base import Engine
from .statements import TABLE

log = logging.getLogger("django_sqlqueue")

CHANNEL = "django_sqlqueue"
NOTIFY = f"NOTIFY {CHANNEL}"


class Listening(Engine):
    """Differs because the server itself tells the sessions that listen."""

    def notify_at_commit(self) -> None:
        connection = self.connection
        if not (connection.in_atomic_block or connection.get_autocommit()):
            # A transaction that the caller manages by hand has no hook for its commit.
            return
        connection._sqlqueue_wake = True

        def wake() -> None:
            if connection._sqlqueue_wake:
                connection._sqlqueue_wake = False
                self._notify()

        # After the commit and not within it: a transaction that notifies holds a lock on the
        # whole server while its commit waits for the disk.
        transaction.on_commit(wake, using=connection.alias, robust=True)

    def _notify(self) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(NOTIFY)

    def insert_one(
        self, columns: Sequence[str], row: Sequence[Any], returning: Sequence[str], notify: bool
    ) -> Sequence[Any] | None:
        has_key = row[columns.index("dedup_key")] is not None
        if (
            not notify
            or has_key
            or self._in_callers_transaction
            or not self._takes_several_statements
        ):
            return super().insert_one(columns, row, returning, notify)
        # One exchange with the server instead of two. NOTIFY stays outside the transaction that
        # waits for the disk: it would hold a lock on the whole server meanwhile.
        sql, params = self._insertion(columns, [row], None, returning)
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"BEGIN; {sql}; COMMIT; {NOTIFY}", params)
                cursor.nextset()
                inserted: Sequence[Any] = cursor.fetchone()
                return inserted
        except BaseException as error:
            ended = self._has_ended_transaction
            with contextlib.suppress(Exception):
                self.connection.connection.rollback()
            if ended and isinstance(error, DatabaseError):
                return self._committed_before(error, returning)
            raise

    def _committed_before(self, error: DatabaseError, returning: Sequence[str]) -> Sequence[Any]:
        """Return the row that was committed before its NOTIFY failed; raise where it was not.

        Which of the two failed the error does not say, but whether the row is there does. Behind
        a pooler the session that knows its id is not ours to ask: the error is raised there, in a
        form that retrying() does not take for a conflict, as the row would be there twice.
        """
        found = (
            f"SELECT {self._names(returning)} FROM {TABLE}"
            f" WHERE id = currval(pg_get_serial_sequence('{TABLE}', 'id'))"
        )
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            if cursor.fetchone() != (self.server_process,):
                raise type(error)(*error.args) from error
            cursor.execute(found)
            inserted: Sequence[Any] | None = cursor.fetchone()
        if inserted is None:
            raise error
        log.warning("Idle workers could not be woken; a job waits until they look for it.")
        return inserted

    @property
    def server_process(self) -> int:
        """The process that serves this connection; a pooler gives a number of its own."""
        pid: int = self.connection.connection.info.backend_pid
        return pid

    @property
    def _has_ended_transaction(self) -> bool:
        """Did the last string of statements fail at its COMMIT or behind it?"""
        from psycopg.pq import TransactionStatus

        return bool(self.connection.connection.info.transaction_status == TransactionStatus.IDLE)

    @property
    def _takes_several_statements(self) -> bool:
        """May a string hold several statements, and each of their results be read?"""
        return self.can_listen and not self.connection.features.uses_server_side_binding

    @cached_property
    def can_listen(self) -> bool:
        # Imported here because other engines do not have the driver.
        from django.db.backends.postgresql.psycopg_any import is_psycopg3

        return bool(is_psycopg3)

    def listen(self, heard: Callable[[], None], stopped: Callable[[], bool]) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")
        heard()
        with self.connection.wrap_database_errors:
            while not stopped():
                for _ in self.connection.connection.notifies(timeout=0.5, stop_after=1):
                    heard()
