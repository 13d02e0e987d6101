"""Bounded figures: what a page may ask of a table of any size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db import connections
from django.db.models import Q, Value

from ..engines.instants import as_aware
from ..lifecycle import FAILED, READY, SETTLED, STATUSES
from .base import PinnedQuerySet, with_status

CAP = 100_000
"""No figure looks at more rows than this; one that would is told as "at least"."""
CAP_OF_BAR = 2_000
"""A bar of a chart that stands for more jobs than this is an estimate."""
MAX_GROUPS = 500


@dataclass(frozen=True, slots=True)
class Failures:
    """The failed jobs of one reason and kind, among the newest CAP."""

    reason: str
    kind: str
    count: int
    first: datetime
    last: datetime
    newest_id: int
    """The id of one of them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The ready jobs of one queue."""

    queue: str
    count: int
    oldest: datetime | None
    """When the first of them was or will be due."""


class Measuring(PinnedQuerySet):
    def count_up_to(self, limit: int) -> int:
        """Return how many jobs there are, but at most `limit`."""
        return int(self._ask([(_counted(self), limit)])[0][0])

    def stats_up_to(self, limit: int = CAP) -> dict[str, int]:
        """Return the number of jobs by status as stats does, each at most `limit`."""
        counted = self._ask([(_counted(self.filter(_status(s))), limit) for s in STATUSES])
        return {status: int(row[0]) for status, row in zip(STATUSES, counted, strict=True)}

    def count_by(self, *columns: str, limit: int = CAP) -> list[tuple[Any, ...]]:
        """Return (values of columns…, count) of the groups among at most `limit` jobs."""
        return self._group(self.values(*columns), columns, (), limit)

    def waiting(self, limit: int = CAP) -> list[Waiting]:
        """Return the ready jobs by queue, looking at no more than `limit`."""
        ready = self.filter(_status(READY)).order_by().values("queue", "run_at")
        rows = self._group(ready, ("queue",), ("MIN(run_at)",), limit)
        return [Waiting(queue, count, self._instant(oldest)) for queue, count, oldest in rows]

    def failures(self, limit: int = CAP) -> list[Failures]:
        """Return the newest `limit` failed jobs by reason and kind, the most frequent first."""
        failed = self.filter(_status(FAILED)).order_by("-finished_at")
        facts = ("MIN(finished_at)", "MAX(finished_at)", "MAX(id)")
        rows = self._group(
            failed.values("last_error", "kind", "finished_at", "id"),
            ("last_error", "kind"),
            facts,
            limit,
        )
        return [
            Failures(reason, kind, count, self._instant(first), self._instant(last), newest)
            for reason, kind, count, first, last, newest in rows
        ]

    def settled_between(self, status: str, edges: Sequence[datetime]) -> list[int]:
        """Return how many jobs were settled with this status between each two edges.

        A number beyond CAP_OF_BAR is estimated from how soon that many were reached.
        """
        spans = list(pairwise(edges))
        parts = [
            (self.filter(_status(status), finished_at__gte=start, finished_at__lt=end)
             .order_by("finished_at").values("finished_at"), CAP_OF_BAR)
            for start, end in spans
        ]  # fmt: skip
        rows = self._ask(parts, "MAX(finished_at)")
        return [self._estimate(*span, *row) for span, row in zip(spans, rows, strict=True)]

    def _estimate(self, start: datetime, end: datetime, count: int, last: Any) -> int:
        if count < CAP_OF_BAR:
            return count
        reached = self._instant(last) - start
        return max(count, round(count * ((end - start) / reached))) if reached else count

    def _group(
        self, rows: Any, columns: Sequence[str], facts: Sequence[str], limit: int
    ) -> list[tuple[Any, ...]]:
        sql, params = _compiled(rows[:limit], self.db)
        names = ", ".join(columns)
        wanted = ", ".join((*columns, "COUNT(*)", *facts))
        return self._fetch(
            f"SELECT {wanted} FROM ({sql}) s GROUP BY {names}"
            f" ORDER BY COUNT(*) DESC, {names} LIMIT {MAX_GROUPS}",
            params,
        )

    def _ask(self, parts: Iterable[tuple[Any, int]], *facts: str) -> list[tuple[Any, ...]]:
        """Return the count and the facts of each (rows, limit), in one statement."""
        selects: list[str] = []
        params: list[Any] = []
        for number, (rows, limit) in enumerate(parts):
            sql, values = _compiled(rows[:limit], self.db)
            wanted = ", ".join((f"{number} AS place", "COUNT(*)", *facts))
            selects.append(f"SELECT {wanted} FROM ({sql}) s")
            params += values
        return [row[1:] for row in sorted(self._fetch(" UNION ALL ".join(selects), params))]

    def _fetch(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        with connections[self.db].cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall())

    def _instant(self, value: Any) -> Any:
        return None if value is None else as_aware(self.engine.read_instant(value))


def _counted(rows: Any) -> Any:
    return rows.order_by().annotate(one=Value(1)).values("one")


def _status(status: str) -> Q:
    """Return a condition that the index of the settled, ready or running rows can answer."""
    if status in SETTLED:
        return Q(status=status, finished_at__isnull=False)
    return with_status(status)


def _compiled(rows: Any, alias: str) -> tuple[str, tuple[Any, ...]]:
    sql, params = rows.query.get_compiler(alias).as_sql()
    return sql, params
