"""Which kinds a worker claims: those it has handlers for, some of them found by their jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..conf import settings
from ..discovery import served_kinds
from ..handlers import all_kinds
from .options import WorkerOptions

LOOK_EVERY = 1.0
"""Seconds between two looks for jobs of unknown kinds, where those are failed."""


class ServedKinds:
    """The kinds of one worker; what a look at the table finds is claimed from then on."""

    def __init__(self, options: WorkerOptions, table: Callable[[], Any]) -> None:
        self._options, self._table = options, table
        self._unknown: set[str] = set()
        self._looked_at = 0.0

    def now(self) -> list[str]:
        """Return them, without a look at the table."""
        if self._options.kinds is not None:
            return list(self._options.kinds)
        return [*all_kinds(), *self._unknown.difference(all_kinds())]

    def look(self) -> None:
        """Look for kinds that are not known yet, after a claim so that no job waits for it."""
        if self._options.kinds is not None:
            return
        served_kinds(self._table())
        is_due = self._options.drain or time.monotonic() - self._looked_at > LOOK_EVERY
        if settings.UNKNOWN_KINDS == "fail" and is_due:
            self._looked_at = time.monotonic()
            self._unknown = self._table().ready_kinds().difference(all_kinds())
