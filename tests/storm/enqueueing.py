"""Enqueueing that is announced in the journal before it begins, and reported when it is over."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from django.db import Error, connection, transaction

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job
from tests.storm import journal
from tests.storm.models import Marker


class RollBack(Exception):
    """A producer changed its mind."""


def new_job(kind: str, payload: dict[str, Any] | None = None, **options: Any) -> NewJob:
    """Return a job with a token, by which it is known whatever becomes of its row."""
    return NewJob(kind, {"token": uuid.uuid4().hex, **(payload or {})}, **options)


def enqueue_alone(job: NewJob) -> None:
    """Enqueue one job that is its own transaction; whether it came in may stay unknown."""
    txn = _announce([job], marked=False)
    try:
        inserted = Job.objects.enqueue(**_options(job))
    except Error as error:
        _report("unknown", txn, error=type(error).__name__)
        start_afresh()
    else:
        _report("commit", txn, absent=[] if inserted else [token_of(job)])


def enqueue_together(
    jobs: Sequence[NewJob], *, in_bulk: bool = False, roll_back: bool = False, die: bool = False
) -> None:
    """Enqueue jobs beside a business row, and commit, roll back or die before either."""
    txn = _announce(jobs, marked=True)
    try:
        with transaction.atomic():
            Marker.objects.create(txn=txn)
            answers = _insert_in_bulk(jobs) if in_bulk else _insert_each(jobs)
            if die:
                os.kill(os.getpid(), signal.SIGKILL)
            if roll_back:
                raise RollBack
    except RollBack:
        _report("rollback", txn)
    except Error as error:
        _report("unknown", txn, error=type(error).__name__)
        start_afresh()
    else:
        _report("commit", txn, **answers)


def token_of(job: NewJob) -> str:
    return str(job.payload["token"])


def _announce(jobs: Sequence[NewJob], *, marked: bool) -> str:
    txn = uuid.uuid4().hex
    facts = [[token_of(job), job.kind, job.dedup_key, job.payload.get("uri")] for job in jobs]
    delays = {token_of(job): job.delay for job in jobs if job.delay is not None}
    journal.write("intent", txn=txn, marked=marked, jobs=facts, delays=delays)
    return txn


def start_afresh() -> None:
    """Drop a connection that may be broken, as the end of a request does."""
    connection.close()


def _report(what: str, txn: str, **facts: Any) -> None:
    journal.write(what, txn=txn, **facts)


def _insert_each(jobs: Sequence[NewJob]) -> dict[str, Any]:
    return {"absent": [token_of(job) for job in jobs if not Job.objects.enqueue(**_options(job))]}


def _insert_in_bulk(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """Return how many of the jobs have met a twin, and which may be those, where some have."""
    refused = len(jobs) - Job.objects.enqueue_many(jobs)
    keyed = [token_of(job) for job in jobs if job.dedup_key is not None]
    return {"refused": refused, "doubtful": keyed if refused else []}


def _options(job: NewJob) -> dict[str, Any]:
    return {field.name: getattr(job, field.name) for field in fields(job)}
