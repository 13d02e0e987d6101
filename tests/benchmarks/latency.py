"""How soon an idle worker starts a new job, and what idling costs.

A latency is from before the call of enqueue to the first line of the handler, in another process
on the same machine; the median counts. Then the worker is left alone for half a minute.
"""

import os
import random
import statistics
import sys
import time
from pathlib import Path

from django.db import connection

from django_sqlqueue.models import Job

from ._measure import Report, empty_table, make_tables
from ._workers import processor_seconds, wait_for, workers

SAMPLES = 60
IDLE_SECONDS = 30
POLL = 1.0
WITHIN = {"postgresql": 0.005, "sqlite": 0.020, "mysql": POLL}
CPU_SHARE = 0.01
RSS_MEGABYTES = 80


def main() -> int:
    make_tables()
    report = Report("An idle worker: latency and cost")
    with workers(1, f"--poll={POLL:g}") as pids:
        latency(report)
        idle_cost(report, pids[0])
    empty_table()
    return report.exit_code()


def latency(report: Report) -> None:
    found = sorted(seconds_to_start() for _ in range(SAMPLES))
    median, within = statistics.median(found), WITHIN[connection.vendor]
    demand = f"under {within * 1000:.0f} ms"
    report.line("enqueue to start, median", f"{median * 1000:.1f} ms", demand, median < within)
    report.line("enqueue to start, 9 of 10", f"{found[SAMPLES * 9 // 10] * 1000:.1f} ms")


def seconds_to_start() -> float:
    # The worker has gone to sleep again, at no fixed point of its poll.
    time.sleep(0.1 + random.random() / 5)
    before = time.time()
    job = Job.objects.enqueue("testapp.clock")
    assert job is not None
    wait_for(lambda: Job.objects.filter(pk=job.pk, status="done").exists())
    job.refresh_from_db()
    return float(job.result) - before


def idle_cost(report: Report, pid: int) -> None:
    if not Path("/proc/self/stat").exists():
        report.line("an idle worker's processor and memory", "only known on Linux")
        return
    time.sleep(2)
    before = processor_seconds(pid)
    time.sleep(IDLE_SECONDS)
    share = (processor_seconds(pid) - before) / IDLE_SECONDS
    figure = f"{share:.2%} of a core"
    report.line(f"idle for {IDLE_SECONDS} s", figure, f"under {CPU_SHARE:.0%}", share < CPU_SHARE)
    resident = resident_megabytes(pid)
    demand = f"under {RSS_MEGABYTES} MB"
    report.line("  its memory", f"{resident:.0f} MB", demand, resident < RSS_MEGABYTES)


def resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
