"""The rows by which workers show themselves; nothing is recovered from them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Max, Q

from ..engines.instants import as_aware
from ..fields import ServerClock
from .base import PinnedQuerySet

FORGOTTEN = timedelta(days=1)


class WorkerQuerySet(PinnedQuerySet):
    def check_in(self, runner: str, **shown: Any) -> None:
        """Show a worker, for the first time or again."""
        changed = {**shown, "last_seen_at": ServerClock()}
        if not self.filter(runner=runner).update(**changed):
            self.create(runner=runner, **shown)

    def check_out(self, runner: str) -> None:
        """Forget a worker that has stopped."""
        self.filter(runner=runner).delete()

    def forget_silent(self) -> int:
        """Forget the workers that have shown no sign of life for a day."""
        return self.filter(Q(last_seen_at__lt=self.engine.now() - FORGOTTEN)).delete()[0]

    def seconds_since_last_sign(self) -> float | None:
        """Return how long ago the last sign of any worker was; None where there is none."""
        seen = self.aggregate(last=Max("last_seen_at"))["last"]
        if seen is None:
            return None
        return (self.engine.now() - as_aware(seen)).total_seconds()
