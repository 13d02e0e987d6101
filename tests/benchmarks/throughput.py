"""No-op jobs per second through real `runjobs` processes, beside a loop of plain driver calls.

All contenders take turns on the same server; each figure is the median of its turns.
"""

import statistics
import sys
from functools import partial

from django.db import connection
from django.db.models import Max, Min

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job

from ._measure import KIND, Report, empty_table, interleaved, make_tables, seconds_of
from ._raw import RawLoop
from ._workers import wait_for, workers

JOBS = 20_000
ROUNDS = 5
ONE_BY_ONE = 300
JOBS_A_SECOND = {"sqlite": 5_000, "postgresql": 7_000, "mysql": 3_000}


def main() -> int:
    make_tables()
    report = Report(f"Throughput, {JOBS:,} no-op jobs a turn, medians of {ROUNDS} turns")
    drain(report)
    enqueue_many(report)
    enqueue(report)
    empty_table()
    return report.exit_code()


def drain(report: Report) -> None:
    one, two, raw = interleaved(
        ROUNDS, [partial(rate_of_workers, 1), partial(rate_of_workers, 2), rate_of_raw_loop]
    )
    least = JOBS_A_SECOND[connection.vendor]
    report.line("raw driver: claim 100, complete 100", f"{raw:,.0f} jobs/s")
    report.line("runjobs, one process", f"{one:,.0f} jobs/s", f"at least {least:,}", one >= least)
    demanded = connection.vendor == "postgresql"
    report.line("  beside the raw loop", f"× {one / raw:.2f}", *_demand(demanded, one / raw, 0.4))
    report.line("runjobs, two processes", f"{two:,.0f} jobs/s")
    report.line("  beside one process", f"× {two / one:.2f}", *_demand(demanded, two / one, 1.4))


def _demand(demanded: bool, value: float, least: float) -> tuple[str, bool]:
    return (f"at least {least:g}", value >= least) if demanded else ("", True)


def rate_of_workers(processes: int) -> float:
    """Return the jobs a second between the first claim and the last settlement."""
    empty_table()
    with workers(processes):
        fill()
        wait_for(lambda: Job.objects.next_due() is None, step=0.1)
    assert Job.objects.stats()["done"] == JOBS
    found = Job.objects.aggregate(first=Min("started_at"), last=Max("finished_at"))
    return JOBS / (found["last"] - found["first"]).total_seconds()


def rate_of_raw_loop() -> float:
    empty_table()
    fill()
    loop = RawLoop()
    return JOBS / seconds_of(lambda: loop.drain(100))


def fill() -> None:
    Job.objects.enqueue_many([NewJob(KIND, {"n": n}) for n in range(JOBS)])


def enqueue_many(report: Report) -> None:
    jobs = [NewJob(KIND, {"n": n, "uri": f"file:///{n}"}) for n in range(JOBS)]

    def turn() -> float:
        empty_table()
        return JOBS / seconds_of(lambda: Job.objects.enqueue_many(jobs))

    (rate,) = interleaved(ROUNDS, [turn])
    demand = ("at least 50,000", rate >= 50_000) if connection.vendor != "mysql" else ("", True)
    report.line("enqueue_many", f"{rate:,.0f} rows/s", *demand)


def enqueue(report: Report) -> None:
    loop = RawLoop()
    ours, raw = [], []
    empty_table()
    for _ in range(4 * ROUNDS):
        raw.append(ONE_BY_ONE / seconds_of(partial(loop.insert_some, ONE_BY_ONE)))
        ours.append(ONE_BY_ONE / seconds_of(enqueue_some))
    rate, raw_rate = statistics.median(ours), statistics.median(raw)
    share = rate / raw_rate
    report.line("raw driver: one-row INSERT with commit", f"{raw_rate:,.0f} rows/s")
    demand = ("at least 8,000", rate >= 8_000) if connection.vendor == "sqlite" else ("", True)
    report.line("enqueue, each its own transaction", f"{rate:,.0f} jobs/s", *demand)
    demanded = connection.vendor == "postgresql"
    report.line("  beside the raw INSERT", f"× {share:.2f}", *_demand(demanded, share, 0.7))


def enqueue_some() -> None:
    for n in range(ONE_BY_ONE):
        Job.objects.enqueue(KIND, {"n": n})


if __name__ == "__main__":
    sys.exit(main())
