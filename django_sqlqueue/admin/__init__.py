"""The pages of the queue in Django's admin."""

from __future__ import annotations

from .jobs import JobAdmin
from .queues import PausedQueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

__all__ = ["JobAdmin", "PausedQueueAdmin", "ScheduleAdmin", "WorkerAdmin"]
