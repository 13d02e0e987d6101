"""A SQLite file under load: workers, producers, a reader and a writer, and what each waited."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection

from django_sqlqueue.models import Job
from tests.processes import Process, spawn, spawn_python, wait_until
from tests.testapp.models import Effect

SETTINGS = "tests.worker.fault_settings"
JOURNALS = {
    "rollback": "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL;",
    "wal": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}
"""The first is that of a file of which nothing is said."""
MODES = {"deferred": None, "immediate": "IMMEDIATE"}
WORKERS, PRODUCERS = 4, 8
REQUESTS = {"rollback": 2.0, "wal": 40.0}
"""Requests a second that enqueue a job: four commits each, beside ten of the writer. A commit to
a rollback journal flushes the disk several times: more than these leave no room for anybody."""
PAUSE = 0.1
"""Seconds between two writes, and two reads, of the web."""


@dataclass(frozen=True)
class Figures:
    """What a load has done, and how long the web waited, in seconds."""

    alone: list[float]
    """Each of the writer's waits while nobody else was there."""
    writer: list[float]
    reader: list[float]
    refused: int
    """So often the writer had to begin again."""
    jobs: int
    breaches: list[str]

    def line(self) -> str:
        waits = {"alone": self.alone, "writer": self.writer, "reader": self.reader}
        shown = (
            f"{name} {share(found, 0.5) * 1000:.0f}/{share(found, 0.99) * 1000:.0f}"
            for name, found in waits.items()
        )
        return f"{self.jobs} jobs; ms, median/99 %: {', '.join(shown)}; refused {self.refused}"


def share(waits: list[float], part: float) -> float:
    """Return the wait that this part of all does not exceed."""
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * part))]


@contextmanager
def file_with(journal: str, mode: str) -> Iterator[dict[str, str]]:
    """Let the file have this journal; yield the environment of processes that work on it."""
    options = connection.settings_dict["OPTIONS"]
    changes = {"init_command": JOURNALS[journal], "transaction_mode": MODES[mode], "timeout": 20}
    before = options["init_command"]
    options["init_command"] = JOURNALS[journal]
    connection.close()
    connection.ensure_connection()
    try:
        yield {
            "DATABASE_CHANGES": json.dumps({"default": {"OPTIONS": changes}}),
            "EXTRA_APPS": "django.contrib.sessions",
        }
    finally:
        connection.close()
        options["init_command"] = before


def load(
    journal: str, mode: str, seconds: float, workers: int = WORKERS, producers: int = PRODUCERS
) -> Figures:
    """Load the file for so many seconds, let the workers finish, and audit what they did."""
    with file_with(journal, mode) as env:
        act = partial(_actor, env, seconds)
        alone = _ended(_actor(env, seconds / 4, "write", PAUSE))
        crew = [_worker(env) for _ in range(workers)]
        for worker in crew:
            wait_until(partial(_serves, worker), 60)
        web = [act("write", PAUSE), act("read", PAUSE)]
        pause = producers / REQUESTS[journal]
        made = [_ended(each) for each in [act("produce", pause) for _ in range(producers)]]
        writer, reader = map(_ended, web)
        asked = Counter(number for each in made for number in each["jobs"])
        wait_until(lambda: Job.objects.filter(status="done").count() >= len(asked), 120, 0.2)
        breaches = [*_wrong_outcomes(asked), *filter(None, map(_broken, crew))]
    waits = alone["waits"], writer["waits"], reader["waits"]
    return Figures(*waits, writer["refused"], len(asked), breaches)


def _worker(env: Mapping[str, str]) -> Process:
    return spawn("runjobs", "--poll=0.3", env=env, settings=SETTINGS)


def _serves(worker: Process) -> bool:
    return " serves " in worker.output


def _actor(env: Mapping[str, str], seconds: float, name: str, pause: float) -> Process:
    arguments = ("-m", "tests.storm.load_actors", name, str(seconds), str(pause))
    return spawn_python(*arguments, env=env, settings=SETTINGS)


def _ended(actor: Process) -> dict[str, Any]:
    assert actor.wait(300) == 0, actor.output
    found: dict[str, Any] = json.loads(actor.output.splitlines()[-1])
    return found


def _wrong_outcomes(asked: Counter[int]) -> Iterator[str]:
    """Yield what is not as it should be after each job that was asked for has run once."""
    ledger = Effect.objects.values_list("n", flat=True)
    if asked != Counter(ledger.filter(name="asked")):
        yield "what the producers wrote beside their jobs differs from what they committed"
    if asked != Counter(ledger.filter(name="ran")):
        yield "the jobs that have run once differ from those that were committed"
    done = Job.objects.filter(status="done", attempts=1, claims=1)
    if asked != Counter(done.values_list("pk", flat=True)) or asked.total() != Job.objects.count():
        yield f"not all were done at the first attempt: {Job.objects.stats()}"


def _broken(worker: Process) -> str | None:
    worker.terminate()
    if worker.wait(60) == 0 and " ERROR " not in worker.output and "Traceback" not in worker.output:
        return None
    return f"{worker} broke:\n{worker.output}"
