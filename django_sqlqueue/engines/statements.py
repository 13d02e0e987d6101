"""The pieces of SQL that the statements of all engines are made of."""

from __future__ import annotations

from functools import lru_cache

from ..lifecycle import CANCELLED, SETTLED

TABLE = "django_sqlqueue_job"
PAUSED = "django_sqlqueue_pausedqueue"
CLAIM_INDEX = "sqlqueue_claim_idx"

SETTLEMENT_COLUMNS = (
    "job_id", "claim", "to_status", "to_attempts", "to_reason", "to_result", "to_delay",
    "to_run_at", "to_due_at", "to_deadline", "to_missed",
)  # fmt: skip
"""The columns of a settlement in SQL; none is also a column of the job, so none needs a prefix."""

CLAIMED = (
    "status = 'running', attempts = attempts + 1, claims = claims + 1,"
    " started_at = {now}, updated_at = {now}, lease_until = {until}, lease_owner = {owner},"
    " progress = NULL, progress_note = ''"
)
"""What a claim writes, on every engine."""

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


@lru_cache(maxsize=64)
def quoted(columns: tuple[str, ...], prefix: str, quote: str) -> str:
    return ", ".join(f"{prefix}{quote}{name}{quote}" for name in columns)
