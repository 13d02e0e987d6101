"""What a worker shows of itself: its first line in the log, its row, and that it is stuck."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from django.db import connections

from ..conf import settings
from ..models import Worker
from .holdings import Holdings
from .identity import Identity
from .options import WorkerOptions

log = logging.getLogger("django_sqlqueue")


BUSY_AFTER, BUSY_AGAIN = 60.0, 600.0
"""Seconds after which slots that are all busy, without an end, are mentioned, and again."""


class Busy:
    """Says so when no slot becomes free for long: the handlers may hang."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._ended = -1
        self._since = self._say_at = 0.0

    def look(self, is_full: bool, holdings: Holdings) -> None:
        now = time.monotonic()
        if not is_full or holdings.ended != self._ended:
            self._ended, self._since, self._say_at = holdings.ended, now, now + BUSY_AFTER
        elif now >= self._say_at:
            self._say_at = now + BUSY_AGAIN
            log.warning(
                "All %d slots are busy for %d s; they run job %s.",
                self._slots,
                now - self._since,
                ", ".join(str(job.pk) for job in holdings.all()[: self._slots]),
            )


class Presence:
    """The worker as others see it; nothing is recovered from this."""

    def __init__(
        self, identity: Identity, alias: str, options: WorkerOptions, kinds: Callable[[], list[str]]
    ) -> None:
        self._identity, self._alias, self._options, self._kinds = identity, alias, options, kinds

    def announce(self) -> None:
        options = self._options
        log.info(
            "Worker %d serves %s for %d kinds%s with %d threads on %s, lease %g s.",
            os.getpid(),
            "all queues" if options.queues is None else f"queue {', '.join(options.queues)}",
            len(self._kinds()),
            " and fails unknown ones" if settings.UNKNOWN_KINDS == "fail" else "",
            options.threads,
            connections[self._alias].display_name,
            options.lease,
        )

    def check_in(self, ended: int) -> None:
        workers = Worker.objects.using(self._alias)
        workers.check_in(
            str(self._identity),
            host=self._identity.host,
            pid=os.getpid(),
            queues=None if self._options.queues is None else list(self._options.queues),
            kinds=self._kinds(),
            threads=self._options.threads,
            jobs_done=ended,
        )
        workers.forget_silent()

    def check_out(self) -> None:
        Worker.objects.using(self._alias).check_out(str(self._identity))
