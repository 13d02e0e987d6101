"""Empties the tables between tests as Django does, in a twentieth of the time.

Django would make all permissions anew after each test, and TRUNCATE gives every table and index of
PostgreSQL new files: together that took longer than most tests.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django.core.management.commands import flush
from django.db import connections

KEPT = {"auth_permission", "django_content_type"}
"""Tables that hold the same after every test."""
BLOATED = """
    SELECT COALESCE(MAX(pg_total_relation_size(oid)), 0) > 1000000 FROM pg_class
    WHERE relkind = 'r' AND relname = ANY(%s)
"""
"""Is one of the tables so large, by dead rows too, that plans would differ by what ran before?"""
OPEN = """
    SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'
"""
"""How many other sessions have a transaction open? TRUNCATE would wait for them, DELETE not."""
PATIENCE = 10.0


def install() -> None:
    setattr(flush, "emit_post_migrate_signal", lambda *args, **options: None)  # noqa: B010
    # The classes, as threads and some tests have connections of their own.
    for operations in {type(connection.ops) for connection in connections.all()}:
        _empty_quickly(operations)


def _empty_quickly(operations: Any) -> None:
    flush_of_django = operations.sql_flush

    def sql_flush(self: Any, style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        found = [table for table in tables if table not in KEPT]
        is_ours = self.connection.vendor == "postgresql" and not options.get("reset_sequences")
        if not is_ours or _ask(self.connection, BLOATED, [found]):
            return list(flush_of_django(self, style, found, **options))
        end = time.monotonic() + PATIENCE
        while _ask(self.connection, OPEN):
            assert time.monotonic() < end, "The test has left a transaction open."
            time.sleep(0.01)
        # Foreign keys are checked at the end of the transaction.
        return [f"DELETE FROM {self.quote_name(table)}" for table in found]

    operations.sql_flush = sql_flush


def _ask(connection: Any, question: str, params: Sequence[Any] = ()) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(question, params)
        return cursor.fetchone()[0]
