"""The handlers of a storm: good ones, bad ones and deadly ones, each noted in the journal.

What a handler returns, and the reasons it gives, name the claim, so that the row tells which
execution has settled it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import IntegrityError, connection, connections, transaction

from django_sqlqueue import Abandon, Defer, Retry, handler
from django_sqlqueue.conf import settings as queue_settings
from django_sqlqueue.exceptions import JobTimeout
from django_sqlqueue.handlers import unregister
from django_sqlqueue.models import Job
from tests.storm import journal
from tests.storm.enqueueing import enqueue_together, new_job
from tests.storm.models import Entry, Scratch
from tests.storm.settings import STORM_RELEASE

BEGIN = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN", "mysql": "START TRANSACTION"}
NEW = "storm.new"
"""The kind that only the new release knows."""


def recorded(
    kind: str, *, completes: bool = False, **options: Any
) -> Callable[[Callable[[Any], Any]], Any]:
    """Register a handler whose executions stand in the journal, with their ends.

    One that `completes` its job itself does not wait for the worker to do so.
    """

    def register(function: Callable[[Any], Any]) -> Any:
        if inspect.iscoroutinefunction(function):

            async def run_coroutine(job: Any) -> Any:
                with _noted(job):
                    await function(job)
                return {"claims": job.claims}

            return handler(kind, **options)(run_coroutine)

        def run(job: Any) -> Any:
            with _noted(job):
                function(job)
            if completes:
                job.complete({"claims": job.claims})
            return {"claims": job.claims}

        return handler(kind, **options)(run)

    return register


@contextmanager
def _noted(job: Any) -> Iterator[None]:
    claim = {"job": job.id, "claims": job.claims, "token": job.payload["token"]}
    journal.write(
        "begin", **claim, kind=job.kind, attempt=job.attempts, most=job.max_attempts,
        occurrence=job.occurrence_id if job.name else None,
    )  # fmt: skip
    try:
        yield
    except BaseException as error:
        journal.write("end", **claim, how=type(error).__name__)
        raise
    journal.write("end", **claim, how="return")


def asked_by(job: Any) -> str:
    """Return a reason that names its claim."""
    return f"asked by claim {job.claims}"


# Good ones


@recorded("storm.quick")
def quick(job: Any) -> None:
    pass


@recorded("storm.keyed")
def keyed(job: Any) -> None:
    time.sleep(0.02)


@recorded("storm.slow", queue="slow")
def slow(job: Any) -> None:
    time.sleep(job.payload.get("seconds", 0.5))
    job.report_progress(50, "half of it")


@recorded("storm.long", queue="slow", priority=-5)
def longer_than_its_lease(job: Any) -> None:
    time.sleep(queue_settings.LEASE * 1.5)


@recorded("storm.coroutine")
async def coroutine(job: Any) -> None:
    await asyncio.sleep(job.payload.get("seconds", 0.05))


@recorded("storm.atomic", atomic=True, priority=2)
def atomic(job: Any) -> None:
    """Write an effect; perhaps die at the very moment when it is committed."""
    Entry.objects.create(token=job.payload["token"], claims=job.claims)
    time.sleep(job.payload.get("seconds", 0))
    if job.payload.get("die"):
        transaction.on_commit(die)


@recorded("storm.parent")
def parent(job: Any) -> None:
    """Enqueue children in a transaction of this handler's own."""
    enqueue_together([new_job("storm.quick") for _ in range(job.payload.get("children", 2))])


@recorded(NEW)
def only_in_the_new_release(job: Any) -> None:
    pass


@recorded("storm.tick")
def tick(job: Any) -> None:
    time.sleep(0.1)


# Bad ones


@recorded("storm.moody", max_attempts=4)
def moody(job: Any) -> None:
    """Do what the payload says for this claim."""
    moods = job.payload["moods"]
    MOODS[moods[(job.claims - 1) % len(moods)]](job)


def _retries(job: Any) -> None:
    raise Retry(0.1, asked_by(job))


def _defers(job: Any) -> None:
    raise Defer(0.1)


def _abandons(job: Any) -> None:
    raise Abandon(asked_by(job))


def _fails(job: Any) -> None:
    raise ValueError("of its own")


def _leaves(job: Any) -> None:
    raise SystemExit(3)


MOODS: dict[str, Callable[[Any], None]] = {
    "fine": lambda job: None, "retries": _retries, "defers": _defers, "abandons": _abandons,
    "fails": _fails, "leaves": _leaves,
}  # fmt: skip


@recorded("storm.messy", max_attempts=3)
def messy(job: Any) -> None:
    """Leave this thread's connection in one of the states that a careless handler may."""
    MESSES[job.payload["mess"]](job)


def _open_block(job: Any) -> None:
    transaction.atomic().__enter__()
    Scratch.objects.create(name=f"open {job.id} {job.claims}")


def _open_by_sql(job: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(BEGIN[connection.vendor])
    Scratch.objects.create(name=f"by hand {job.id} {job.claims}")


def _broken_block(job: Any) -> None:
    name = f"twice {job.id} {job.claims}"
    transaction.atomic().__enter__()
    Scratch.objects.create(name=name)
    with suppress(IntegrityError):
        Scratch.objects.create(name=name)


def _leaked_connection(job: Any) -> None:
    """Leave a connection open in a thread that ends without closing it."""

    def use() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT 1")

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()


def _closed_connection(job: Any) -> None:
    connection.ensure_connection()
    connection.connection.close()


MESSES: dict[str, Callable[[Any], None]] = {
    "open block": _open_block, "open by SQL": _open_by_sql, "broken block": _broken_block,
    "leaked connection": _leaked_connection, "closed connection": _closed_connection,
}  # fmt: skip


@recorded("storm.recursing", max_attempts=2)
def recursing(job: Any) -> None:
    recursing_without_end(job)


def recursing_without_end(job: Any) -> None:
    recursing_without_end(job)


@recorded("storm.hanging", timeout=0.7, max_attempts=2)
def hanging(job: Any) -> None:
    while True:
        time.sleep(0.05)


@recorded("storm.stubborn", timeout=0.7, max_attempts=1)
def stubborn(job: Any) -> None:
    """Never end, although the time is over: the process has to be replaced."""
    while True:
        with suppress(JobTimeout):
            time.sleep(0.05)


@recorded("storm.still", queue="slow", completes=True)
def standing_still(job: Any) -> None:
    """Let the whole process stand still, until another has taken this job and runs it."""
    lease = queue_settings.LEASE
    if job.claims > 1:
        time.sleep(4 * lease)
        return
    # More than once: another such job may let it stand still just after it was woken.
    wake = f"for n in 1 2 3; do sleep {2 * lease + 1.5}; kill -CONT {os.getpid()}; done"
    subprocess.Popen(["sh", "-c", wake], start_new_session=True)
    os.kill(os.getpid(), signal.SIGSTOP)


# Deadly ones


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@recorded("storm.killing", max_attempts=2)
def killing(job: Any) -> None:
    die()


@recorded("storm.exiting", max_attempts=2)
def exiting(job: Any) -> None:
    os._exit(0)


def be_release(release: str) -> None:
    """Know the kinds that this release knows."""
    if release == "old":
        unregister(NEW)


def declare_schedule() -> None:
    Job.objects.schedule("storm.tick", "storm.tick", every=1, payload={"token": "tick"})


be_release(STORM_RELEASE)
