"""Staying alive while the database is away: waiting longer each time, and saying so rarely."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import Error, connections

from .. import reasons
from ..isolation import close

log = logging.getLogger("django_sqlqueue")

LONGEST = 10.0
QUIET = 30.0


class Patience:
    """Counts the failures of one part of the worker and logs them without flooding."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.failures = 0
        self._logged_at = 0.0

    def after(self, error: BaseException, about: str = "") -> float:
        """Note a failure, drop this thread's connections, and return the seconds to wait."""
        self.failures += 1
        now = time.monotonic()
        if self.failures == 1 or now - self._logged_at > QUIET:
            self._logged_at = now
            log.warning(
                "%s%s failed (%s), time %d in a row; trying again.",
                self.part,
                about,
                reasons.class_path(type(error)),
                self.failures,
            )
            if not isinstance(error, Error):
                log.error("An error of the worker itself:\n%s", reasons.trace(error))
        close_connections()
        return min(0.1 * 2 ** min(self.failures - 1, 10), LONGEST) * (0.75 + random.random() / 2)

    def success(self) -> None:
        if self.failures:
            log.info("%s works again after %d failures.", self.part, self.failures)
        self.failures = 0


def within(seconds: float, work: Callable[[], Any], patience: Patience) -> None:
    """Do the work in a thread of its own, and go on without it when it takes longer."""

    def connected() -> None:
        try:
            work()
        except Exception as error:
            patience.after(error)
        finally:
            close_connections()

    thread = threading.Thread(target=connected, daemon=True)
    thread.start()
    thread.join(seconds)


def close_connections() -> None:
    """Close the connections of this thread; the next use opens new ones."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            close(connection)
