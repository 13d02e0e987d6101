"""What runs beside the workers on a loaded SQLite file: `python -m tests.storm.load_actors ACTOR`.

Each works for so many seconds, or until SIGTERM, and prints what it did as JSON in its last line.
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django
from django.db import OperationalError, transaction
from django.utils import timezone

_over = False


def _end(signum: int, frame: object) -> None:
    global _over
    _over = True


def repeat(seconds: float, pause: float, work: Callable[[], Any]) -> int:
    """Do it again and again, `pause` seconds apart; return how often."""
    ends, done = time.monotonic() + seconds, 0
    while not _over and time.monotonic() < ends:
        work()
        done += 1
        time.sleep(pause)
    return done


def produce(seconds: float, pause: float) -> dict[str, Any]:
    """Enqueue as a request does, beside a write of its own; a refused transaction is gone."""
    from django_sqlqueue.models import Job
    from tests.testapp.models import Effect

    made: list[int] = []

    def request() -> None:
        try:
            with transaction.atomic():
                job = Job.objects.enqueue("faults.record", {"name": "ran"})
                assert job is not None
                Effect.objects.create(name="asked", n=job.id)
        except OperationalError:
            return
        made.append(job.id)

    asked = repeat(seconds, pause, request)
    return {"jobs": made, "refused": asked - len(made)}


def write(seconds: float, pause: float) -> dict[str, Any]:
    """Save a session of its own, by turns in one statement and after a look in a transaction."""
    from django.contrib.sessions.models import Session

    later = timezone.now() + timedelta(days=1)
    session, _ = Session.objects.get_or_create(
        session_key="load", defaults={"expire_date": later, "session_data": ""}
    )
    waits: list[float] = []
    refused = 0

    def in_one_statement() -> None:
        Session.objects.filter(pk=session.pk).update(session_data="x" * 200)

    def after_a_look() -> None:
        with transaction.atomic():
            found = Session.objects.get(pk=session.pk)
            found.session_data = str(len(waits))
            found.save()

    def save() -> None:
        nonlocal refused
        way = after_a_look if len(waits) % 2 else in_one_statement
        started = time.monotonic()
        while True:
            try:
                way()
            except OperationalError:
                refused += 1
            else:
                break
        waits.append(time.monotonic() - started)

    repeat(seconds, pause, save)
    return {"waits": waits, "refused": refused}


def read(seconds: float, pause: float) -> dict[str, Any]:
    """Read pages of jobs and a count, as a list in a browser does."""
    from django_sqlqueue.models import Job
    from tests.testapp.models import Effect

    waits: list[float] = []

    def page() -> None:
        started = time.monotonic()
        list(Job.objects.order_by("-pk")[:20])
        Effect.objects.count()
        waits.append(time.monotonic() - started)

    repeat(seconds, pause, page)
    return {"waits": waits}


ACTORS = {actor.__name__: actor for actor in (produce, write, read)}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    django.setup()
    print(json.dumps(ACTORS[sys.argv[1]](float(sys.argv[2]), float(sys.argv[3]))))
