"""Rows on their way into one statement of PostgreSQL: an array a column.

It reads those far faster than a parameter a value; a value that all rows share is given once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from .settlements import SETTLED_BY, SETTLEMENT_COLUMNS, by_column
from .statements import TABLE

SETTLEMENT_TYPES = dict(
    zip(
        SETTLEMENT_COLUMNS,
        (
            "bigint", "bigint", "text", "integer", "text", "text", "double precision",
            "timestamptz", "timestamptz", "timestamptz", "bigint",
        ),
        strict=True,
    )
)  # fmt: skip
SETTLED = SETTLED_BY.format(now="clock", delayed="clock + to_delay * interval '1 second'").replace(
    "COALESCE(to_result, ", "COALESCE(to_result::jsonb, "
)


STILL_RUNNING = "status || '' = 'running'"
"""The guard of a claim that is held, worded so that the planner cannot look it up in the index of
leases: with old statistics it prefers that to the ids, and there the settled jobs of the last
minutes stay until the server cleans up."""


def settling(
    rows: Iterable[Sequence[Any]], clock: str, lease_over: bool
) -> tuple[str, list[Any], list[Any]]:
    """Return the UPDATE for rows of SETTLEMENT_COLUMNS, its arrays and what the rows share.

    The parameters of the clock stand between these two.
    """
    varying, shared = by_column(rows)
    sql = _settling_sql(tuple(varying), tuple(shared), clock, lease_over)
    return sql, [list(values) for values in varying.values()], list(shared.values())


@lru_cache(maxsize=256)
def _settling_sql(
    arrays: tuple[str, ...], shared: tuple[str, ...], clock: str, lease_over: bool
) -> str:
    # Each in a SELECT, behind which the planner cannot count: for many it would read the table.
    unnested = ", ".join(f"(SELECT %s::{SETTLEMENT_TYPES[name]}[])" for name in arrays)
    given = "".join(f", CAST(%s AS {SETTLEMENT_TYPES[name]}) AS {name}" for name in shared)
    guard = " AND lease_until <= clock" if lease_over else ""
    return (
        f"UPDATE {TABLE} SET {SETTLED} FROM unnest({unnested}) AS v ({', '.join(arrays)}),"
        f" (SELECT {clock} AS clock{given}) AS c"
        f" WHERE id = job_id AND claims = claim AND {STILL_RUNNING}{guard} RETURNING id, status"
    )
