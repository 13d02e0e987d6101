"""Pages by key: each costs the same, however far back, and nothing is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q, Subquery

from ..models import Job


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[Job]
    newer: str
    """The cursor of the page before, blank where there is none."""
    older: str


def page(rows: Any, *, by_end: bool, before: str, after: str, size: int) -> Page:
    """Return the page of jobs older than the job `before`, or newer than the job `after`.

    The newest come first: by when they ended with `by_end`, else by id. Without a cursor, or
    with one that names no job any more, it is the first page.
    """
    if by_end:
        rows = rows.filter(finished_at__isnull=False)
    forward = not after
    cursor = before or after
    if cursor and _exists(cursor):
        rows = rows.filter(_beyond(int(cursor), by_end, "lt" if forward else "gt"))
    else:
        cursor, forward = "", True
    order = ["-finished_at", "-pk"] if by_end else ["-pk"]
    if not forward:
        order = [name.removeprefix("-") for name in order]
    found = list(rows.order_by(*order)[: size + 1])
    more, found = len(found) > size, found[:size]
    if not forward:
        found.reverse()
    has_newer, has_older = (bool(cursor), more) if forward else (more, True)
    return Page(
        found,
        str(found[0].pk) if found and has_newer else "",
        str(found[-1].pk) if found and has_older else "",
    )


def _exists(cursor: str) -> bool:
    return (
        cursor.isascii() and cursor.isdigit() and len(cursor) < 19
        and Job.objects.filter(pk=int(cursor)).exists()
    )  # fmt: skip


def _beyond(pk: int, by_end: bool, side: str) -> Q:
    if not by_end:
        return Q(**{f"pk__{side}": pk})
    # The instant never leaves the database, where it may be stored with fewer digits.
    end = Subquery(Job.objects.filter(pk=pk).values("finished_at")[:1])
    beyond = Q(**{f"finished_at__{side}": end}) | Q(finished_at=end, **{f"pk__{side}": pk})
    return Q(**{f"finished_at__{side}e": end}) & beyond
