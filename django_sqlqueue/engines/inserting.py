"""The INSERT of new jobs: one statement, in which a live twin's key inserts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from .instants import After, Instants
from .statements import TABLE, quoted


class Inserting(Instants):
    """How one engine inserts."""

    quote: ClassVar[str] = '"'
    """What stands around a name."""
    ignores_duplicates: ClassVar[tuple[str, str]] = (
        "INSERT",
        (
            "ON CONFLICT (kind, dedup_key)"
            " WHERE dedup_key IS NOT NULL AND status IN ('ready', 'running') DO NOTHING"
        ),
    )
    """How an INSERT begins and ends so that a live twin makes it insert nothing."""

    def notify_at_commit(self) -> None:
        """Wake idle workers when the present transaction commits, where the engine can."""

    def insert(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        now: datetime | None,
        returning: Sequence[str] = (),
    ) -> list[Any] | int:
        """Insert rows, leaving out those whose key a live job holds.

        Return the `returning` columns of those inserted, or, without such, their number.
        """
        sql, params = self._insertion(columns, rows, now, returning)
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if returning else cursor.rowcount

    def insert_one(
        self, columns: Sequence[str], row: Sequence[Any], returning: Sequence[str], notify: bool
    ) -> Sequence[Any] | None:
        """Insert a row, and wake idle workers if that is wanted; return its columns.

        None means that a live job holds its key.
        """
        inserted: Any = self.insert(columns, [row], None, returning)
        if not inserted:
            return None
        if notify:
            self.notify_at_commit()
        found: Sequence[Any] = inserted[0]
        return found

    def _insertion(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        now: datetime | None,
        returning: Sequence[str],
    ) -> tuple[str, list[Any]]:
        """Return the INSERT and its parameters."""
        moments: dict[Any, tuple[str, list[Any]]] = {}
        groups, params = [], []
        for row in rows:
            places = []
            for value in row:
                if isinstance(value, (After, datetime)):
                    if value not in moments:
                        moments[value] = self.moment(value, now)
                    place, place_params = moments[value]
                    places.append(place)
                    params += place_params
                else:
                    places.append("%s")
                    params.append(value)
            groups.append(f"({', '.join(places)})")
        source = f"VALUES {', '.join(groups)}"
        return self._insert_from(source, columns, rows, returning), params

    def _insert_from(
        self,
        source: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        returning: Sequence[str],
    ) -> str:
        key = columns.index("dedup_key")
        has_keys = any(row[key] is not None for row in rows)
        start, end = self.ignores_duplicates if has_keys else ("INSERT", "")
        sql = f"{start} INTO {TABLE} ({self._names(columns)}) {source} {end}"
        return f"{sql} RETURNING {self._names(returning)}" if returning else sql

    def takes(self, text: str) -> bool:
        """Say whether one statement can carry this text, which is longer than TEXT_AT_ONCE."""
        return True

    def rows_at_once(self, columns: int) -> int:
        """Return how many rows of so many columns one INSERT takes."""
        return 1000

    def _names(self, columns: Sequence[str], prefix: str = "") -> str:
        return quoted(tuple(columns), prefix, self.quote)
