"""Running attempts and handing their outcomes on; slots and the event loop share this."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import execution, reasons
from ..policy import Claim, Outcome, claim_of
from .holdings import Holdings
from .lines import log_attempts
from .settler import Settler
from .timeouts import Timeouts, Watch

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")


class Attempts:
    """How attempts are timed, and where their outcomes go."""

    def __init__(self, settler: Settler, holdings: Holdings) -> None:
        self._settler, self.holdings = settler, holdings
        self.abandoned: set[Claim] = set()
        """Attempts that were settled while their handlers would not end."""
        self.moved_at = time.monotonic()
        """When an attempt last ended or an outcome was stored."""
        self.timeouts = Timeouts(self._give_up)
        self.on_end: Callable[[Job, float], None] = lambda job, seconds: None

    def watch(self, job: Job, interrupt: Callable[[], None]) -> Watch | None:
        """Time the attempt, where its kind has a timeout."""
        seconds = execution.timeout_of(job)
        return None if seconds is None else self.timeouts.watch(job, seconds, interrupt)

    def end(self, job: Job, outcome: Outcome | None, started: float) -> None:
        """Hand the outcome on; None was settled by the attempt itself."""
        self.moved_at = time.monotonic()
        seconds = job.__dict__["_seconds"] = self.moved_at - started
        if outcome is None:
            self.holdings.drop([job])
            if not job.__dict__.get("_claim_lost"):
                log_attempts([(job, Outcome(move=job.__dict__.get("_ended_by", "complete")))])
        else:
            self._settler.put(job, outcome)
        self.on_end(job, seconds)

    def are_held_up(self, running: set[Claim], lease: float) -> bool:
        """Has nothing ended or been stored for a lease, and runs only what will not end?

        On an engine with one writer, a hung handler's transaction keeps its own outcome out.
        """
        stuck = time.monotonic() - self.moved_at > lease
        return bool(self.abandoned) and stuck and not running - self.abandoned

    def broke(self, job: Job, error: BaseException) -> Outcome:
        """Return the outcome of an attempt whose own machinery failed."""
        log.error(
            "Job %d (%s): running it failed (%s).",
            job.id, job.kind, reasons.class_path(type(error)),
        )  # fmt: skip
        return execution.outcome_of(job, error)

    def _give_up(self, job: Job, seconds: float) -> None:
        job.__dict__["_seconds"], self.moved_at = seconds, time.monotonic()
        self.abandoned.add(claim_of(job))
        log.error(
            "Job %d (%s, queue %s) does not end; it is settled without its handler.",
            claim_of(job)[0], job.kind, job.queue,
        )  # fmt: skip
        self._settler.put(job, execution.timed_out(job))
        self.on_end(job, seconds)
