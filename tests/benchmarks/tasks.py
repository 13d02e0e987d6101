"""Tasks per second beside plain handlers, through real `runjobs` processes, taking turns."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial

from django.db.models import Max, Min

from django_sqlqueue import NewJob, task
from django_sqlqueue.models import Job

from ._measure import KIND, Report, empty_table, interleaved, make_tables

JOBS = 10_000
ROUNDS = 5
LEAST = 0.8


@task
def noop(n):
    """Do what the plain handler does."""


def main() -> int:
    make_tables()
    report = Report(f"Tasks, {JOBS:,} no-op jobs a turn, medians of {ROUNDS} turns")
    plain, tasks = interleaved(
        ROUNDS, [partial(rate_of, add_plain), partial(rate_of, add_tasks)]
    )
    report.line("plain handlers", f"{plain:,.0f} jobs/s")
    report.line("tasks", f"{tasks:,.0f} jobs/s")
    share = tasks / plain
    report.line("  beside plain handlers", f"× {share:.2f}", f"at least {LEAST}", share >= LEAST)
    empty_table()
    return report.exit_code()


def rate_of(fill: Callable[[], None]) -> float:
    """Return the jobs a second between the first claim and the last settlement."""
    empty_table()
    fill()
    command = [sys.executable, "-m", "django", "runjobs", "--drain"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    done = Job.objects.filter(status="done")
    assert done.count() == JOBS
    found = done.aggregate(first=Min("started_at"), last=Max("finished_at"))
    return JOBS / (found["last"] - found["first"]).total_seconds()


def add_plain() -> None:
    Job.objects.enqueue_many([NewJob(KIND, {"n": n}) for n in range(JOBS)])


def add_tasks() -> None:
    # As the module of a command this one is called __main__, which no worker could import.
    from tests.benchmarks.tasks import noop as importable

    importable.enqueue_many([([n], {}) for n in range(JOBS)])


if __name__ == "__main__":
    sys.exit(main())
