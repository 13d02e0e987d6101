"""Renewing the leases of what this runner holds, until their outcomes are stored."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import reset_queries

from ..isolation import check_before_use
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
        self._renewed_at = time.monotonic()

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
            wait = min(self._patience.after(error), self._lease / BEATS)
            if time.monotonic() - self._renewed_at > self._lease:
                self._lose(jobs, "its lease could not be renewed")
            return wait
        self._patience.success()
        self._renewed_at = time.monotonic()
        self._lose([job for job in jobs if job.id not in held], "its claim is over")
        return self._lease / BEATS

    def _lose(self, jobs: list[Any], why: str) -> None:
        lost = [job for job in jobs if self._holdings.holds(job)]
        for job in lost:
            log.warning("Job %d (%s, queue %s) is lost: %s.", job.id, job.kind, job.queue, why)
        self._holdings.drop(lost)
