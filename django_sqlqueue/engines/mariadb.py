"""MariaDB (and MySQL 8): no partial index, no RETURNING for an UPDATE, collations that fold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from ..lifecycle import CANCELLED
from ..policy import Settlement
from .base import ClaimRequest, Engine
from .instants import After
from .settlements import SETTLED_BY, by_column
from .statements import CLAIM_INDEX, CLAIMED, TABLE

CONFLICTS = {1205, 1213, 1020}
"""Lock wait timeout, deadlock, record changed since the snapshot."""
SPARE_BYTES = 64_000
"""More than the rest of any statement takes."""
LOST = {2006, 2013, 2055, 4031, 1927, 1053}

BY_ID = f"{TABLE} FORCE INDEX (PRIMARY)"
"""The table where ids are given. Read in any other way, rows of others would be locked."""


class MariaDB(Engine):
    """Differs because a SELECT locks the rows first: an UPDATE does not tell what it changed."""

    quote = "`"
    unless_set = {"connect_timeout": 10}
    clock = "UTC_TIMESTAMP(6)"
    instant_type = "DATETIME(6)"
    # Differs on MariaDB because it has no partial index: a generated column is unique instead.
    live_key_column = "live_key"
    # Differs on MariaDB because INSERT has no ON CONFLICT, and ON DUPLICATE KEY counts a
    # duplicate as a row. IGNORE would hide other errors too: all values are checked before.
    ignores_duplicates = ("INSERT IGNORE", "")
    lane_head = (
        "(SELECT {number}, kind, queue, priority, run_at"
        f" FROM {TABLE} FORCE INDEX ({CLAIM_INDEX}) WHERE status = 'ready'{{where}}"
        " ORDER BY {order} LIMIT 1)"
    )

    @property
    def text_collation(self) -> str:  # type: ignore[override]
        # Differs on MariaDB because its default collation holds 'a', 'A', 'á' and 'a ' equal.
        return "utf8mb4_nopad_bin" if self._is_mariadb else "utf8mb4_0900_bin"

    @property
    def _is_mariadb(self) -> bool:
        return bool(self.connection.mysql_is_mariadb)

    def is_conflict(self, error: BaseException) -> bool:
        return _code(error) in CONFLICTS

    def is_connection_lost(self, error: BaseException) -> bool:
        return self.connection.connection is None or _code(error) in LOST

    def live_key_sql(self, table: str, name: str, columns: tuple[str, str]) -> str:
        # Differs on MariaDB because it has no partial index: a column that holds the key while
        # the job is live, and NULL afterwards, is unique in its place.
        kind, key = map(self.connection.ops.quote_name, columns)
        return (
            f"ALTER TABLE {self.connection.ops.quote_name(table)}"
            f" ADD COLUMN live_key varchar(255) COLLATE {self.text_collation}"
            f" GENERATED ALWAYS AS (CASE WHEN status IN ('ready', 'running') THEN {key} END)"
            f" STORED, ADD UNIQUE INDEX {self.connection.ops.quote_name(name)} ({kind}, live_key)"
        )

    def drop_live_key_sql(self, table: str, name: str) -> str:
        return (
            f"ALTER TABLE {self.connection.ops.quote_name(table)}"
            f" DROP INDEX {self.connection.ops.quote_name(name)}, DROP COLUMN live_key"
        )

    def takes(self, text: str) -> bool:
        # Differs on MariaDB because it ends the connection of a statement that is too long, and
        # with it the caller's transaction.
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT @@max_allowed_packet")
            (limit,) = cursor.fetchone()
        return len(text) + sum(map(text.count, "\"'\\")) + SPARE_BYTES < int(limit)

    def uri_matches(self, uri: str) -> tuple[str, list[Any]]:
        # Differs on MariaDB because LIKE and = fold case; as bytes they do not.
        text = "CAST(JSON_UNQUOTE(JSON_EXTRACT(payload, '$.uri')) AS BINARY)"
        return (
            (
                "JSON_VALID(payload) AND JSON_TYPE(JSON_EXTRACT(payload, '$.uri')) = 'STRING' AND"
                f" ({text} = CAST(%s AS BINARY)"
                f" OR LEFT({text}, OCTET_LENGTH(%s)) = CAST(%s AS BINARY))"
            ),
            [uri, uri + "/", uri + "/"],
        )

    def _after_clock(self, seconds: float) -> tuple[str, list[Any]]:
        if not seconds:
            return self.clock, []
        return f"{self.clock} + INTERVAL %s MICROSECOND", [round(seconds * 1_000_000)]

    def insert(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        now: datetime | None,
        returning: Sequence[str] = (),
    ) -> list[Any] | int:
        if returning and not self._is_mariadb:
            # Differs on MySQL because it has no RETURNING at all.
            if len(rows) > 1:
                one_by_one = (self.insert(columns, [row], now, returning) for row in rows)
                return [found for inserted in one_by_one for found in inserted]  # type: ignore[union-attr]
            if not super().insert(columns, rows, now):
                return []
            return self._select(returning, "id = LAST_INSERT_ID()", [])
        return super().insert(columns, rows, now, returning)

    def claim(self, request: ClaimRequest, returning: Sequence[str]) -> list[Any]:
        heads = self.lanes(request.kinds, request.queues)
        if not heads:
            return []
        clock, clock_params = self.moment(After(), request.now)
        until, until_params = self.moment(After(request.lease), request.now)
        lane = (
            f"(SELECT id, priority, run_at FROM {TABLE} FORCE INDEX ({CLAIM_INDEX})"
            " WHERE status = 'ready' AND kind = %s AND queue = %s AND priority = %s"
            f" AND run_at >= %s AND run_at <= {clock} ORDER BY run_at, id LIMIT %s"
            " FOR UPDATE SKIP LOCKED)"
        )
        params: list[Any] = []
        for head in heads:
            # What lies before the head of a lane was settled a moment ago and may still be there.
            first = self.instant(head.run_at)
            params += [head.kind, head.queue, head.priority, first, *clock_params, request.limit]
        claimed = CLAIMED.format(now=clock, until=until, owner="%s")
        with self.unit(), self.connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join([lane] * len(heads)), params)
            due = sorted(cursor.fetchall(), key=lambda row: (-row[1], row[2], row[0]))
            if not due:
                return []
            ids, places = _id_list(row[0] for row in due[: request.limit])
            cursor.execute(
                f"UPDATE {BY_ID} SET {claimed} WHERE id IN {places} AND status = 'ready'",
                [*clock_params, *clock_params, *until_params, request.owner, *ids],
            )
            return self._select(returning, f"id IN {places}", ids)

    def settle(
        self, settlements: Sequence[Settlement], now: datetime | None, lease_over: bool = False
    ) -> dict[int, str]:
        clock, params = self.moment(After(), now)
        with self.unit():
            held = self._hold([(s.job_id, s.claims) for s in settlements], now, lease_over)
            kept = [item for item in settlements if item.job_id in held]
            if not kept:
                return {}
            varying, shared = by_column(map(self._settlement_row, kept))
            row = f"SELECT {', '.join(_named(varying))}"
            common = ", ".join((f"{clock} AS clock", *_named(shared)))
            rows = chain.from_iterable(zip(*varying.values(), strict=True))
            written = SETTLED_BY.format(
                now="clock", delayed="clock + INTERVAL ROUND(to_delay * 1000000) MICROSECOND"
            )
            with self.connection.cursor() as cursor:
                cursor.execute(
                    f"UPDATE ({' UNION ALL '.join([row] * len(kept))}) AS v"
                    f" STRAIGHT_JOIN (SELECT {common}) AS c"
                    f" STRAIGHT_JOIN {BY_ID} ON id = job_id SET {written}"
                    " WHERE claims = claim AND status = 'running'",
                    [*rows, *params, *shared.values()],
                )
            return {item.job_id: CANCELLED if held[item.job_id] else item.status for item in kept}

    def renew(
        self, claims: Sequence[tuple[int, int]], lease: float, now: datetime | None
    ) -> set[int]:
        until, params = self.moment(After(lease), now)
        with self.unit():
            # Differs on MariaDB, as on PostgreSQL, because a row that a transaction holds would
            # make the renewal of all the others wait.
            held = self._hold(claims, now, lock=" FOR UPDATE SKIP LOCKED")
            if held:
                ids, places = _id_list(held)
                with self.connection.cursor() as cursor:
                    cursor.execute(
                        f"UPDATE {BY_ID} SET lease_until = {until} WHERE id IN {places}",
                        [*params, *ids],
                    )
            if len(held) < len(claims):
                held |= self._hold(claims, now, lock="")
            return set(held)

    def _hold(
        self,
        claims: Sequence[tuple[int, int]],
        now: datetime | None,
        lease_over: bool = False,
        lock: str = " FOR UPDATE",
    ) -> dict[int, bool]:
        """Lock the rows whose claim still holds, in the order of their ids.

        Return, for each, whether it was asked to stop.
        """
        wanted = dict(claims)
        ids, places = _id_list(wanted)
        guard, params = "", list(ids)
        if lease_over:
            clock, clock_params = self.moment(After(), now)
            guard = f" AND lease_until <= {clock}"
            params += clock_params
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"SELECT id, claims, cancel_requested_at IS NOT NULL FROM {BY_ID}"
                f" WHERE id IN {places} AND status = 'running'{guard}"
                f" ORDER BY id{lock}",
                params,
            )
            return {
                job_id: bool(asked)
                for job_id, claim, asked in cursor.fetchall()
                if wanted[job_id] == claim
            }

    def _select(self, columns: Sequence[str], where: str, params: Sequence[Any]) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT {self._names(columns)} FROM {BY_ID} WHERE {where}", params)
            return list(cursor.fetchall())


def _named(columns: Iterable[str]) -> list[str]:
    """Return places for the values of a settlement's columns, under their names."""
    instants = ("_at", "_deadline")
    return [
        f"CAST(%s AS DATETIME(6)) AS {name}" if name.endswith(instants) else f"%s AS {name}"
        for name in columns
    ]


def _id_list(ids: Any) -> tuple[list[int], str]:
    ordered = sorted(ids)
    return ordered, f"({', '.join(['%s'] * len(ordered))})"


def _code(error: BaseException) -> int | None:
    code = error.args[0] if error.args else None
    return code if isinstance(code, int) else None
