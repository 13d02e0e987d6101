"""Tasks per second beside plain handlers, through real `runjobs` processes, taking turns."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from statistics import median

from django.db.models import Max, Min

from django_sqlqueue import NewJob, task
from django_sqlqueue.models import Job

from ._measure import KIND, Report, empty_table, make_tables, turns
from ._workers import processor_seconds, wait_for, workers

ROUNDS = 5
LEAST = 0.8


@task
def noop(n):
    """Do what the plain handler does."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tasks", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="in a turn (default 10,000)")
    jobs = parser.parse_args().jobs
    make_tables()
    report = Report(f"Tasks, {jobs:,} no-op jobs a turn, medians of {ROUNDS} turns")
    spent: dict[str, list[float]] = {"plain": [], "tasks": []}
    contenders = (
        partial(rate_of, add_plain, jobs, spent["plain"]),
        partial(rate_of, add_tasks, jobs, spent["tasks"]),
    )
    plain, tasks = map(median, turns(ROUNDS, contenders))
    report.line("plain handlers", f"{plain:,.0f} jobs/s")
    report.line("tasks", f"{tasks:,.0f} jobs/s")
    share = tasks / plain
    report.line("  beside plain handlers", f"× {share:.2f}", f"at least {LEAST}", share >= LEAST)
    plain_time, task_time = median(spent["plain"]), median(spent["tasks"])
    report.line("processor time of a plain job", f"{plain_time * 1e6:.0f} µs")
    report.line("processor time of a task", f"{task_time * 1e6:.0f} µs")
    empty_table()
    return report.exit_code()


def rate_of(fill: Callable[[int], None], jobs: int, spent: list[float]) -> float:
    """Return the jobs a second between the first claim and the last settlement."""
    empty_table()
    with workers(1) as (pid, *_):
        before = processor_seconds(pid)
        fill(jobs)
        wait_for(lambda: Job.objects.next_due() is None, step=0.1)
        spent.append((processor_seconds(pid) - before) / jobs)
    done = Job.objects.filter(status="done")
    assert done.count() == jobs
    found = done.aggregate(first=Min("started_at"), last=Max("finished_at"))
    return jobs / (found["last"] - found["first"]).total_seconds()


def add_plain(jobs: int) -> None:
    Job.objects.enqueue_many([NewJob(KIND, {"n": n}) for n in range(jobs)])


def add_tasks(jobs: int) -> None:
    # As the module of a command this one is called __main__, which no worker could import.
    from tests.benchmarks.tasks import noop as importable

    backend = importable.get_backend()
    Job.objects.enqueue_many([backend.new_job(importable, [n], {}) for n in range(jobs)])


if __name__ == "__main__":
    sys.exit(main())
