"""The name of a runner as people read it: its machine and process id."""

from __future__ import annotations


def in_short(owner: str | None) -> str:
    """Return "host · pid" of a name that worker/identity.py made; any other name as it is."""
    parts = (owner or "").split("|")
    return f"{parts[0]} · {parts[3]}" if len(parts) == 6 else owner or ""
