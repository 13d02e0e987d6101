"""LISTEN and NOTIFY: how a commit wakes idle workers on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from .base import Engine

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
            if connection.__dict__.pop("_sqlqueue_wake", False):
                self._notify()

        # After the commit and not within it: a transaction that notifies holds a lock on the
        # whole server while its commit waits for the disk.
        transaction.on_commit(wake, using=connection.alias, robust=True)

    def _notify(self) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(NOTIFY)

    @property
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
