"""Real `runjobs` processes for a benchmark: started, waited for, stopped."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django_sqlqueue.models import Worker


@contextmanager
def workers(processes: int = 1, *options: str) -> Iterator[list[int]]:
    """Run so many worker processes; yield their process ids once all look for jobs."""
    Worker.objects.all().delete()
    command = [sys.executable, "-m", "django", "runjobs", f"--processes={processes}", *options]
    parent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: Worker.objects.count() == processes)
        yield list(Worker.objects.values_list("pid", flat=True))
    finally:
        parent.terminate()
        parent.wait(60)


def wait_for(answer: Callable[[], bool], seconds: float = 300, step: float = 0.02) -> None:
    end = time.monotonic() + seconds
    while not answer():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {answer}")
        time.sleep(step)


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has had; 0 where the system does not tell."""
    if not Path("/proc/self/stat").exists():
        return 0.0
    # Behind the name, which is in parentheses: the 12th and 13th are user and system time.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
