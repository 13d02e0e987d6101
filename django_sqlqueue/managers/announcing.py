"""Telling those who listen to job_settled what has ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction

from ..policy import Outcome
from ..signals import job_settled

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")


def somebody_listens(model: Any) -> bool:
    return job_settled.has_listeners(model)


def announce(pairs: Sequence[tuple[Job, Outcome]], statuses: Mapping[int, str], using: str) -> None:
    """Send job_settled for each job that has a new status; an atomic handler's when it commits."""
    for job, outcome in pairs:
        if job.id not in statuses:
            continue
        told = {"job": job, "outcome": outcome, "status": statuses[job.id]}
        if job.__dict__.get("_in_atomic_handler"):
            send = partial(_send, type(job), told)
            transaction.on_commit(send, using=using, robust=True)
        else:
            _send(type(job), told)


def _send(sender: Any, told: dict[str, Any]) -> None:
    try:
        job_settled.send_robust(sender, **told)
    except SystemExit:
        # It passes through, and would end the thread that stores all outcomes.
        log.error("A receiver of job_settled raised SystemExit.")
