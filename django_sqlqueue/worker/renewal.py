"""Renewing the leases of what this runner holds, until their outcomes are stored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from django.db import reset_queries

from ..isolation import check_before_use
from ..policy import claim_of
from .holdings import Holdings
from .patience import Patience, close_connections

log = logging.getLogger("django_sqlqueue")

BEATS = 4
"""How often a lease is renewed before it would end."""


class Renewal(threading.Thread):
    """A thread with a connection of its own; nothing that handlers do can hold it up."""

    def __init__(self, table: Callable[[], Any], holdings: Holdings, lease: float) -> None:
        super().__init__(name="sqlqueue-renewal", daemon=True)
        self._table, self._holdings, self._lease = table, holdings, lease
        self._patience = Patience("Renewing leases")
        self._stopped = threading.Event()

    def finish(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            wait = self._lease / BEATS
            while not self._stopped.wait(wait):
                wait = self._beat()
                reset_queries()
        finally:
            close_connections()

    def _beat(self) -> float:
        """Renew once; return the seconds until the next time."""
        jobs = self._holdings.all()
        try:
            check_before_use()
            held = self._table().renew(jobs, self._lease) if jobs else set()
        except Exception as error:
            # Whether a claim still holds is for the database to say, when it is back: as long as
            # it is away nobody else can take the job, and its outcome may yet be stored.
            return min(self._patience.after(error), self._lease / BEATS)
        self._patience.success()
        self._lose([job for job in jobs if claim_of(job)[0] not in held])
        return self._lease / BEATS

    def _lose(self, jobs: list[Any]) -> None:
        lost = [job for job in jobs if self._holdings.may_be_lost(job)]
        for job in lost:
            log.warning("Job %d (%s, queue %s) is lost: its claim is over.",
                        claim_of(job)[0], job.kind, job.queue)  # fmt: skip
        self._holdings.drop(lost)
