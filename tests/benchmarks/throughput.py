"""No-op jobs per second through real `runjobs` processes, beside a loop of plain driver calls.

All contenders take turns on the same server; each figure is the median of its turns.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from django.db import connection
from django.db.models import Max, Min
from django.test import override_settings

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job

from ._measure import KIND, Report, empty_table, make_tables, seconds_of, turns
from ._raw import RawLoop
from ._workers import processor_seconds, wait_for, workers

ROUNDS = 5
ONE_BY_ONE = 200
LONG_SECONDS = 9
JOBS_A_SECOND = {"sqlite": 5_000, "postgresql": 7_000, "mysql": 3_000}


def main() -> int:
    parser = argparse.ArgumentParser(prog="throughput", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="in a turn (default 20,000)")
    jobs = parser.parse_args().jobs
    make_tables()
    report = Report(f"Throughput, {jobs:,} no-op jobs a turn, medians of {ROUNDS} turns")
    drain(report, jobs)
    enqueue_many(report, jobs)
    enqueue(report)
    long_jobs(report)
    empty_table()
    return report.exit_code()


def drain(report: Report, jobs: int) -> None:
    contenders = (
        partial(rate_of_workers, 1, jobs),
        partial(rate_of_workers, 2, jobs),
        partial(rate_of_raw_loop, jobs),
    )
    one, two, raw = turns(ROUNDS, contenders)
    least = JOBS_A_SECOND[connection.vendor]
    demanded = connection.vendor == "postgresql"
    report.line("raw driver: claim 100, complete 100", rates(raw, "jobs"))
    report.line("runjobs, one process", rates(one, "jobs"), *at_least(least, median(one)))
    share = median(one) / median(raw)
    report.line("  beside the raw loop", f"× {share:.2f}", *at_least(0.4, share, demanded))
    report.line("  its processor time a job", f"{median(PROCESSOR_TIMES) * 1e6:.0f} µs")
    report.line("runjobs, two processes", rates(two, "jobs"))
    share = median(two) / median(one)
    report.line("  beside one process", f"× {share:.2f}", *at_least(1.4, share, demanded))


def rates(found: list[float], what: str) -> str:
    return f"{median(found):,.0f} {what}/s (best {max(found):,.0f})"


def at_least(least: float, value: float, is_demand: bool = True) -> tuple[str, bool]:
    return (f"at least {least:,g}", value >= least) if is_demand else ("", True)


PROCESSOR_TIMES: list[float] = []
"""Seconds a job, of single workers: what limits them where the machine has nothing else to do."""


def rate_of_workers(processes: int, jobs: int) -> float:
    """Return the jobs a second between the first claim and the last settlement."""
    empty_table()
    with workers(processes) as pids:
        fill(jobs)
        before = processor_seconds(pids[0])
        wait_for(lambda: Job.objects.next_due() is None, step=0.1)
        if processes == 1:
            PROCESSOR_TIMES.append((processor_seconds(pids[0]) - before) / jobs)
    assert Job.objects.stats()["done"] == jobs
    found = Job.objects.aggregate(first=Min("started_at"), last=Max("finished_at"))
    return jobs / (found["last"] - found["first"]).total_seconds()


def rate_of_raw_loop(jobs: int) -> float:
    empty_table()
    fill(jobs)
    loop = RawLoop()
    return jobs / seconds_of(lambda: loop.drain(100))


def fill(jobs: int) -> None:
    Job.objects.enqueue_many([NewJob(KIND, {"n": n}) for n in range(jobs)])


def enqueue_many(report: Report, jobs: int) -> None:
    new = [NewJob(KIND, {"n": n, "uri": f"file:///{n}"}) for n in range(jobs)]

    def turn() -> float:
        empty_table()
        return jobs / seconds_of(lambda: Job.objects.enqueue_many(new))

    (found,) = turns(2 * ROUNDS, [turn])
    demand = at_least(50_000, median(found), connection.vendor != "mysql")
    report.line("enqueue_many", rates(found, "rows"), *demand)


def enqueue(report: Report) -> None:
    loop = RawLoop()
    empty_table()

    def rate(insert_some: Callable[[int], None]) -> float:
        return ONE_BY_ONE / seconds_of(partial(insert_some, ONE_BY_ONE))

    contenders = (loop.insert_some, enqueue_some, enqueue_some_silently)
    raw, ours, silent = turns(6 * ROUNDS, [partial(rate, contender) for contender in contenders])
    report.line("raw driver: one-row INSERT with commit", rates(raw, "rows"))
    demand = at_least(8_000, median(ours), connection.vendor == "sqlite")
    report.line("enqueue, each its own transaction", rates(ours, "jobs"), *demand)
    share = median(ours) / median(raw)
    demand = at_least(0.7, share, connection.vendor == "postgresql")
    report.line("  beside the raw INSERT", f"× {share:.2f}", *demand)
    if connection.vendor == "postgresql":
        # The wake-up travels with the INSERT, as a transaction of its own.
        report.line("  with NOTIFY off", f"× {median(silent) / median(raw):.2f}")


def enqueue_some(jobs: int) -> None:
    for n in range(jobs):
        Job.objects.enqueue(KIND, {"n": n})


def enqueue_some_silently(jobs: int) -> None:
    with override_settings(SQLQUEUE={"NOTIFY": False}):
        enqueue_some(jobs)


def long_jobs(report: Report) -> None:
    """Of jobs that are not short, no more are held than can run."""
    empty_table()
    Job.objects.enqueue_many([NewJob("testapp.wait", {"seconds": 2}) for _ in range(1_000)])
    held = []
    with workers(1, "--threads=4", "--grace=0"):
        end = time.monotonic() + LONG_SECONDS
        while time.monotonic() < end:
            held.append(Job.objects.filter(status="running").count())
            time.sleep(0.02)
    line = f"running of 1,000 jobs of 2 s, for {LONG_SECONDS} s"
    report.line(line, f"at most {max(held)}", "at most 4", max(held) <= 4)


if __name__ == "__main__":
    sys.exit(main())
