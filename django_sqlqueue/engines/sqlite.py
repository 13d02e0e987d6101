"""SQLite: one writer at a time, no server clock, no locks on rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any

from ..lifecycle import RUNNING
from ..policy import Settlement
from .base import ClaimRequest, Engine
from .instants import After, as_aware
from .link import Advice
from .settlements import SETTLED_BY, by_column
from .statements import CLAIM_INDEX, CLAIMED, TABLE, quoted

IS_TIME = "run_at > '1000-'"
"""Differs on SQLite because its columns hold anything: a number or an empty text, as someone's SQL
may have left it, comes before all times, and would keep all jobs from being claimed."""

TERMS = 400
"""So many SELECTs may stand in one UNION, and somewhat more."""

PRESENT = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"

OPTIONS = (
    'Set "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command":'
    ' "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"} for it; see SQLite in the README.'
)


class SQLite(Engine):
    """Differs because a write locks the whole file: an empty claim must not be a write."""

    clock = PRESENT
    lane_head = (
        "SELECT * FROM (SELECT {number}, kind, queue, priority, run_at"
        f" FROM {TABLE} INDEXED BY {CLAIM_INDEX} WHERE status = 'ready' AND {IS_TIME}{{where}}"
        " ORDER BY {order} LIMIT 1)"
    )

    def now(self) -> datetime:
        # Differs on SQLite because its clock is the host's, and Python reads it finer.
        return _present(None)

    def moment(self, at: datetime | After, now: datetime | None) -> tuple[str, list[Any]]:
        if isinstance(at, After):
            at = _present(now) + timedelta(seconds=at.seconds)
        return "%s", [self.instant(at)]

    def lock_for_writing(self) -> None:
        # Differs on SQLite because a read lock cannot become a write lock while another
        # connection writes; without this, a transaction that reads first dies with "database is
        # locked". An UPDATE takes the lock even where it changes nothing.
        with self.connection.cursor() as cursor:
            cursor.execute(f"UPDATE {TABLE} SET claims = claims WHERE id < 0")

    def change_marker(self) -> int | None:
        if self.connection.connection is None:
            self.connection.ensure_connection()
        marker: int = self.connection.connection.execute("PRAGMA data_version").fetchone()[0]
        return marker

    def is_conflict(self, error: BaseException) -> bool:
        return "is locked" in str(error) or "is busy" in str(error)

    def is_connection_lost(self, error: BaseException) -> bool:
        return "closed database" in str(error)

    def advice_on_settings(self) -> list[Advice]:
        mode = self.connection.settings_dict["OPTIONS"].get("transaction_mode") or "DEFERRED"
        if self.connection.is_in_memory_db() or mode.upper() != "DEFERRED":
            return []
        found = (
            "begins transactions without the write lock: one that reads and then writes is refused"
            ' at once, "database is locked", when a worker has written in between'
        )
        return [Advice("I001", found, OPTIONS)]

    def advice_on_database(self) -> list[Advice]:
        with self.connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode")
            (journal,) = cursor.fetchone()
        if self.connection.is_in_memory_db() or journal == "wal":
            return []
        found = (
            f"keeps a {journal} journal: writers and readers wait for each other, and each commit"
            " waits for the disk several times"
        )
        return [Advice("I002", found, OPTIONS)]

    def rows_at_once(self, columns: int) -> int:
        return max(1, min(1000, self.connection.features.max_query_params // columns))

    def uri_matches(self, uri: str) -> tuple[str, list[Any]]:
        # Differs on SQLite because LIKE ignores the case of ASCII letters. "0" follows "/", so
        # all that begins with "uri/" lies between "uri/" and "uri0".
        text = "json_extract(payload, '$.uri')"
        return (
            (
                "json_valid(payload) AND json_type(payload, '$.uri') = 'text' AND"
                f" ({text} = %s OR ({text} >= %s AND {text} < %s))"
            ),
            [uri, uri + "/", uri + "0"],
        )

    def insert_one(
        self, columns: Sequence[str], row: Sequence[Any], returning: Sequence[str], notify: bool
    ) -> Sequence[Any] | None:
        # Differs on SQLite because its clock is the host's: all but the id is known before.
        present = _present(None)
        known = dict(zip(columns, row, strict=True))
        for name in ("run_at", "deadline"):
            known[name] = self._at(known[name], present)
        known["created_at"] = known["updated_at"] = self.instant(present)
        sql = _insert_sql(tuple(known), known["dedup_key"] is not None)
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(known.values()))
            if not cursor.rowcount:
                return None
            known["id"] = cursor.lastrowid
        return [known[name] for name in returning]

    def _at(self, value: Any, present: datetime) -> Any:
        """Return a value as it is stored, an instant after the clock by this one."""
        if isinstance(value, After):
            value = present + timedelta(seconds=value.seconds)
        return self.instant(value) if isinstance(value, datetime) else value

    def claim(self, request: ClaimRequest, returning: Sequence[str]) -> list[Any]:
        present = _present(request.now)
        due = [lane for lane in self.lanes(request.kinds, request.queues) if lane.run_at <= present]
        if not due:
            return []
        now_param = self.instant(present)
        until = self.instant(present + timedelta(seconds=request.lease))
        params: list[Any] = [now_param, now_param, until, request.owner]
        for lane in due:
            params += [lane.kind, lane.queue, lane.priority, now_param, request.limit]
        with self.connection.cursor() as cursor:
            cursor.execute(_claim_sql(len(due), self._names(returning)), [*params, request.limit])
            return cursor.fetchall()

    def settle(
        self, settlements: Sequence[Settlement], now: datetime | None, lease_over: bool = False
    ) -> dict[int, str]:
        present = _present(now)
        items = [
            item._replace(run_at=present + timedelta(seconds=item.delay), delay=None)
            if item.run_at is None and item.delay is not None
            else item
            for item in settlements
        ]
        varying, shared = by_column(map(self._settlement_row, items))
        rows = chain.from_iterable(zip(*varying.values(), strict=True))
        sql = _settle_sql(len(items), tuple(varying), tuple(shared), lease_over)
        with self.connection.cursor() as cursor:
            cursor.execute(sql, [*rows, self.instant(present), RUNNING, *shared.values()])
            return dict(cursor.fetchall())

    def renew(
        self, claims: Sequence[tuple[int, int]], lease: float, now: datetime | None
    ) -> set[int]:
        until = self.instant(_present(now) + timedelta(seconds=lease))
        places = ", ".join(["(%s, %s)"] * len(claims))
        params = [until, *(part for claim in claims for part in claim)]
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {TABLE} SET lease_until = %s WHERE status = 'running'"
                f" AND (id, claims) IN (VALUES {places}) RETURNING id",
                params,
            )
            return {row[0] for row in cursor.fetchall()}


def _present(now: datetime | None) -> datetime:
    return datetime.now(UTC) if now is None else as_aware(now)


@lru_cache(maxsize=64)
def _insert_sql(columns: tuple[str, ...], has_key: bool) -> str:
    start, end = SQLite.ignores_duplicates if has_key else ("INSERT", "")
    names, places = quoted(columns, "", SQLite.quote), ", ".join(["%s"] * len(columns))
    return f"{start} INTO {TABLE} ({names}) VALUES ({places}) {end}"


@lru_cache(maxsize=64)
def _claim_sql(lanes: int, returning: str) -> str:
    lane = (
        f"SELECT * FROM (SELECT id, priority, run_at FROM {TABLE} INDEXED BY {CLAIM_INDEX}"
        " WHERE status = 'ready' AND kind = %s AND queue = %s AND priority = %s"
        f" AND {IS_TIME} AND run_at <= %s ORDER BY run_at, id LIMIT %s)"
    )
    claimed = CLAIMED.format(now="%s", until="%s", owner="%s")
    # Differs on SQLite because it takes no more than 500 SELECTs side by side.
    unions = [" UNION ALL ".join([lane] * min(TERMS, lanes - n)) for n in range(0, lanes, TERMS)]
    due = (
        unions[0]
        if len(unions) == 1
        else " UNION ALL ".join(f"SELECT * FROM ({u})" for u in unions)
    )
    return (
        f"UPDATE {TABLE} SET {claimed} WHERE status = 'ready' AND id IN"
        f" (SELECT id FROM ({due})"
        f" ORDER BY priority DESC, run_at, id LIMIT %s) RETURNING {returning}"
    )


@lru_cache(maxsize=256)
def _settle_sql(
    rows: int, varying: tuple[str, ...], shared: tuple[str, ...], lease_over: bool
) -> str:
    row, common = (f"({', '.join(['%s'] * n)})" for n in (len(varying), 2 + len(shared)))
    guard = " AND lease_until <= clock" if lease_over else ""
    # Differs on SQLite because of a condition that only the job decides, such as one on its status,
    # a planner with statistics reads the whole table into a Bloom filter before it looks up an id.
    return (
        f"WITH v ({', '.join(varying)}) AS (VALUES {', '.join([row] * rows)}),"
        f" c ({', '.join(('clock', 'held', *shared))}) AS (VALUES {common})"
        f" UPDATE {TABLE} SET {SETTLED_BY.format(now='clock', delayed='NULL')} FROM v, c"
        f" WHERE id = job_id AND claims = claim AND status = held{guard}"
        " RETURNING id, status"
    )
