"""PostgreSQL: row locks that can be skipped, a server clock, several statements at once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError

from ..policy import Settlement
from .arrays import STILL_RUNNING, settling
from .base import ClaimRequest
from .instants import After, as_aware
from .lanes import Lane
from .link import KEEPALIVES, SILENCE
from .listening import Listening
from .settlements import is_shared
from .statements import CLAIMED, PAUSED, TABLE

CONFLICTS = {"40001", "40P01", "55P03"}
"""serialization_failure, deadlock_detected, lock_not_available."""

SERVER_LISTENS = (
    f"SELECT set_config('tcp_user_timeout', '{SILENCE}s', false),"
    f" set_config('tcp_keepalives_idle', '{SILENCE // 3}', false),"
    f" set_config('tcp_keepalives_interval', '{SILENCE // 3}', false),"
    f" set_config('tcp_keepalives_count', '{KEEPALIVES['TCP_KEEPCNT']}', false)"
    " WHERE current_setting('tcp_user_timeout') = '0' AND pg_backend_pid() = %s"
)
"""What link.py does, for the server's end: where nobody has set it there, a session may ask for it.

Not through a pooler, which lends the session to others afterwards: its pid is not ours."""

PLAIN_PLANS = (
    "SELECT set_config('enable_bitmapscan', 'off', true),"
    " set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
)

STILL_READY = "job.status || '' = 'ready'"
"""The guard of a claim, worded so that the planner cannot look the found ids up in the index of
ready jobs, which it takes for a small one while its statistics are old."""

NOT_PAUSED = f"NOT EXISTS (SELECT 1 FROM {PAUSED} AS paused WHERE paused.name = lane.queue)"

TYPES = {
    "run_at": "timestamptz", "deadline": "timestamptz", "due_at": "timestamptz",
    "priority": "integer", "max_attempts": "integer", "payload": "jsonb",
}  # fmt: skip


class PostgreSQL(Listening):
    """Differs because instants carry their zone, and one statement can walk and lock."""

    clock = "STATEMENT_TIMESTAMP()"
    instant_type = "timestamptz"
    text_collation = "C"
    unless_set = {"connect_timeout": 10}

    def instant(self, value: datetime) -> datetime:
        return as_aware(value)

    def read_instant(self, value: Any) -> datetime:
        # Differs on PostgreSQL because Django's driver settings make the attribute already.
        return value

    def instant_reader(self) -> None:
        return None

    def is_conflict(self, error: BaseException) -> bool:
        return getattr(error.__cause__, "sqlstate", None) in CONFLICTS

    def is_connection_lost(self, error: BaseException) -> bool:
        return self.connection.connection is None or bool(self.connection.connection.closed)

    def end_in_silence(self) -> None:
        super().end_in_silence()
        # Differs on PostgreSQL because a session may say how its server finds out that the client
        # is gone; without this what it has locked stays locked for two hours. A proxy may refuse.
        with contextlib.suppress(DatabaseError), self.connection.cursor() as cursor:
            cursor.execute(SERVER_LISTENS, [self.server_process])

    def uri_matches(self, uri: str) -> tuple[str, list[Any]]:
        # Differs on PostgreSQL because ->> makes text of numbers and arrays too; without the
        # test of the type, "5" would match the number 5.
        return (
            (
                "jsonb_typeof(payload -> 'uri') = 'string' AND"
                " (payload ->> 'uri' = %s OR starts_with(payload ->> 'uri', %s))"
            ),
            [uri, uri + "/"],
        )

    def _after_clock(self, seconds: float) -> tuple[str, list[Any]]:
        if not seconds:
            return self.clock, []
        return f"{self.clock} + %s * interval '1 second'", [seconds]

    def _insertion(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        now: datetime | None,
        returning: Sequence[str],
    ) -> tuple[str, list[Any]]:
        if len(rows) == 1:
            return super()._insertion(columns, rows, now, returning)
        # Differs on PostgreSQL because of what arrays.py says.
        places, params = [], []
        arrays: dict[str, tuple[str, Sequence[Any]]] = {}
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            if is_shared(values):
                place, place_params = self._shared(column, values[0], now)
            else:
                place, place_params = self._array(column, values, now, arrays)
            places.append(place)
            params += place_params
        unnested = "".join(f", unnest(%s::{kind}[])" for kind, _ in arrays.values())
        source = (
            f"SELECT {', '.join(places)} FROM ROWS FROM (generate_series(1, %s){unnested})"
            f" AS v ({', '.join(('number', *arrays))})"
        )
        sql = self._insert_from(source, columns, rows, returning)
        return sql, [*params, len(rows), *(values for _, values in arrays.values())]

    def _shared(self, column: str, value: Any, now: datetime | None) -> tuple[str, list[Any]]:
        if isinstance(value, (After, datetime)):
            return self.moment(value, now)
        return f"CAST(%s AS {TYPES.get(column, 'text')})", [value]

    def _array(
        self,
        column: str,
        values: Sequence[Any],
        now: datetime | None,
        arrays: dict[str, tuple[str, Sequence[Any]]],
    ) -> tuple[str, list[Any]]:
        """Add the arrays of a column; an instant after the clock travels as its seconds."""
        kind, name = TYPES.get(column, "text"), f"v_{column}"
        if kind == "jsonb":
            arrays[name] = ("text", list(values))
            return f"{name}::jsonb", []
        if kind != "timestamptz":
            arrays[name] = (kind, list(values))
            return name, []
        instants = [as_aware(value) if isinstance(value, datetime) else None for value in values]
        delays = [value.seconds if isinstance(value, After) else None for value in values]
        arrays[name] = (kind, instants)
        arrays[f"{name}_after"] = ("double precision", delays)
        clock, params = self.moment(After(), now)
        return f"COALESCE({name}, {clock} + {name}_after * interval '1 second')", params

    def lanes(self, kinds: Sequence[str] | None, queues: Sequence[str] | None) -> list[Lane]:
        walk, params = _walk(kinds, queues)
        with self.connection.cursor() as cursor:
            cursor.execute(f"{walk} SELECT * FROM lane WHERE {NOT_PAUSED}", params)
            return [
                Lane(kind, queue, priority, as_aware(run_at))
                for kind, queue, priority, run_at in cursor.fetchall()
                if queues is None or queue in queues
            ]

    def claim(self, request: ClaimRequest, returning: Sequence[str]) -> list[Any]:
        walk, params = _walk(request.kinds, request.queues)
        clock, clock_params = self.moment(After(), request.now)
        until, until_params = self.moment(After(request.lease), request.now)
        claimed = CLAIMED.format(now=clock, until=until, owner="%s")
        due = ""
        if request.queues is not None:
            due, due_params = " AND lane.queue = ANY(%s)", [list(request.queues)]
        else:
            due_params = []
        sql = (
            f"{walk}, due AS MATERIALIZED (SELECT ready.id FROM lane CROSS JOIN LATERAL ("
            f"SELECT id, priority, run_at FROM {TABLE} WHERE status = 'ready' AND kind = lane.kind"
            " AND queue = lane.queue AND priority = lane.priority"
            f" AND run_at >= lane.run_at AND run_at <= {clock} ORDER BY run_at, id LIMIT %s"
            " FOR UPDATE SKIP LOCKED) AS ready"
            f" WHERE lane.run_at <= {clock}{due} AND {NOT_PAUSED}"
            " ORDER BY ready.priority DESC, ready.run_at, ready.id LIMIT %s)"
            f" UPDATE {TABLE} AS job SET {claimed}"
            f" WHERE job.id = ANY(ARRAY(SELECT id FROM due)) AND {STILL_READY}"
            f" RETURNING {self._names(returning, 'job.')}"
        )
        params = [
            *params, *clock_params, request.limit, *clock_params, *due_params, request.limit,
            *clock_params, *clock_params, *until_params, request.owner,
        ]  # fmt: skip
        if self.connection.in_atomic_block:
            return self._rows(sql, params)
        # Differs on PostgreSQL because its planner trusts statistics that a queue outruns;
        # without this, a backlog inserted a moment ago is sorted as a whole at every claim.
        if self._takes_several_statements and not self._in_callers_transaction:
            return self._rows(f"{PLAIN_PLANS}; {sql}", params, skip=1)
        with self.unit():
            self._rows(PLAIN_PLANS, [])
            return self._rows(sql, params)

    def _rows(self, sql: str, params: Sequence[Any], skip: int = 0) -> list[Any]:
        """Return the rows of the statement behind the first `skip` of those sent."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            for _ in range(skip):
                cursor.nextset()
            return cursor.fetchall()

    def settle(
        self, settlements: Sequence[Settlement], now: datetime | None, lease_over: bool = False
    ) -> dict[int, str]:
        clock, clock_params = self.moment(After(), now)
        ordered = sorted(settlements, key=lambda item: item.job_id)
        sql, arrays, shared = settling(map(self._settlement_row, ordered), clock, lease_over)
        return dict(self._rows(sql, [*arrays, *clock_params, *shared]))

    def renew(
        self, claims: Sequence[tuple[int, int]], lease: float, now: datetime | None
    ) -> set[int]:
        until, params = self.moment(After(lease), now)
        ids, numbers = zip(*claims, strict=True)
        mine = (
            " FROM unnest((SELECT %s::bigint[]), (SELECT %s::bigint[])) AS v (job_id, claim)"
            f" JOIN {TABLE} AS job ON id = job_id AND claims = claim WHERE {STILL_RUNNING}"
        )
        # Differs on PostgreSQL because a row that a transaction holds would make the renewal
        # of all the others wait. A claim whose row is held is still a claim.
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {TABLE} SET lease_until = {until} WHERE id = ANY(ARRAY("
                f"SELECT id{mine} ORDER BY id FOR UPDATE OF job SKIP LOCKED)) RETURNING id",
                [*params, list(ids), list(numbers)],
            )
            held = {row[0] for row in cursor.fetchall()}
            if len(held) < len(claims):
                cursor.execute(f"SELECT id{mine}", [list(ids), list(numbers)])
                held |= {row[0] for row in cursor.fetchall()}
            return held


def _walk(kinds: Sequence[str] | None, queues: Sequence[str] | None) -> tuple[str, list[Any]]:
    """Return the walk of lanes.py as the beginning of one recursive statement."""
    if kinds is None:
        roots, root = "(SELECT 1) AS root", ""
        beyond = "(kind, queue, priority) > (lane.kind, lane.queue, lane.priority)"
        params: list[Any] = []
    elif queues is None:
        roots, root = "unnest(%s::text[]) AS k (of_kind)", " AND kind = of_kind"
        beyond = "kind = lane.kind AND (queue, priority) > (lane.queue, lane.priority)"
        params = [list(kinds)]
    else:
        roots = "unnest(%s::text[]) AS k (of_kind) CROSS JOIN unnest(%s::text[]) AS q (of_queue)"
        root = " AND kind = of_kind AND queue = of_queue"
        beyond = "kind = lane.kind AND queue = lane.queue AND priority > lane.priority"
        params = [list(kinds), list(queues)]
    head = f"SELECT kind, queue, priority, run_at FROM {TABLE} WHERE status = 'ready'"
    order = " ORDER BY kind, queue, priority, run_at, id LIMIT 1"
    return (
        (
            "WITH RECURSIVE lane AS (SELECT head.*"
            f" FROM {roots} CROSS JOIN LATERAL ({head}{root}{order}) AS head"
            " UNION ALL SELECT head.*"
            f" FROM lane CROSS JOIN LATERAL ({head} AND {beyond}{order}) AS head)"
        ),
        params,
    )
