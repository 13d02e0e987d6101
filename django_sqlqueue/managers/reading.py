"""Questions about the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Count
from django.db.models.expressions import RawSQL

from ..engines.instants import as_aware
from ..lifecycle import FAILED, LIVE, STATUSES
from ..newjob import check_text, check_whole
from .base import PinnedQuerySet, with_status

if TYPE_CHECKING:
    from ..models import Job


@dataclass(frozen=True, slots=True)
class QueueDetail:
    """How the queue is doing."""

    oldest_pending_ms: int | None
    """The age of the longest-due ready job, in milliseconds; None if nothing waits."""
    failed: tuple[Job, ...]
    """The newest failed jobs, newest first."""
    reasons: dict[str, int]
    """How many failed jobs there are by reason."""


class Reading(PinnedQuerySet):
    def find_live(self, kind: str, dedup_key: str) -> Job | None:
        """Return the live job that holds this key, or None."""
        return self.live_by_key().filter(kind=kind, live_key=dedup_key).first()

    def count_live(self, kind: str) -> int:
        return self.filter(with_status(*LIVE), kind=kind).count()

    def count_for_kind(self, kind: str) -> int:
        return self.filter(kind=kind).count()

    def for_ref(self, ref: str) -> Any:
        """Return the jobs that are about `ref`."""
        return self.filter(ref=check_text("ref", ref)).exclude(ref="")

    def for_uri(self, uri: str) -> Any:
        """Return the jobs whose payload's `uri` is this one or lies below it (`uri + "/" + …`)."""
        condition, params = self.engine.uri_matches(check_text("uri", uri))
        matches = RawSQL(condition, params, output_field=models.BooleanField())
        return self.filter(matches)

    def count_for_uri(self, uri: str, statuses: Iterable[str] = STATUSES) -> int:
        """Return how many jobs of for_uri have one of these statuses."""
        return self.for_uri(uri).filter(status__in=list(statuses)).count()

    def ready_kinds(self) -> set[str]:
        """Return the kinds of which jobs are ready, due or not, but for paused queues."""
        return {lane.kind for lane in self.engine.lanes(None, None)}

    def stats(self) -> dict[str, int]:
        """Return the number of jobs by status, each of the five named."""
        counted = self.order_by().values_list("status").annotate(Count("pk"))
        return dict.fromkeys(STATUSES, 0) | {
            status: number for status, number in counted if status in STATUSES
        }

    def detail(self, limit: int = 20) -> QueueDetail:
        """Return the age of the oldest waiting job, the newest failures, and their reasons."""
        limit = check_whole("limit", limit, 0, 10_000)
        failed = self.filter(status=FAILED)
        newest: Any = failed.order_by("-finished_at", "-pk")[:limit]
        reasons = failed.order_by().values_list("last_error").annotate(Count("pk"))
        return QueueDetail(self.oldest_pending_ms(), tuple(newest), dict(reasons))

    def oldest_pending_ms(self) -> int | None:
        """Return the age of the longest-due ready job, in milliseconds; None if nothing waits."""
        now = self.engine.now()
        due = [lane.run_at for lane in self.engine.lanes(None, None) if lane.run_at <= now]
        return round((now - as_aware(min(due))).total_seconds() * 1000) if due else None
