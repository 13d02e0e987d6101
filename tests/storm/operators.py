"""An operator of a storm: what people do in the admin, in batches and against the workers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import Error, transaction

from django_sqlqueue.lifecycle import CANCELLED, FAILED, LIVE, SETTLED
from django_sqlqueue.models import Job
from tests.storm import journal
from tests.storm.enqueueing import start_afresh
from tests.storm.producers import URIS

Dice = random.Random

COLUMNS = (
    "id", "kind", "status", "attempts", "max_attempts", "claims", "dedup_key", "last_error",
    "result", "name", "payload", "lease_owner", "cancel_requested_at",
)  # fmt: skip
OLD = 20.0
"""Seconds after which a settled job may be deleted by a cleanup; clocks move by less."""


def state_of(job: Job) -> dict[str, Any]:
    """Return what the audit looks at of a row."""
    row = {name: getattr(job, name) for name in COLUMNS if name != "payload"}
    payload = job.payload if isinstance(job.payload, dict) else {}
    asked = job.cancel_requested_at
    return {
        **row,
        "token": payload.get("token"),
        "lease_until": str(job.lease_until),
        "cancel_requested_at": None if asked is None else str(asked),
    }


def operate(seed: int, seconds: float, every: float) -> None:
    """Do something every so often; what the database refuses is not done."""
    dice, ends = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < ends:
        verb = dice.choice(list(VERBS))
        try:
            moved = VERBS[verb](dice)
        except Error as error:
            journal.write("operator", verb=verb, error=type(error).__name__)
            start_afresh()
        else:
            journal.write("operator", verb=verb, moved=moved)
        time.sleep(every)


def _some(dice: Dice, most: int, **where: Any) -> list[int]:
    """Return ids of jobs among the newest that match."""
    found = Job.objects.filter(name=None, **where).order_by("-id").values_list("id", flat=True)
    ids = list(found[:400])
    return dice.sample(ids, min(len(ids), dice.randint(1, most)))


def _noted(what: str, ids: list[int]) -> Any:
    """Write down what is about to be done to these jobs; return them."""
    journal.write(what, ids=ids)
    return Job.objects.filter(pk__in=ids)


def _cancel(dice: Dice) -> int:
    return int(_noted("cancelling", _some(dice, 5, status__in=LIVE)).cancel())


def _cancel_running(dice: Dice) -> int:
    return int(_noted("cancelling", _some(dice, 3, status="running")).cancel())


def _cancel_crosswise(dice: Dice) -> int:
    """Cancel one by one in a transaction, against the order in which others lock."""
    ids = sorted(_some(dice, 20, status__in=LIVE, kind="storm.quick"), reverse=True)
    with transaction.atomic():
        return sum(_noted("cancelling", [pk]).cancel() for pk in ids)


def _requeue(dice: Dice) -> int:
    """Requeue what failed or was cancelled, but no effect that may have happened."""
    kinds = ("storm.quick", "storm.keyed", "storm.moody", "storm.slow", "storm.coroutine")
    ids = _some(dice, 30, status__in=(FAILED, CANCELLED), kind__in=kinds)
    return int(_noted("requeueing", ids).requeue())


def _requeue_done(dice: Dice) -> int:
    ids = _some(dice, 10, status="done", kind__in=("storm.quick", "storm.keyed"))
    return int(_noted("requeueing", ids).requeue())


def _requeue_one(dice: Dice) -> int:
    ids = _some(dice, 1, status="failed", kind__in=("storm.moody", "storm.atomic"))
    return sum(job.requeue(0.2) for job in _noted("requeueing", ids))


def _change_priority(dice: Dice) -> int:
    return Job.objects.filter(pk__in=_some(dice, 40)).set_priority(dice.choice((-5, 0, 3)))


def _move(dice: Dice) -> int:
    queue = dice.choice(("default", "slow", "other"))
    return Job.objects.filter(pk__in=_some(dice, 40)).move_to_queue(queue)


def _run_now(dice: Dice) -> int:
    return int(_noted("hurrying", _some(dice, 40)).run_now())


def _remove(dice: Dice) -> int:
    ids = _some(dice, 10, kind="storm.quick")
    tokens = Job.objects.filter(pk__in=ids).values_list("payload__token", flat=True)
    journal.write("removing", ids=ids, tokens=list(tokens))
    return Job.objects.filter(pk__in=ids).remove()


def _cancel_for_uri(dice: Dice) -> int:
    uri = dice.choice(URIS)
    journal.write("removing_uri", uri=uri)
    return Job.objects.cancel_for_uri(uri)


def _clean_up(dice: Dice) -> int:
    """Delete what was settled long ago, after writing it down."""
    table: Any = Job.objects
    before = table.all().engine.now() - timedelta(seconds=OLD)
    old = table.filter(status__in=SETTLED, finished_at__lt=before)
    journal.write("archived", rows=[state_of(job) for job in old])
    return int(table.cleanup(before))


VERBS: dict[str, Callable[[Dice], int]] = {
    "cancel": _cancel,
    "cancel running": _cancel_running,
    "cancel crosswise": _cancel_crosswise,
    "requeue": _requeue,
    "requeue done": _requeue_done,
    "requeue one": _requeue_one,
    "change priority": _change_priority,
    "move": _move,
    "run now": _run_now,
    "remove": _remove,
    "cancel for uri": _cancel_for_uri,
    "clean up": _clean_up,
}
