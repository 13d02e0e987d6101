"""One storm from its beginning to the audit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.storm import journal
from tests.storm.audit import Report, audit
from tests.storm.evidence import Evidence, Tables
from tests.storm.faults import Event, Stage, Weather, plan
from tests.storm.fleet import Crew, Fleet, Nursery, kill_all_of
from tests.storm.servers import StormServer

FOREVER = 3600.0


@dataclass(frozen=True)
class Options:
    """How hard it storms."""

    engine: str
    seed: int
    seconds: float
    jobs: int
    kills: int
    others: float = 0.3
    lease: float = 3.0
    history: str = "failures"
    quiet: float = 120.0
    """Seconds that the workers have to finish everything when all is well again."""
    breaking: str = ""
    menu: dict[str, float] | None = None


class Storm:
    """Starts everything, lets faults happen, waits for quiet and looks at what is left."""

    def __init__(self, options: Options, server: StormServer, folder: Path) -> None:
        self.options, self.server = options, server
        self.path = folder / "journal.jsonl"
        journal.keep_in(self.path)
        self.environ = {
            **server.environ(),
            journal.PATH: str(self.path),
            "STORM_LEASE": str(options.lease),
            "STORM_HISTORY": options.history,
            "STORM_BREAK": options.breaking,
            "PYTHONUNBUFFERED": "1",
        }
        self.nursery = Nursery(self.environ, folder / "log")
        self.fleet = Fleet(self.nursery, options.seed)
        self.events: list[Event] = plan(
            options.seed, options.engine, options.seconds, options.kills, options.others
        )
        self.weather = Weather(Stage(self.fleet, server, options.lease), self.events)

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
            self.nursery.close()
            kill_all_of(self.path)
        records = journal.read(self.path)
        evidence = Evidence(records, tables)
        return audit(records, tables), evidence

    def _begin(self) -> None:
        from tests.storm.jobs import declare_schedule

        declare_schedule()
        options, share = self.options, 3
        rate = options.jobs / options.seconds / share * 1.1
        seeded: Callable[[Any], int] = lambda dice: dice.randrange(2**32)  # noqa: E731
        want = self.fleet.want
        want("producers", Crew("produce", share, options={
            "seed": seeded, "rate": rate, "seconds": FOREVER, "menu": options.menu,
        }))  # fmt: skip
        want("operators", Crew("operate", 1, options={
            "seed": seeded, "seconds": FOREVER, "every": 0.25,
        }))  # fmt: skip
        want("sampler", Crew("sample", 1, options={"seconds": FOREVER, "every": 0.25}))
        self._want_workers()
        want("supervisors", Crew("runjobs", 1, ("--processes", "2", "--threads", "2")))

    def _want_workers(self) -> None:
        self.fleet.want("workers", Crew("runjobs", 2, ("--threads", "4")))
        self.fleet.want("old workers", Crew("runjobs", 1, options={"release": "old"}))

    def _rage(self) -> None:
        """Let it storm: at least so long, and until so many jobs were made."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self.options.seconds:
            self.fleet.keep()
            self.weather.pass_until(passed)
            time.sleep(0.05)

    def _calm(self) -> None:
        """Put all right, let nothing new come in, and wait until the workers have done all."""
        self.weather.clear()
        self.server.start()
        self.server.allow_writes()
        self.fleet.dismiss("producers", "operators", "old workers")
        ends = time.monotonic() + self.options.quiet
        hurried = False
        while time.monotonic() < ends and not is_quiet():
            self.fleet.keep()
            if not hurried and time.monotonic() > ends - self.options.quiet / 2:
                hurried = bool(run_all_now())
            time.sleep(0.2)
        end_schedule()
        journal.write("quiet", live=not is_quiet())
        self.fleet.dismiss("workers", "supervisors", "sampler")
        time.sleep(1)


def is_quiet() -> bool:
    """Say whether no job but schedules is live; False where the database does not answer."""
    from django.db import Error, connection

    from django_sqlqueue.lifecycle import LIVE
    from django_sqlqueue.models import Job

    try:
        return not Job.objects.filter(status__in=LIVE, name=None).exists()
    except Error:
        connection.close()
        return False


def run_all_now() -> int:
    from django_sqlqueue.models import Job

    return int(Job.objects.filter(name=None).run_now())


def end_schedule() -> None:
    from django_sqlqueue.models import Job

    Job.objects.unschedule("storm.tick")
    ends = time.monotonic() + 10
    while time.monotonic() < ends and Job.objects.filter(status="running").exists():
        time.sleep(0.1)


def collect() -> Tables:
    """Read the tables as they are when all is quiet."""
    from django_sqlqueue.models import Attempt, Job
    from tests.storm.models import Entry, Marker
    from tests.storm.operators import state_of

    attempts = Attempt.objects.values("job_id", "number", "outcome", "reason", "runner")
    return Tables(
        jobs=[state_of(job) for job in Job.objects.all()],
        attempts=[dict(each) for each in attempts],
        entries=[dict(each) for each in Entry.objects.values("token", "claims")],
        markers=set(Marker.objects.values_list("txn", flat=True)),
    )
