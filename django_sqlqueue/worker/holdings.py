"""The claims that this runner holds, from the claim to the stored outcome."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..kinds import options_of
from ..policy import Claim, claim_of

if TYPE_CHECKING:
    from ..models import Job


class Holdings:
    """Which jobs are held; threads add, drop and look at the same time."""

    def __init__(self) -> None:
        self._held: dict[Claim, Job] = {}
        self._ending: set[Claim] = set()
        self._lock = threading.Lock()
        self.ended = 0
        """How many attempts have ended so far."""

    def __len__(self) -> int:
        return len(self._held)

    def add(self, jobs: Iterable[Job]) -> None:
        with self._lock:
            self._held.update((claim_of(job), job) for job in jobs)

    def drop(self, jobs: Iterable[Job]) -> None:
        with self._lock:
            for job in jobs:
                if self._held.pop(claim_of(job), None) is not None:
                    self.ended += 1

    def has(self, claim: Claim) -> bool:
        return claim in self._held

    def holds(self, job: Job) -> bool:
        return self.has(claim_of(job))

    @contextlib.contextmanager
    def ending(self, jobs: Iterable[Job]) -> Iterator[None]:
        """Run the body, which ends these claims: that the table knows it first is no loss."""
        claims = {claim_of(job) for job in jobs}
        self._ending |= claims
        try:
            yield
        finally:
            self._ending -= claims

    def may_be_lost(self, job: Job) -> bool:
        """Say whether a job without its claim in the table is lost, and not just being settled.

        An atomic handler's completion commits before this runner hears of it, and any handler may
        have ended its claim itself: the table tells nothing of those, but their ends do.
        """
        if options_of(job.kind).atomic or "_ended_by" in job.__dict__:
            return False
        return self.holds(job) and claim_of(job) not in self._ending

    def all(self) -> list[Job]:
        with self._lock:
            return list(self._held.values())
