"""Raises a storm over one engine: `python -m tests.storm --engine NAME --seed N`.

Without --engine it is that of DATABASE_URL, as `python -m tests.run --module tests.storm` sets it
for one engine after the other; the database itself is always the storm's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import django

from tests.servers import Unavailable
from tests.storm.audit import Report
from tests.storm.clocks import Clock, NoClock
from tests.storm.disks import Disk, NoDisk
from tests.storm.evidence import Evidence
from tests.storm.run import Options, Spoilt, Storm
from tests.storm.servers import SETTINGS, STORM_SERVERS, StormServer, storm_server
from tests.storm.shapes import SHAPED, SHAPES

SCHEMES = {"sqlite": "sqlite", "postgres": "postgresql", "postgresql": "postgresql",
           "mysql": "mariadb"}  # fmt: skip
NOTHING_TO_DO = 0
SPOILT = 3
"""The exit code of a storm whose server has destroyed its tables."""
MOST_SHOWN = 5
MANY_KILLS = 100
"""So many, and sweeps have something to take back, also from runners that stand still."""

Made = TypeVar("Made", Disk, Clock)


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(argv)
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    print(f"storm over {options.engine} with seed {options.seed}", flush=True)
    with ExitStack() as machine:
        disk = made(Disk, machine) if options.small_disk else None
        with_server = options.clocks and options.engine != "sqlite"
        clock = made(Clock, machine) if with_server else None
        try:
            server = storm_server(options.engine, disk, clock)
        except Unavailable as error:
            print(f"skipped: {error}")
            return NOTHING_TO_DO
        machine.callback(server.remove)
        folder = Path(tempfile.mkdtemp(prefix="sqlqueue-storm-"))
        try:
            report = storm_over(server, options, folder)
        except Spoilt as error:
            print(f"spoilt, raise it again: {error}")
            return SPOILT
    # Of a broken queue breaches are what was looked for.
    unasked = [] if options.breaking else unasked_of(report, options)
    for line in unasked:
        print(f"BREACH of the audit itself: {line}")
    failed = bool(report.breaches or unasked)
    if not options.keep and (options.breaking or not failed):
        shutil.rmtree(folder)
    else:
        print(f"the journal and the log are kept in {folder}")
    return int(failed)


def made(what: type[Made], machine: ExitStack) -> Made | None:
    """Make a disk or a clock, where that can be done here; the machine is left as it was."""
    try:
        thing = what()
    except (NoDisk, NoClock) as error:
        print(f"some faults will do nothing: {error}")
        return None
    machine.callback(thing.remove)
    return thing


def storm_over(server: StormServer, options: Options, folder: Path) -> Report:
    server.migrate(SETTINGS)
    os.environ.update(server.environ(), DJANGO_SETTINGS_MODULE=SETTINGS)
    os.environ["TEST_FOLDER"] = str(folder)
    django.setup()
    began = time.monotonic()
    storm = Storm(options, server, folder)
    report, evidence = storm.run()
    print(figures(storm, report, evidence, time.monotonic() - began), flush=True)
    for breach in report.breaches[:MOST_SHOWN]:
        print(f"\nBREACH of {breach.rule}: job {breach.job}: {breach.says}")
    if report.breaches:
        first = report.breaches[0]
        print(f"{len(report.breaches)} breaches: {dict(Counter(b.rule for b in report.breaches))}")
        print("\nAll that is known of the first one's job:")
        print("\n".join(evidence.history(first.job, first.token)), flush=True)
    return report


def unasked_of(report: Report, options: Options) -> list[str]:
    """Return what the audit of such a storm should have asked more often."""
    asked = report.checked
    excused = set() if options.history == "all" else {"kept_histories_are_whole"}
    if options.kills < MANY_KILLS:
        excused |= {"leases_that_are_over_are_swept", "sweeps_take_only_what_is_over"}
    never = [rule for rule, number in asked.items() if not number and rule not in excused]
    found = [f"it never asked whether {rule}" for rule in never]
    judged = asked["committed_jobs_are_settled"]
    if judged < options.jobs * 0.9:
        found.append(f"it judged {judged} of {options.jobs} jobs")
    return found


def figures(storm: Storm, report: Report, evidence: Evidence, seconds: float) -> str:
    deaths = sum(
        run.began["kind"] in ("storm.killing", "storm.exiting")
        for runs in evidence.runs.values()
        for run in runs
    )
    statuses = Counter(row["status"] for row in evidence.rows.values())
    lines = [
        f"{len(evidence.rows)} jobs ({_counts(statuses)}) on {storm.server.version()}",
        f"{sum(map(len, evidence.runs.values()))} runs of handlers, {seconds:.0f} s",
        f"{storm.fleet.kills} kills, {deaths} deaths by handlers, {storm.fleet.started} starts",
        f"faults: {_counts(storm.weather.begun)}",
    ]
    for rule, number in report.checked.items():
        lines.append(f"  {number:>7,} times: {rule.replace('_', ' ')}")
    return "\n".join(lines)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))


def parse(argv: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    scheme = os.environ.get("DATABASE_URL", "sqlite").partition(":")[0]
    parser.add_argument("--engine", choices=list(STORM_SERVERS), default=SCHEMES[scheme])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=150.0, help="how long it storms")
    parser.add_argument("--jobs", type=int, default=22_000)
    parser.add_argument("--kills", type=int, default=210)
    parser.add_argument("--others", type=float, default=0.3, help="other process faults a second")
    parser.add_argument("--history", choices=["failures", "all"], help="default: by the seed")
    parser.add_argument("--database", type=float, default=0.25,
                        help="part of the time in which the database is away or worse")  # fmt: skip
    parser.add_argument("--small-disk", action=argparse.BooleanOptionalAction,
                        help="let the disk be full at times (default: by the seed)")  # fmt: skip
    parser.add_argument("--clocks", action=argparse.BooleanOptionalAction,
                        help="let clocks be moved at times (default: by the seed)")  # fmt: skip
    parser.add_argument("--lease", type=float, default=3.0, help="seconds")
    parser.add_argument("--quiet", type=float, default=60.0,
                        help="seconds in which live jobs must become fewer at the end")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep the journal in any case")
    parser.add_argument("--break", dest="breaking", choices=list(SHAPES), default="",
                        help="take a guard of the queue away: the audit must see it")  # fmt: skip
    given = vars(parser.parse_args(argv))
    if given["history"] is None:
        given["history"] = "all" if given["seed"] % 2 else "failures"
    if given["small_disk"] is None:
        given["small_disk"] = given["seed"] % 2 == 0 and not given["breaking"]
    if given["clocks"] is None:
        given["clocks"] = given["seed"] % 3 == 0 and not given["breaking"]
    if given["breaking"]:
        given |= SHAPED | SHAPES[given["breaking"]].options
    return Options(**given)


if __name__ == "__main__":
    sys.exit(main())
