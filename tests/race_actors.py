"""What the processes of a race do: `python -m tests.race_actors ACTORS`, the results as JSON.

ACTORS is a JSON list of [function, argument, …]; each runs in a process of its own, and none
begins before all are there.
"""

import json
import multiprocessing
import random
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import django
from django.db import connection, transaction

LEASE_OVER_AT_ONCE = 0

_start: Barrier


def claim_until_none_is_ready(owner: str, most: int) -> list[list[int]]:
    """Return [id, claims] of each job claimed."""
    from django_sqlqueue.models import Job

    claimed = []
    while Job.objects.filter(status="ready").exists():
        jobs = Job.objects.claim(owner, limit=random.randint(1, most))
        claimed += [[job.id, job.claims] for job in jobs]
    return claimed


def enqueue_each(kind: str, keys: int) -> list[str]:
    """Enqueue every key once, in an order of its own; return the keys that were inserted."""
    from django_sqlqueue.models import Job

    names = [f"key {number}" for number in range(keys)]
    random.shuffle(names)
    return [name for name in names if Job.objects.enqueue(kind, dedup_key=name)]


def enqueue_many_in_a_transaction(kind: str, keys: int, rounds: int) -> int:
    """Enqueue overlapping sets of keys, each set in a transaction; return how many went in."""
    from django_sqlqueue import NewJob
    from django_sqlqueue.models import Job

    inserted = 0
    for _ in range(rounds):
        numbers = random.sample(range(keys), keys * 2 // 3)
        with transaction.atomic():
            inserted += Job.objects.enqueue_many(
                [NewJob(kind, dedup_key=f"key {number}") for number in numbers]
            )
    rest = [NewJob(kind, dedup_key=f"key {number}") for number in range(keys)]
    return inserted + Job.objects.enqueue_many(rest)


def enqueue_one(kind: str, key: str) -> int | None:
    from django_sqlqueue.models import Job

    print("trying", file=sys.stderr, flush=True)
    job = Job.objects.enqueue(kind, dedup_key=key)
    return None if job is None else job.id


def claim_and_complete(owner: str) -> list[int]:
    """Forget a third of the claimed jobs; return the id of each completion that was accepted."""
    from django_sqlqueue.models import Job

    completed = []
    while _any_live():
        for job in Job.objects.claim(owner, limit=3, lease=LEASE_OVER_AT_ONCE):
            if random.random() > 1 / 3 and job.complete({"by": owner}):
                completed.append(job.id)
    return completed


def cancel_some(first: int, last: int, step: int) -> int:
    """Cancel every `step`th job, a few at a time; return how many calls of cancel counted."""
    from django_sqlqueue.models import Job

    ids = list(range(first, last + 1, step))
    random.shuffle(ids)
    return sum(Job.objects.filter(pk__in=ids[n : n + 3]).cancel() for n in range(0, len(ids), 3))


def reclaim_until_none_is_live() -> int:
    from django_sqlqueue.models import Job

    reclaimed = 0
    while _any_live():
        reclaimed += Job.objects.reclaim_expired()
    return reclaimed


def schedule_repeatedly(name: str, seconds: int, times: int) -> list[int]:
    """Return the ids of the rows that schedule gave back."""
    from django_sqlqueue.models import Job

    return [Job.objects.schedule(name, "testapp.noop", every=seconds).id for _ in range(times)]


def requeue_or_enqueue(first: int, last: int) -> int:
    """Requeue these settled jobs, or enqueue a new one of their key; return what went in."""
    from django_sqlqueue.models import Job

    moved = 0
    for pk in range(first, last + 1):
        job = Job.objects.get(pk=pk)
        if random.random() < 0.5:
            moved += Job.objects.filter(pk=pk).requeue()
        else:
            moved += Job.objects.enqueue(job.kind, dedup_key=job.dedup_key) is not None
    return moved


def _any_live() -> bool:
    from django_sqlqueue.lifecycle import LIVE
    from django_sqlqueue.models import Job

    return Job.objects.filter(status__in=LIVE).exists()


def _meet(start: Barrier) -> None:
    global _start
    _start = start


def _act(name: str, *arguments: Any) -> Any:
    actor: Callable[..., Any] = globals()[name]
    random.seed()
    connection.ensure_connection()
    _start.wait(60)
    return actor(*arguments)


def main(actors: list[list[Any]]) -> list[Any]:
    """Run the actors side by side; return their results in their order."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(len(actors))
    with context.Pool(len(actors), initializer=_meet, initargs=(start,)) as pool:
        return pool.starmap(_act, actors, chunksize=1)


if __name__ == "__main__":
    django.setup()
    print(json.dumps(main(json.loads(sys.argv[1]))))
