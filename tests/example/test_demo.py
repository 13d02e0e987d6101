"""The demo: indexes a folder with a real worker, reports, serves, and leaves nothing running."""

import os
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import processes
from tests.example.library import Library
from tests.processes import wait_until

pytestmark = pytest.mark.processes

TEXT = "Bread is baked from flour, water and salt. The dough has to rest before it is baked."


def test_the_demo_reports_what_was_done_and_what_failed(library: Library) -> None:
    library.write("bread.txt", TEXT)
    output = library.manage("demo", str(library.folder), "--no-serve")
    assert "admin, password: admin" in output
    assert "Documents: 3, of which 2 are embedded." in output
    assert "6 done, 3 failed" in output
    assert "Failed as undecodable_text: 3" in output
    assert "The worker has stopped." in output
    assert library.ask("Client().login(username='admin', password='admin')") is True


def test_a_second_demo_finds_nothing_new(library: Library) -> None:
    library.write("bread.txt", TEXT)
    library.manage("demo", str(library.folder), "--no-serve")
    output = library.manage("demo", str(library.folder), "--no-serve")
    assert output.count("0 new or changed") == 2


def test_the_demo_serves_its_pages_until_it_is_stopped(library: Library) -> None:
    library.write("bread.txt", TEXT)
    demo = library.start("demo", str(library.folder), "--port", "8765")
    wait_until(lambda: "Quit the server" in demo.output or demo.poll() is not None, timeout=60)
    address = re.search(r"Library:\s+(\S+)", demo.output)
    assert address is not None, demo.output
    worker = worker_of(demo)
    with urllib.request.urlopen(f"{address[1]}?q=baked+bread", timeout=20) as page:
        assert "bread.txt" in page.read().decode()
    # As a terminal does on Ctrl-C: to the demo and its worker.
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 0
    assert "The worker has stopped." in demo.output
    assert not is_alive(worker)
    log = Path(library.environ["LIBRARY_VAR_DIR"], "worker.log").read_text()
    assert "has stopped" in log


@pytest.mark.parametrize("end", [processes.Process.terminate, processes.Process.kill])
def test_a_demo_that_is_ended_leaves_no_worker(
    library: Library, end: Callable[[processes.Process], None]
) -> None:
    demo = library.start("demo", str(library.folder), "--port", "8765")
    wait_until(lambda: re.search(r"process \d+", demo.output), timeout=60)
    worker = worker_of(demo)
    end(demo)
    wait_until(lambda: not is_alive(worker))


def worker_of(demo: processes.Process) -> int:
    """Return the process id that the demo prints of its worker."""
    found = re.search(r"process (\d+)", demo.output)
    assert found is not None, demo.output
    return int(found[1])


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that waits to be reaped is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_demo_is_refused_without_debug(library: Library) -> None:
    assert "DEBUG" in library.manage("demo", "--no-serve", exit_code=1, env={"DEBUG": "0"})
