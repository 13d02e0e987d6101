"""The admin's pages over a million jobs: how many queries each asks, and how long it takes.

The first page of the list has 300 ms, and each page asks as many queries as over few jobs. The
times are the least of some rounds, as what else the machine does can only add to them; in
brackets is the processor time of this process, which on SQLite is all there is.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_sqlqueue.engines import engine_for
from django_sqlqueue.models import Job, Worker

from ._measure import Report, empty_table, make_tables, seconds_of

LIST = "/admin/django_sqlqueue/job/"
ROWS = 1_000_000
FEW = 20_000
STEPS = 200
"""The rows were settled in so many steps over two days."""
ROUNDS = 7
FIRST_PAGE = 0.3
ANY_PAGE = 2.0

COLUMNS = {
    "kind": "CONCAT('bench.kind', i % 8)",
    "queue": "CONCAT('queue', i % 3)",
    "ref": "CONCAT('order:', i % 50000)",
    "dedup_key": "CONCAT('key-', i)",
    "status": (
        "CASE WHEN i % 100 < 85 THEN 'done' WHEN i % 100 < 95 THEN 'failed'"
        " WHEN i % 100 < 97 THEN 'cancelled' ELSE 'ready' END"
    ),
    "last_error": (
        "CASE WHEN i % 100 BETWEEN 85 AND 94 THEN CONCAT('bench.Error', i % 25) ELSE '' END"
    ),
    "attempts": "1",
    "payload": "CONCAT('{\"text\": \"', REPEAT('x', 300), '\"}')",
}


def main() -> int:
    make_tables()
    report = Report(f"The admin's pages over {ROWS:,} jobs")
    client = Client()
    user = User.objects.create_superuser("bench")
    client.force_login(user)
    try:
        with filled(FEW):
            few = {name: queries(client, url) for name, url in pages().items()}
        with filled(ROWS):
            control(report)
            for name, url in pages().items():
                measure(report, client, name, url, few[name])
            control(report)
    finally:
        user.delete()
    return report.exit_code()


def pages() -> dict[str, str]:
    """Return the address of each page by what it is."""
    job = Job.objects.filter(status="failed").first()
    assert job is not None
    middle = (Job.objects.order_by("pk").values_list("pk", flat=True).last() or 0) // 2
    lists: dict[str, dict[str, Any]] = {
        "first page": {},
        "page far back": {"before": middle},
        "filter: failed": {"status": "failed"},
        "filter: failed, far back": {"status": "failed", "before": job.pk},
        "filter: ready": {"status": "ready"},
        "filter: a frequent kind": {"kind": "bench.kind1"},
        "filter: a kind that nothing has": {"kind": "nothing"},
        "filter: failed for one reason": {"status": "failed", "reason": "bench.Error10"},
        "filter: ended in the last hour": {"ended": "hour"},
        "search: an id": {"q": job.pk},
        "search: a ref": {"q": "order:77"},
        "search: a key": {"q": job.dedup_key},
        "search: the beginning of a kind": {"q": "bench."},
        "search: nothing": {"q": "nothing has this"},
    }
    addresses = {name: f"{LIST}?{urlencode(query)}" for name, query in lists.items()}
    return addresses | {
        "overview": f"{LIST}overview/",
        "a job": f"{LIST}{job.pk}/change/",
        "schedules": "/admin/django_sqlqueue/schedule/",
        "workers": "/admin/django_sqlqueue/worker/",
    }


def measure(report: Report, client: Client, name: str, url: str, few: int) -> None:
    asked = queries(client, url)
    used = time.process_time()
    seconds = min(seconds_of(lambda: client.get(url)) for _ in range(ROUNDS))
    used = (time.process_time() - used) / ROUNDS
    fast = name == "first page" and connection.vendor != "mysql"
    limit = FIRST_PAGE if fast else ANY_PAGE
    met = seconds < limit and asked == few
    figure = f"{asked} queries {seconds * 1000:5.0f} ({used * 1000:.0f}) ms"
    demand = f"{few} queries, {limit * 1000:.0f} ms"
    report.line(name, figure, demand, met)


def control(report: Report) -> None:
    """Time what each list has to do at least: it tells how busy the machine was."""
    newest = "SELECT * FROM django_sqlqueue_job ORDER BY id DESC LIMIT 51"

    def ask() -> None:
        with connection.cursor() as cursor:
            cursor.execute(newest)
            cursor.fetchall()

    seconds = min(seconds_of(ask) for _ in range(ROUNDS))
    report.line("control: the newest 51 rows, by plain SQL", f"{seconds * 1000:5.1f} ms")


def queries(client: Client, url: str) -> int:
    client.get(url)
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
    assert response.status_code == 200, (url, response.status_code)
    return len(captured)


@contextmanager
def filled(rows: int) -> Iterator[None]:
    """Fill the table by SQL, in steps that ended one after the other until now."""
    engine = engine_for(connection)
    if connection.vendor == "sqlite":
        # Older ones have no such functions.
        connection.ensure_connection()
        connection.connection.create_function("CONCAT", -1, lambda *parts: "".join(map(str, parts)))
        connection.connection.create_function("REPEAT", 2, lambda text, count: text * count)
    now = timezone.now()
    for step in range(STEPS):
        ended = now - timedelta(days=2) * (STEPS - step) / STEPS
        fill(engine, step * rows // STEPS, (step + 1) * rows // STEPS, ended)
    Worker.objects.create(runner="bench", host="bench", pid=1, kinds=["bench.kind1"], threads=1)
    with connection.cursor() as cursor:
        table = "TABLE " if connection.vendor == "mysql" else ""
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM ANALYZE django_sqlqueue_job")
        elif connection.vendor == "mysql":
            cursor.execute(f"ANALYZE {table}django_sqlqueue_job")
            cursor.fetchall()
    try:
        yield
    finally:
        Worker.objects.all().delete()
        empty_table()


def fill(engine: Any, start: int, end: int, ended: Any) -> None:
    place, params = engine.moment(ended, None)
    ends = f"CASE WHEN i % 100 < 97 THEN {place} END"
    names = ", ".join((*COLUMNS, "created_at", "run_at", "started_at", "finished_at"))
    computed = dict(COLUMNS)
    if connection.vendor == "postgresql":
        computed["payload"] = f"CAST({computed['payload']} AS jsonb)"
    values = ", ".join((*computed.values(), place, place, place, ends)).replace("%", "%%")
    values = values.replace("%%s", "%s")
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("SET max_recursive_iterations = 10000000")
        cursor.execute(
            f"INSERT INTO django_sqlqueue_job ({names})"
            " WITH RECURSIVE n (i) AS"
            f" (SELECT {start} UNION ALL SELECT i + 1 FROM n WHERE i < {end - 1})"
            f" SELECT {values} FROM n",
            params * 4,
        )


if __name__ == "__main__":
    sys.exit(main())
