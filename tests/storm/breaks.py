"""Builds of the queue with one guard taken away; only the processes of a storm load them.

Statements are changed on their way to the database, so that the package itself needs no hook. The
first statement that was changed is noted in the journal: a break that no longer meets what it was
made for is a failure of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connections
from django.db.backends.signals import connection_created

from tests.storm import journal

Pairs = tuple[tuple[str, str], ...]
"""What stands in a statement, and what takes its place."""

_noted: set[str] = set()


def install(name: str) -> None:
    """Take a guard away in this process."""
    BREAKS[name](name)


def _rewriting(changes: dict[str, Pairs]) -> Callable[[str], None]:
    """Return a break that changes the statements of each engine."""

    def install_for(name: str) -> None:
        def rewrite(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            for old, new in changes[context["connection"].vendor]:
                if old in sql:
                    sql = sql.replace(old, new)
                    note(name)
            return execute(sql, params, many, context)

        _wrap_statements(rewrite)

    return install_for


def _wrap_statements(wrapper: Callable[..., Any]) -> None:
    def wrap(connection: Any, **kwargs: Any) -> None:
        if wrapper not in connection.execute_wrappers:
            connection.execute_wrappers.append(wrapper)

    connection_created.connect(wrap, weak=False, dispatch_uid=f"storm break {wrapper}")


def note(name: str) -> None:
    """Note, once in a process, that the break has taken hold."""
    if journal.who() + name not in _noted:
        _noted.add(journal.who() + name)
        journal.write("broken", name=name)


def _fence(name: str) -> None:
    _rewriting(
        {
            "sqlite": ((" AND claims = claim AND status", " AND status"),),
            "postgresql": ((" AND claims = claim AND status", " AND status"),),
            "mysql": ((" WHERE claims = claim AND status", " WHERE status"),),
        }
    )(name)
    _hold_any_claim()


def _hold_any_claim() -> None:
    """On one engine settling locks the rows first, and compares their claims itself."""
    from django_sqlqueue.engines.mariadb import MariaDB

    hold = MariaDB._hold

    def hold_whatever_claim(
        self: Any, claims: Any, now: Any, lease_over: bool = False, **lock: Any
    ) -> Any:
        if lock:
            return hold(self, claims, now, lease_over, **lock)
        ids = ", ".join(str(job) for job, _ in claims)
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT id, claims FROM django_sqlqueue_job WHERE id IN ({ids})")
            return hold(self, cursor.fetchall(), now, lease_over)

    setattr(MariaDB, "_hold", hold_whatever_claim)  # noqa: B010


def _claim_guard(name: str) -> None:
    _rewriting(
        {
            "sqlite": (),
            "postgresql": (
                (" FOR UPDATE SKIP LOCKED) AS ready", ") AS ready"),
                (" AND job.status || '' = 'ready'", ""),
            ),
            "mysql": (
                (
                    " ORDER BY run_at, id LIMIT %s FOR UPDATE SKIP LOCKED)",
                    " ORDER BY run_at, id LIMIT %s)",
                ),
                (" AND status = 'ready'", ""),
            ),
        }
    )(name)
    _claim_in_two_statements(name)


def _claim_in_two_statements(name: str) -> None:
    """On one engine a single statement looks and claims; only two can do without a guard."""
    inner, outer = " WHERE status = 'ready' AND id IN (", ") RETURNING "

    def split(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if context["connection"].vendor != "sqlite" or inner not in sql:
            return execute(sql, params, many, context)
        note(name)
        update, _, rest = sql.partition(inner)
        look, _, returning = rest.partition(outer)
        written = update.count("%s")
        execute(look, params[written:], many, context)
        ids = ", ".join(str(row[0]) for row in context["cursor"].fetchall()) or "NULL"
        claim = f"{update} WHERE id IN ({ids}){outer.removeprefix(')')}{returning}"
        return execute(claim, params[:written], many, context)

    _wrap_statements(split)


LATE: Pairs = (
    ("attempts = attempts + 1, ", ""),
    ("attempts = to_attempts,", "attempts = to_attempts + 1,"),
)


def _completion_apart(name: str) -> None:
    """Complete an atomic handler's job in a transaction of its own, after that of the effects."""
    from django_sqlqueue import execution
    from django_sqlqueue.engines import engine_for
    from django_sqlqueue.exceptions import ClaimLost

    def call_and_complete(found: Any, job: Any, now: Any) -> None:
        note(name)
        with engine_for(connections[execution.table_of(job).db]).transaction():
            returned = execution._call(found, job)
        outcome = execution._completed(job, returned)
        if not execution.table_of(job).settle(job, outcome, now):
            raise ClaimLost

    execution._call_atomically = call_and_complete


def _no_renewal(name: str) -> None:
    from django_sqlqueue.engines import mariadb, postgresql, sqlite

    def renew(self: Any, claims: Any, lease: float, now: Any) -> set[int]:
        note(name)
        return {job for job, _ in claims}

    for engine in (mariadb.MariaDB, postgresql.PostgreSQL, sqlite.SQLite):
        setattr(engine, "renew", renew)  # noqa: B010


BREAKS: dict[str, Callable[[str], None]] = {
    "fence": _fence,
    "claim guard": _claim_guard,
    "late count": _rewriting(dict.fromkeys(("sqlite", "postgresql", "mysql"), LATE)),
    "completion apart": _completion_apart,
    "no renewal": _no_renewal,
}
