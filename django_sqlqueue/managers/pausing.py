"""Pausing queues: from a paused one nothing is claimed; what runs goes on."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from ..newjob import check_text
from .base import PinnedQuerySet


class PausedQueueQuerySet(PinnedQuerySet):
    """The verbs of PausedQueue.objects."""

    def pause(self, queue: str) -> bool:
        """Let nothing be claimed from this queue; False where it is paused already.

        Raises InvalidJob for what cannot be a queue's name.
        """
        queue = check_text("queue", queue)
        try:
            with transaction.atomic(using=self.db):
                self.create(name=queue)
        except IntegrityError:
            return False
        return True

    def resume(self, queue: str) -> bool:
        """Let this queue be served again; False where it was not paused."""
        resumed = self.filter(name=check_text("queue", queue)).delete()[0] > 0
        if resumed:
            self.wake_workers()
        return resumed

    def paused(self) -> set[str]:
        """Return the names of the paused queues."""
        return set(self.values_list("name", flat=True))
