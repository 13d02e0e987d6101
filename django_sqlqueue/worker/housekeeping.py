"""What a worker does beside running jobs: reclaim, retention, and showing itself."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import reset_queries

from ..conf import settings
from ..durations import to_seconds
from ..isolation import check_before_use
from .bell import Bell
from .identity import Identity
from .patience import Patience, close_connections

log = logging.getLogger("django_sqlqueue")

SWEEP = 1.0
"""Seconds between two sweeps for expired leases."""
CHECK_IN = 15.0
RETENTION_FIRST, RETENTION_EVERY = 20.0, 1800.0
BETWEEN_BATCHES = 0.1
"""Seconds between two batches of deletions, in which others get at the table."""


class Housekeeping(threading.Thread):
    """A thread with a connection of its own; nothing here holds up claims."""

    def __init__(self, table: Callable[[], Any], bell: Bell, check_in: Callable[[], None]) -> None:
        super().__init__(name="sqlqueue-housekeeping", daemon=True)
        self._table, self._bell, self._check_in = table, bell, check_in
        self._patience = Patience("Housekeeping")
        self._stopped = threading.Event()
        self._deleted = 0
        started = time.monotonic()
        self._due = {
            self._sweep: started,
            self._show: started,
            self._retain: started + RETENTION_FIRST * (0.5 + random.random()),
        }

    def finish(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            while not self._stopped.wait(max(0.05, min(self._due.values()) - time.monotonic())):
                try:
                    check_before_use()
                    self._do_what_is_due()
                except Exception as error:
                    self._stopped.wait(self._patience.after(error))
                else:
                    self._patience.success()
                reset_queries()
        finally:
            close_connections()

    def _do_what_is_due(self) -> None:
        for chore, due in sorted(self._due.items(), key=lambda item: item[1]):
            if due <= time.monotonic():
                # Where it fails, the others have their turn before it is tried again.
                self._due[chore] = time.monotonic() + SWEEP
                every = chore()
                self._due[chore] = time.monotonic() + every * (0.9 + random.random() / 5)

    def _sweep(self) -> float:
        if sweep(self._table()):
            self._bell.ring()
        return SWEEP

    def _show(self) -> float:
        self._check_in()
        return CHECK_IN

    def _retain(self) -> float:
        """Delete a batch of the settled jobs of each status that are past their retention."""
        found = 0
        for status, age in settings.RETENTION.items():
            if age is not None:
                before = self._table().engine.now() - timedelta(seconds=to_seconds(status, age))
                found += self._table().cleanup(before, [status], batches=1)
        self._deleted += found
        if found:
            return BETWEEN_BATCHES
        if self._deleted:
            log.info("Deleted %d settled jobs past their retention.", self._deleted)
            self._deleted = 0
        return RETENTION_EVERY


def sweep(table: Any) -> int:
    """Take back what has a lease that is over; return how many jobs."""
    reclaimed: int = table.reclaim_expired()
    if reclaimed:
        log.warning("Took back %d jobs whose leases were over.", reclaimed)
    return reclaimed


def take_back_from_the_dead(table: Any) -> int:
    """Make ready, at once, what provably dead runners of this machine left running."""
    taken = 0
    for owner in table.running_owners():
        identity = Identity.parse(owner or "")
        if identity is not None and identity.is_provably_dead():
            taken += table.reclaim_owned(owner)
    if taken:
        log.warning("Took back %d jobs from runners that are gone.", taken)
    return taken


class Health:
    """When the last good pass was made, and a file that is touched then, at most once a second."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._touched_at = 0.0
        self._passed_at = time.monotonic()

    def is_good(self, within: float) -> bool:
        """Say whether a good pass was made within so many seconds."""
        return time.monotonic() - self._passed_at <= within

    def good_pass(self) -> None:
        self._passed_at = time.monotonic()
        if self._path is None or time.monotonic() - self._touched_at < 1:
            return
        self._touched_at = time.monotonic()
        try:
            self._path.touch()
        except OSError as error:
            log.warning("The health file cannot be touched: %s.", error.strerror)
