"""What all verbs stand on: the write database, its engine, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from django.db import (
    DataError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    connections,
    models,
    router,
)
from django.db.models import Q
from django.db.models.expressions import RawSQL

from ..conf import settings
from ..engines import Engine, engine_for
from ..engines.base import TEXT_AT_ONCE
from ..lifecycle import LIVE
from .instances import instances

if TYPE_CHECKING:
    from ..models import Job

REFUSED = (DataError, IntegrityError, NotSupportedError, ProgrammingError)
"""The database will say the same again."""


class PinnedQuerySet(models.QuerySet):
    """A queryset that reads where it writes: a replica may not know of a job yet."""

    model: Any
    _db: str | None
    _hints: dict[str, Any]

    @property
    def db(self) -> str:
        if self._db or settings.DATABASE is None:
            return self._db or router.db_for_write(self.model, **self._hints)
        # What belongs to a job that is at hand lies beside it.
        beside = self._hints.get("instance")
        return beside._state.db if beside is not None else settings.DATABASE

    @property
    def engine(self) -> Engine:
        return engine_for(connections[self.db])

    def wake_workers(self) -> None:
        """Wake idle workers when the present transaction commits, once for all its jobs."""
        if settings.NOTIFY:
            self.engine.notify_at_commit()

    def live_by_key(self) -> Any:
        """Return the live jobs; filter them by kind and live_key, which an index holds."""
        column = f"{self.model._meta.db_table}.{self.engine.live_key_column}"
        key = RawSQL(column, (), output_field=models.CharField())
        return self.alias(live_key=key).filter(with_status(*LIVE))

    @property
    def columns(self) -> tuple[str, ...]:
        return _columns(self.model)

    def from_rows(self, rows: Iterable[Sequence[Any]]) -> list[Job]:
        """Return the jobs of rows that hold all columns, as an engine's statements return them."""
        return instances(self.model, self.engine, rows)


PinnedManager = models.Manager.from_queryset(PinnedQuerySet, "PinnedManager")


@cache
def _columns(model: Any) -> tuple[str, ...]:
    return tuple(field.column for field in model._meta.concrete_fields)


def with_status(*statuses: str) -> Q:
    """Return the condition that a job has one of these statuses, as the indexes spell it.

    Not every engine sees through a parameter, or a list of one, that a condition is that of a
    partial index: it walks the whole table then.
    """
    literals = [RawSQL(f"'{status}'", ()) for status in statuses]
    return Q(status=literals[0]) if len(literals) == 1 else Q(status__in=literals)


def in_batches(
    items: Iterable[Any], size: int, text_of: Callable[[Any], str | None] = lambda item: None
) -> Iterator[list[Any]]:
    """Yield the items in lists of at most `size`, and of no more text than a statement takes."""
    batch: list[Any] = []
    length = 0
    for item in items:
        longer = len(text_of(item) or "")
        if batch and (len(batch) == size or length + longer > TEXT_AT_ONCE):
            yield batch
            batch, length = [], 0
        batch.append(item)
        length += longer
    if batch:
        yield batch
