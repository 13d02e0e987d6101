"""The pieces of SQL that the statements of all engines are made of."""

from __future__ import annotations

from functools import lru_cache

TABLE = "django_sqlqueue_job"
PAUSED = "django_sqlqueue_pausedqueue"
CLAIM_INDEX = "sqlqueue_claim_idx"

CLAIMED = (
    "status = 'running', attempts = attempts + 1, claims = claims + 1,"
    " started_at = {now}, updated_at = {now}, lease_until = {until}, lease_owner = {owner},"
    " progress = NULL, progress_note = ''"
)
"""What a claim writes, on every engine."""


@lru_cache(maxsize=64)
def quoted(columns: tuple[str, ...], prefix: str, quote: str) -> str:
    return ", ".join(f"{prefix}{quote}{name}{quote}" for name in columns)
