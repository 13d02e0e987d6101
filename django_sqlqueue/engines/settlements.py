"""Settlements on their way into one statement: what it writes, and the values of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..lifecycle import CANCELLED, SETTLED

SETTLEMENT_COLUMNS = (
    "job_id", "claim", "to_status", "to_attempts", "to_reason", "to_result", "to_delay",
    "to_run_at", "to_due_at", "to_deadline", "to_missed",
)  # fmt: skip
"""The columns of a settlement in SQL; none is also a column of the job, so none needs a prefix."""

SETTLED_BY = (
    "finished_at = CASE WHEN cancel_requested_at IS NOT NULL"
    f" OR to_status IN {SETTLED} THEN {{now}} END,"
    f" status = CASE WHEN cancel_requested_at IS NULL THEN to_status ELSE '{CANCELLED}' END,"
    " attempts = to_attempts, last_error = to_reason, result = COALESCE(to_result, result),"
    " run_at = COALESCE(to_run_at, {delayed}, run_at), due_at = COALESCE(to_due_at, due_at),"
    " deadline = COALESCE(to_deadline, deadline), missed_count = missed_count + to_missed,"
    " lease_until = NULL, lease_owner = NULL, updated_at = {now}"
)
"""What a settlement writes, on every engine."""


def is_shared(values: Sequence[Any]) -> bool:
    """Say whether all rows have the same value in this column."""
    return values.count(values[0]) == len(values)


def by_column(rows: Iterable[Sequence[Any]]) -> tuple[dict[str, Sequence[Any]], dict[str, Any]]:
    """Return the columns in which rows of SETTLEMENT_COLUMNS differ, and what the rest hold.

    Most of a group are completions that differ in their ids only.
    """
    varying: dict[str, Sequence[Any]] = {}
    shared: dict[str, Any] = {}
    for name, values in zip(SETTLEMENT_COLUMNS, zip(*rows, strict=True), strict=True):
        if name != "job_id" and is_shared(values):
            shared[name] = values[0]
        else:
            varying[name] = values
    return varying, shared
