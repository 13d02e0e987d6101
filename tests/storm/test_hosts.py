"""Workers on several machines: one is cut off, one stopped meanwhile, some hard to reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from django_sqlqueue.engines.link import SILENCE
from django_sqlqueue.worker.stopping import LAST_WORDS
from tests.processes import ROOT, wait_until
from tests.servers import Unavailable
from tests.storm import journal
from tests.storm.fleet import Nursery, is_alive
from tests.storm.hosted import HOSTED
from tests.storm.hosts import Network, NoHosts
from tests.storm.servers import SETTINGS

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

LEASE, GRACE = 3.0, 4.0
"""The project's own, in tests.storm.settings."""
AGAIN = 25.0
"""Seconds of an attempt to connect, the longest pause after it, and some more."""


class Machines:
    """Four worker machines and a database machine, and what the handlers note."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal.jsonl"
        self.network = Network(4)
        self.server = HOSTED[connection.vendor](self.network.database)
        self.server.migrate(SETTINGS)
        environ = {
            **self.server.environ_elsewhere(),
            journal.PATH: str(self.journal),
            "TEST_FOLDER": str(folder),
            "STORM_LEASE": str(LEASE),
            "PYTHONUNBUFFERED": "1",
        }
        self.logs = [folder / f"log of {host.name}" for host in self.network.workers]
        self._nurseries = [
            Nursery(environ, log, host.prefix)
            for host, log in zip(self.network.workers, self.logs, strict=True)
        ]

    def start(self, number: int) -> int:
        """Start a worker on a machine and wait until it serves; return its process id."""
        pid = self._nurseries[number].start("runjobs", "--threads", "2", "--poll", "0.3")
        line = f"Worker {pid} serves "
        wait_until(lambda: line in self.logs[number].read_text(), 60, 0.1)
        return pid

    def enqueue(self, kind: str, token: str, **payload: Any) -> None:
        self.server.enqueue(kind, json.dumps({"token": token, **payload}))

    def begun(self, token: str) -> list[int]:
        """Return the processes that have begun a job, in this order."""
        return [
            int(record["who"].split("-")[0])
            for record in (journal.read(self.journal) if self.journal.exists() else ())
            if record["what"] == "begin" and record["token"] == token
        ]

    def rows(self) -> dict[str, tuple[Any, ...]]:
        """Return status, claims, attempts, result and time of the last write of each job."""
        token = "payload->>'token'"
        if connection.vendor == "mysql":
            token = "JSON_VALUE(payload, '$.token')"
        columns = "status, claims, attempts, result, updated_at"
        found = self.server.query(f"SELECT {token}, {columns} FROM django_sqlqueue_job")
        return {
            token: (*first, json.loads(result) if isinstance(result, str) else result, last)
            for token, *first, result, last in found
        }

    def sessions_from(self, number: int) -> int:
        """Return how many sessions the server believes to have from a machine."""
        address = self.network.workers[number].address
        sql = f"SELECT count(*) FROM pg_stat_activity WHERE client_addr = '{address}'"
        if connection.vendor == "mysql":
            list_of_all = "information_schema.processlist"
            sql = f"SELECT count(*) FROM {list_of_all} WHERE host LIKE '{address}:%'"
        return int(self.server.query(sql)[0][0])

    def are_done(self, number: int) -> bool:
        return self.server.stats() == {"done": number}

    def output(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in self.logs)

    def remove(self) -> None:
        for nursery in self._nurseries:
            nursery.close()
        self.server.remove()
        self.network.remove()


@pytest.fixture
def machines(db, tmp_path, request) -> Iterator[Machines]:
    if connection.vendor not in HOSTED:
        pytest.skip("a SQLite file belongs to one machine")
    try:
        made = Machines(tmp_path)
    except (NoHosts, Unavailable) as error:
        pytest.skip(f"no machines can be made here: {error}")
    try:
        yield made
    finally:
        print(made.output())
        made.remove()


def stop(*pids: int, within: float) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not any(map(is_alive, pids)), within, 0.05)


def seconds_until(answer: Callable[[], Any], timeout: float) -> float:
    started = time.monotonic()
    wait_until(answer, timeout, 0.1)
    return time.monotonic() - started


@pytest.mark.slow
def test_a_machine_that_is_cut_off_loses_its_jobs_once_and_serves_again(machines):
    workers = [machines.start(0)]
    lost = ["lost", "lost effect"]
    machines.enqueue("storm.slow", lost[0], seconds=2 * LEASE)
    machines.enqueue("storm.atomic", lost[1], seconds=2 * LEASE)
    wait_until(lambda: all(map(machines.begun, lost)), 30, 0.1)
    machines.network.cut(machines.network.workers[0])
    cut_at = time.monotonic()

    workers += [machines.start(number) for number in range(1, 4)]
    slow = [*lost, *(f"slow {number}" for number in range(6))]
    for number, token in enumerate(slow[2:]):
        machines.enqueue("storm.atomic" if number % 2 else "storm.slow", token, seconds=1)
    quick = [f"quick {number}" for number in range(40)]
    for token in quick:
        machines.enqueue("storm.quick", token)
    wait_until(lambda: machines.are_done(48), 60, 0.1)
    settled = machines.rows()
    for token in slow:
        status, claims, attempts, result, _ = settled[token]
        expected = 2 if token in lost else 1
        assert (status, claims, attempts) == ("done", expected, expected), token
        assert len(machines.begun(token)) == expected
        assert result == {"claims": expected}

    # Longer than all its connections live, and all attempts to open others.
    time.sleep(max(0.0, cut_at + 2 * SILENCE - time.monotonic()))
    assert machines.sessions_from(0) == 0, "the server has ended what they had begun"
    stop(*workers[1:], within=GRACE + LAST_WORDS + 5)
    machines.enqueue("storm.quick", "afterwards")
    machines.network.mend(machines.network.workers[0])
    took = seconds_until(lambda: machines.begun("afterwards"), 60)
    assert machines.begun("afterwards") == workers[:1]
    assert took < AGAIN, "it tries again every few seconds"
    wait_until(lambda: machines.are_done(49), 20, 0.1)
    after = machines.rows()
    assert {token: after[token] for token in settled} == settled, "late results change nothing"
    effects = machines.server.query("SELECT token, count(*) FROM storm_entry GROUP BY token")
    assert dict(effects) == dict.fromkeys(["lost effect", "slow 1", "slow 3", "slow 5"], 1)
    stop(workers[0], within=GRACE + LAST_WORDS + 5)


@pytest.mark.slow
def test_a_machine_that_is_cut_off_stops_within_its_grace(machines):
    cut_off = machines.start(0)
    machines.enqueue("storm.slow", "slow", seconds=2 * LEASE)
    wait_until(lambda: machines.begun("slow"), 20, 0.1)
    other = machines.start(1)
    machines.network.cut(machines.network.workers[0])
    # Each of its threads waits for an answer by now.
    time.sleep(2 * LEASE)
    stop(cut_off, within=GRACE + LAST_WORDS + 2)
    wait_until(lambda: machines.are_done(1), 30, 0.1)
    assert machines.begun("slow") == [cut_off, other]
    stop(other, within=GRACE + LAST_WORDS + 2)


@pytest.mark.slow
def test_jobs_are_done_over_slow_and_lossy_links(machines):
    for host in machines.network.workers[:3]:
        print(f"{host.name}: {machines.network.spoil(host, 0.05)}")
    workers = [machines.start(number) for number in range(4)]
    tokens = [f"job {number}" for number in range(120)]
    for number, token in enumerate(tokens):
        machines.enqueue("storm.slow" if number % 4 else "storm.quick", token, seconds=0.2)
    wait_until(lambda: machines.are_done(120), 120, 0.2)
    assert {pid for token in tokens for pid in machines.begun(token)} == set(workers)
    for token, (_, claims, attempts, _, _) in machines.rows().items():
        # A renewal may come too late over such a link: each turn that was begun was claimed.
        assert 1 <= len(machines.begun(token)) <= claims, token
        assert attempts <= claims, token
    stop(*workers, within=GRACE + LAST_WORDS + 10)


MAKE_AND_WAIT = """
import time
from tests.storm.hosts import Network
network = Network(2)
print(*(host.pid for host in [network.database, *network.workers]), flush=True)
time.sleep(600)
"""


def test_a_network_ends_with_the_process_that_made_it():
    command = [sys.executable, "-c", MAKE_AND_WAIT]
    maker = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with maker:
        try:
            assert maker.stdout is not None
            assert maker.stderr is not None
            holders = [int(pid) for pid in maker.stdout.readline().split()]
            if not holders:
                pytest.skip(f"no hosts can be made here: {maker.stderr.read().strip()[-200:]}")
            assert all(map(is_alive, holders))
        finally:
            maker.kill()
    wait_until(lambda: not any(map(is_alive, holders)), 10)
