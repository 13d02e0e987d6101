"""One storm from its beginning to the audit."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.storm import journal
from tests.storm.audit import Report, audit
from tests.storm.clocks import SKEW_LIBRARY, Clock
from tests.storm.evidence import Evidence, Tables
from tests.storm.faults import Stage, Weather
from tests.storm.fleet import Crew, Fleet, Nursery, is_alive, kill_all_of
from tests.storm.planning import FAULTS, Event, Force, plan
from tests.storm.servers import StormServer

FOREVER = 3600.0
QUIETLY = ("--skip-checks",)
"""On MariaDB Django's own checks of models ask the server, which may be away just then."""
PATIENCE = 6
"""How many times as long as planned a storm may last on a busy machine."""
MOST_WAITING = 2000
HEAD_START = 4.0
"""Seconds of the plan that may pass before jobs are made."""


@dataclass(frozen=True, kw_only=True)
class Options(Force):
    """What a storm is made of."""

    engine: str
    seed: int
    jobs: int
    history: str = "failures"
    quiet: float = 60.0
    """Seconds in which the live jobs must become fewer when all is well again."""
    breaking: str = ""
    keep: bool = False
    menu: dict[str, float] | None = None


class Spoilt(Exception):
    """The server has destroyed a table itself: what is in it says nothing about the queue."""


class Storm:
    """Starts everything, lets faults happen, waits for quiet and looks at what is left."""

    def __init__(self, options: Options, server: StormServer, folder: Path) -> None:
        self.options, self.server = options, server
        self.path = folder / "journal.jsonl"
        self._most_waiting = min(MOST_WAITING, options.jobs // 4)
        journal.keep_in(self.path)
        self.environ = {
            **server.environ(),
            journal.PATH: str(self.path),
            "STORM_LEASE": str(options.lease),
            "STORM_HISTORY": options.history,
            "STORM_BREAK": options.breaking,
            "PYTHONUNBUFFERED": "1",
        }
        self.clock = Clock() if options.clocks and SKEW_LIBRARY else None
        skewed = {**self.environ, **(self.clock.environ() if self.clock else {})}
        # One host has one clock; where there is a server, some workers are on another host.
        elsewhere = server.clock is not None
        self.nursery = Nursery(self.environ if elsewhere else skewed, folder / "log")
        self.other_host = Nursery(skewed, folder / "log") if elsewhere else None
        self.fleet = Fleet(self.nursery, options.seed)
        self.events: list[Event] = plan(options.seed, options.engine, options)
        self.weather = Weather(
            Stage(self.fleet, server, options.lease, self.clock), self.events, FAULTS
        )

    def run(self) -> tuple[Report, Evidence]:
        """Return what the audit found; every process is gone then."""
        facts = {name: getattr(self.options, name) for name in ("engine", "seed", "history")}
        journal.write("storm", **facts)
        try:
            self._begin()
            self._rage()
            self._calm()
            tables = collect()
        finally:
            for nursery in filter(None, (self.nursery, self.other_host)):
                nursery.close()
            if self.clock is not None:
                self.clock.remove()
            kill_all_of(self.path)
        records = journal.read(self.path)
        evidence = Evidence(records, tables)
        return audit(records, tables), evidence

    def _begin(self) -> None:
        from tests.storm.jobs import declare_schedule

        declare_schedule()
        options, share = self.options, 3
        # A tenth is rolled back, and many keys are held.
        rate = options.jobs / options.seconds / share * 1.3
        seeded: Callable[[Any], int] = lambda dice: dice.randrange(2**32)  # noqa: E731
        want = self.fleet.want
        self._producers = Crew("produce", share, options={
            "seed": seeded, "rate": rate, "seconds": FOREVER, "menu": options.menu,
        })  # fmt: skip
        want("operators", Crew("operate", 1, options={
            "seed": seeded, "seconds": FOREVER, "every": 0.25,
        }))  # fmt: skip
        want("sampler", Crew("sample", 1, options={"seconds": FOREVER, "every": 0.25}))
        self._want_workers()
        want("supervisors", Crew("runjobs", 1, ("--processes", "2", "--threads", "2", *QUIETLY)))

    def _want_workers(self) -> None:
        self.fleet.want("workers", Crew("runjobs", 2, ("--threads", "4", *QUIETLY)))
        self.fleet.want("old workers", Crew("runjobs", 1, QUIETLY, {"release": "old"}))
        if self.other_host is not None:
            elsewhere = Crew("runjobs", 1, ("--threads", "4", *QUIETLY), nursery=self.other_host)
            self.fleet.want("workers elsewhere", elsewhere)

    def _rage(self) -> None:
        """Let it storm until all that was planned has happened and so many jobs were made.

        The plan goes on as jobs are made and run: a busy machine has as many faults for each.
        """
        options, made = self.options, journal.Tally(self.path)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < options.seconds * PATIENCE:
            share = min(made.count(), made.ended + self._most_waiting) / options.jobs
            if share >= 1 and passed >= options.seconds and self.weather.is_over:
                break
            self._look_for_damage()
            self._pace(made.waiting)
            self.fleet.keep()
            self.weather.pass_until(min(passed, HEAD_START + options.seconds * share))
            time.sleep(0.05)

    def _look_for_damage(self) -> None:
        if says := self.server.damage():
            raise Spoilt(says)

    def _pace(self, waiting: int) -> None:
        """Let producers pause while too much waits: a backlog that only grows tests little."""
        if waiting > self._most_waiting:
            self.fleet.dismiss("producers")
        elif waiting < self._most_waiting / 2:
            self.fleet.crews.setdefault("producers", self._producers)

    def _calm(self) -> None:
        """Put all right, let nothing new come in, and wait until the workers have done all."""
        self.weather.clear()
        self.server.start()
        self.server.allow_writes()
        self.fleet.dismiss("producers", "operators", "old workers")
        calming = Calming(self.options.quiet, hurries=self.options.clocks)
        while calming.goes_on(count_live()):
            self._look_for_damage()
            self.fleet.wake_all()
            self.fleet.keep()
            time.sleep(0.2)
        journal.write("quiet", live=calming.fewest)
        self._send_home()

    def _send_home(self) -> None:
        """Let the workers end in order; whoever stands still is woken to hear of it."""
        names = ("workers", "workers elsewhere", "supervisors", "sampler")
        pids = [pid for name in names for pid in self.fleet.pids(name)]
        self.fleet.wake_all()
        self.fleet.dismiss(*names)
        ends = time.monotonic() + 30
        while time.monotonic() < ends and any(map(is_alive, pids)):
            for pid in pids:
                self.fleet.hit(pid, signal.SIGCONT)
            time.sleep(0.1)
        take_back(within=self.options.lease + 5)


class Calming:
    """Waits until nothing is live, as long as it becomes less every so often."""

    def __init__(self, patience: float, hurries: bool = False) -> None:
        self._patience, self._hurries = patience, hurries
        self.fewest: int | None = None
        self._since = time.monotonic()

    def goes_on(self, live: int | None) -> bool:
        if live is not None and (self.fewest is None or live < self.fewest):
            self.fewest, self._since = live, time.monotonic()
        waited = time.monotonic() - self._since
        if self._hurries and waited > self._patience / 2:
            run_all_now()
        return self.fewest != 0 and waited < self._patience


def count_live() -> int | None:
    """Return how many jobs but schedules are live; None where the database does not answer."""
    from django.db import Error, connection

    from django_sqlqueue.lifecycle import LIVE
    from django_sqlqueue.models import Job

    try:
        return int(Job.objects.filter(status__in=LIVE, name=None).count())
    except Error:
        connection.close()
        return None


def run_all_now() -> None:
    """Let what waits for a time that a moved clock has given be due."""
    from django.db import Error

    from django_sqlqueue.models import Job

    with suppress(Error):
        Job.objects.filter(name=None).run_now()


def take_back(within: float) -> None:
    """Do for the schedule what the next worker would do, where one has died over it."""
    from django_sqlqueue.models import Job

    ends = time.monotonic() + within
    while time.monotonic() < ends and Job.objects.filter(status="running").exists():
        Job.objects.reclaim_expired()
        time.sleep(0.2)


def collect() -> Tables:
    """Read the tables as they are when all is quiet."""
    from django_sqlqueue.models import Attempt, Job
    from tests.storm.models import Entry, Marker, Scratch
    from tests.storm.operators import state_of

    attempts = Attempt.objects.values("job_id", "number", "outcome", "reason", "runner")
    return Tables(
        jobs=[state_of(job) for job in Job.objects.all()],
        attempts=[dict(each) for each in attempts],
        entries=[dict(each) for each in Entry.objects.values("token", "claims")],
        markers=set(Marker.objects.values_list("txn", flat=True)),
        scratch=list(Scratch.objects.values_list("name", flat=True)),
    )
