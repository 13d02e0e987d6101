"""Finding handlers when jobs are met: kinds that nothing registered when the process started."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .handlers import Handler, all_kinds, handler_of, register_handler
from .lifecycle import READY

if TYPE_CHECKING:
    from .models import Job

Resolver = Callable[["Job", bool], Handler | None]
"""Returns the handler of a job's kind, or None. The second argument says whether the kind was
named by the operator or the settings, and not only by whoever wrote the row."""

LOOK_EVERY = 0.1
"""Seconds between two looks at the table for kinds that are not known yet."""
REFUSED_FOR = 10.0
"""Seconds for which a kind that no resolver knew is not asked about again."""
SAMPLES = 10
"""So many jobs of a kind are shown to the resolvers: not every one may tell."""

_resolvers: list[Resolver] = []
_refused: dict[str, float] = {}
_looked_at: dict[str, float] = {}


def add_resolver(resolver: Resolver) -> None:
    """Ask `resolver` about jobs whose kind nothing has registered."""
    if resolver not in _resolvers:
        _resolvers.append(resolver)


def resolve(job: Job, *, trusted: bool = False) -> Handler | None:
    """Return the handler of a job, registered now if a resolver knows it; None if none does."""
    found = handler_of(job.kind)
    if found is not None:
        return found
    for resolver in _resolvers:
        if (found := resolver(job, trusted)) is not None:
            return register_handler(found)
    return None


def served_kinds(jobs: Any, *, look_now: bool = False) -> list[str]:
    """Return the kinds that this process has handlers for, those of waiting jobs looked up.

    `jobs` is the queryset of the table that is served.
    """
    now = time.monotonic()
    if _resolvers and (look_now or now - _looked_at.get(jobs.db, 0.0) >= LOOK_EVERY):
        _looked_at[jobs.db] = now
        for kind in jobs.ready_kinds().difference(all_kinds()):
            if look_now or now - _refused.get(kind, -REFUSED_FOR) >= REFUSED_FOR:
                _look_up(jobs, kind, now)
    return all_kinds()


def _look_up(jobs: Any, kind: str, now: float) -> None:
    ready = jobs.filter(kind=kind, status=READY)
    for job in ready.order_by("queue", "priority", "run_at", "id")[:SAMPLES]:
        if resolve(job) is not None:
            return
    _refused[kind] = now
