"""Claiming costs the same whatever else is in the table: a full table beside an empty one.

Each line is a median with other rows and one without, taken in turn; above twice is a failure.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from django.db import connection
from django.utils import timezone

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome

from ._measure import (
    KIND,
    Report,
    another_database,
    empty_table,
    interleaved,
    make_tables,
    seconds_of,
)

EMPTY, FULL = "empty", "default"
ROUNDS = 40
LIMIT = 2.0
QUEUE = "default"


class Backlog(NamedTuple):
    """Rows that fill the table; `values` is SQL for the columns, `i` counts the rows."""

    title: str
    rows: int
    status: str = "ready"
    kind: str = f"'{KIND}'"
    priority: int = 0
    due_in: timedelta = timedelta(hours=-1)
    then: str | None = None
    """What happens to the rows afterwards."""
    is_demand: bool = True


BACKLOGS = (
    Backlog("1,000,000 done", 1_000_000, status="done"),
    Backlog("500,000 not yet due, priority 10", 500_000, priority=10, due_in=timedelta(days=1)),
    Backlog(
        "300,000 ready of other kinds, priority 10", 300_000, priority=10,
        kind="CASE WHEN i % 2 = 0 THEN 'a.other' ELSE 'z.other' END",
    ),
    Backlog("100,000 ready and due", 100_000),
    Backlog(
        "300,000 ready, settled a moment ago", 300_000,
        then="UPDATE django_sqlqueue_job SET status = 'done', finished_at = updated_at",
        # What was ready stays in the index until the server cleans up, as it soon does by itself.
        is_demand=False,
    ),
)  # fmt: skip


def main() -> int:
    make_tables()
    report = Report("Cost of a call with a backlog, beside an empty table")
    with another_database(EMPTY):
        for backlog in BACKLOGS:
            with filled(backlog):
                compare(report, backlog, "no statistics")
                gather_statistics()
                compare(report, backlog, "statistics")
    return report.exit_code()


@contextmanager
def filled(backlog: Backlog) -> Iterator[None]:
    """Fill the table as SQL can, while its statistics still say that it is empty."""
    gather_statistics()
    keep_statistics(True)
    engine = Job.objects.all().engine
    run_at, params = engine.moment(timezone.now() + backlog.due_in, None)
    finished, finished_params = ("NULL", []) if backlog.status == "ready" else (run_at, params)
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("SET max_recursive_iterations = 10000000")
        cursor.execute(
            "INSERT INTO django_sqlqueue_job (kind, status, priority, run_at, finished_at)"
            " WITH RECURSIVE n (i) AS"
            f" (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {backlog.rows})"
            f" SELECT {backlog.kind.replace('%', '%%')}, '{backlog.status}', {backlog.priority},"
            f" {run_at}, {finished} FROM n",
            [*params, *finished_params],
        )
        if backlog.then:
            cursor.execute(backlog.then)
    try:
        yield
    finally:
        keep_statistics(False)
        empty_table(FULL)


def keep_statistics(keep: bool) -> None:
    """Let the server not gather statistics by itself, where it would."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            off = "true" if not keep else "false"
            cursor.execute(f"ALTER TABLE django_sqlqueue_job SET (autovacuum_enabled = {off})")
        elif connection.vendor == "mysql":
            auto = 0 if keep else 1
            cursor.execute(f"ALTER TABLE django_sqlqueue_job STATS_AUTO_RECALC = {auto}")


def gather_statistics() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("ANALYZE TABLE django_sqlqueue_job")
            cursor.fetchall()
        else:
            cursor.execute("ANALYZE")


Call = Callable[[Any], Any]


def calls() -> dict[str, tuple[int, Call]]:
    """Return the calls that are timed, each with how many due jobs it finds at least."""
    return {
        "claim one, of one kind": (1, partial(claim, kinds=[KIND])),
        "claim one, of one kind and queue": (1, partial(claim, kinds=[KIND], queues=[QUEUE])),
        "claim one, of any kind": (1, claim),
        "claim one, of any kind, of one queue": (1, partial(claim, queues=[QUEUE])),
        "claim 100": (100, partial(claim, kinds=[KIND], limit=100)),
        "claim where nothing is due": (0, partial(claim, kinds=["testapp.record"])),
        "next_due": (1, lambda table: table.next_due(kinds=[KIND])),
        "enqueue": (0, lambda table: table.enqueue(KIND)),
        "enqueue with a key": (0, lambda table: table.enqueue(KIND, dedup_key=str(next(KEYS)))),
        "settle one": (1, settle),
        "settle 500": (500, settle),
    }


def claim(table: Any, **options: Any) -> list[Job]:
    return table.claim("benchmark", **options)


def settle(table: Any) -> Any:
    return table.settle_many([(job, Outcome(move="complete")) for job in HELD[table.db]])


KEYS = count(1)
HELD: dict[str, list[Job]] = {}


def compare(report: Report, backlog: Backlog, statistics: str) -> None:
    print(f"\n{backlog.title}; {statistics}", flush=True)
    for name, (due, call) in calls().items():
        contenders = [partial(sample, alias, due, call) for alias in (EMPTY, FULL)]
        rounds = ROUNDS if due <= 1 else ROUNDS // 4
        without, beside = interleaved(rounds, contenders)
        if beside > LIMIT * without:
            # Once more: another program may have had the machine for itself meanwhile.
            without, beside = interleaved(2 * rounds, contenders)
        ratio = beside / without
        figure = f"{without * 1000:.2f} → {beside * 1000:.2f} ms × {ratio:.2f}"
        demand = (f"at most {LIMIT:g}", ratio <= LIMIT) if backlog.is_demand else ("", True)
        report.line(name, figure, *demand)


def sample(alias: str, due: int, call: Call) -> float:
    """Time one call on a table that holds the jobs it needs, and settle what it left."""
    table = Job.objects.using(alias)
    table.enqueue_many([NewJob(KIND)] * due)
    if call is settle:
        HELD[alias] = claim(table, kinds=[KIND], limit=due)
    found: list[Any] = []
    seconds = seconds_of(lambda: found.append(call(table)))
    HELD[alias] = found[0] if isinstance(found[0], list) else claim(table, kinds=[KIND])
    if HELD[alias]:
        settle(table)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
