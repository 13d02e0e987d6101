"""What every engine is asked: questions, and the hot statements claim, settle, insert, renew.

Statements are written once here where the databases agree; an engine overrides what differs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from django.db import DatabaseError, transaction

from ..lifecycle import RUNNING
from ..policy import Settlement
from .inserting import Inserting
from .instants import as_aware
from .lanes import Lane, Probe, lanes
from .statements import PAUSED, TABLE

CONFLICT_TRIES = 8
CONFLICT_SECONDS = 15.0
TEXT_AT_ONCE = 2_000_000
"""Bytes of JSON in one statement for many rows: every server takes so much at once."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """At most `limit` due jobs of these kinds and queues, None meaning any, for a runner."""

    owner: str
    kinds: Sequence[str] | None
    queues: Sequence[str] | None
    limit: int
    lease: float
    """Seconds for which the claim holds."""
    now: datetime | None
    """Stands in for the clock where it is given."""


class Engine(Inserting):
    """One database engine, bound to one Django connection."""

    text_collation: ClassVar[str | None] = None
    """The collation under which text compares byte for byte; None where it does anyway."""
    lane_head: ClassVar[str]
    """A SELECT of number, kind, queue, priority and run_at of the first job behind a probe."""
    live_key_column: ClassVar[str] = "dedup_key"
    """The column that the index of the live keys holds beside the kind."""

    # Questions

    def is_conflict(self, error: BaseException) -> bool:
        """Say whether the database gave way to another transaction: doing it again may help."""
        raise NotImplementedError

    def live_key_sql(self, table: str, name: str, columns: tuple[str, str]) -> str | None:
        """Return the SQL that keeps one live job a key; None where a partial index does it."""
        return None

    def drop_live_key_sql(self, table: str, name: str) -> str | None:
        return None

    def uri_matches(self, uri: str) -> tuple[str, list[Any]]:
        """Return a condition: the payload's field uri is `uri` or below it, byte for byte."""
        raise NotImplementedError

    @property
    def can_listen(self) -> bool:
        """Can this connection wait for notifications?"""
        return False

    def listen(self, heard: Callable[[], None], stopped: Callable[[], bool]) -> None:
        """Call `heard` at once and at each notification, until `stopped` or an error."""
        raise NotImplementedError

    def change_marker(self) -> int | None:
        """Return a number that changes when another connection commits; None where none does."""
        return None

    # Transactions

    @contextlib.contextmanager
    def unit(self) -> Iterator[None]:
        """Run the body in one transaction: the caller's where there is one, else an own one."""
        if self.connection.in_atomic_block:
            yield
        else:
            with self.transaction():
                yield

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the body in a transaction, or a savepoint, that can write from its first line."""
        with transaction.atomic(using=self.connection.alias):
            self.lock_for_writing()
            yield

    def lock_for_writing(self) -> None:
        """Take now what a later write in this transaction could be refused."""

    def before_reading(self) -> None:
        """Make sure that the caller's transaction can write after what it is about to read."""
        if self._in_callers_transaction:
            self.lock_for_writing()

    def retrying(self, work: Callable[[], Found]) -> Found:
        """Return work(), done again as a whole after conflicts, a bounded number of times.

        Where to give way takes long, as after a wait for a lock, it is soon over: a worker has
        to hear of a stop in between.

        Inside the caller's transaction it is done once: only the caller can start that again.
        """
        end = time.monotonic() + CONFLICT_SECONDS
        for attempt in range(1, CONFLICT_TRIES + 1):
            try:
                return work()
            except DatabaseError as error:
                if (
                    self._in_callers_transaction
                    or attempt == CONFLICT_TRIES
                    or time.monotonic() > end
                    or not self.is_conflict(error)
                ):
                    raise
                time.sleep(min(0.005 * 2**attempt, 0.5))
        raise AssertionError("unreachable")

    @property
    def _in_callers_transaction(self) -> bool:
        # One that is managed by hand has no atomic block. The database may have undone it all.
        opened = self.connection.connection is not None
        return self.connection.in_atomic_block or (opened and not self.connection.autocommit)

    # Hot statements

    def lanes(self, kinds: Sequence[str] | None, queues: Sequence[str] | None) -> list[Lane]:
        """Return the lanes of ready jobs, due or not, but for paused queues; see lanes.py."""
        found = lanes(self._lane_heads, kinds, queues)
        paused = self._paused() if found else set()
        return [lane for lane in found if lane.queue not in paused]

    def first_lease(self) -> datetime | None:
        """Return when the first of all leases ends."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT MIN(lease_until) FROM {TABLE} WHERE status = '{RUNNING}'")
            (until,) = cursor.fetchone()
            return None if until is None else as_aware(self.read_instant(until))

    def _paused(self) -> set[str]:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT name FROM {PAUSED}")
            return {name for (name,) in cursor.fetchall()}

    def _lane_heads(self, probes: Sequence[Probe]) -> list[tuple[int, Lane]]:
        parts, params = [], []
        for number, probe in enumerate(probes):
            where, values = probe.where()
            parts.append(self.lane_head.format(number=number, where=where, order=probe.order()))
            params += values
        with self.connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), params)
            return [
                (number, Lane(kind, queue, priority, as_aware(self.read_instant(run_at))))
                for number, kind, queue, priority, run_at in cursor.fetchall()
            ]

    def claim(self, request: ClaimRequest, returning: Sequence[str]) -> list[Any]:
        """Move due jobs from ready to running, atomically; return their `returning` columns.

        The rows come in no order. Other claimers are never waited for.
        """
        raise NotImplementedError

    def settle(
        self, settlements: Sequence[Settlement], now: datetime | None, lease_over: bool = False
    ) -> dict[int, str]:
        """End claims; return the new status of each job whose claim still held.

        With `lease_over` the lease must be over as well at the moment of the write.
        """
        raise NotImplementedError

    def renew(
        self, claims: Sequence[tuple[int, int]], lease: float, now: datetime | None
    ) -> set[int]:
        """Let the leases of (id, claims) hold on; return the ids whose claim still held."""
        raise NotImplementedError

    # Pieces of statements

    def _settlement_row(self, item: Settlement) -> tuple[Any, ...]:
        """Return the values of SETTLEMENT_COLUMNS for one settlement."""
        return (
            item.job_id,
            item.claims,
            item.status,
            item.attempts,
            item.reason,
            item.result,
            None if item.delay is None else float(item.delay),
            None if item.run_at is None else self.instant(item.run_at),
            None if item.due_at is None else self.instant(item.due_at),
            None if item.deadline is None else self.instant(item.deadline),
            item.missed,
        )
