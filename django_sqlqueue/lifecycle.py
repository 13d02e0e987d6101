"""The statuses of a job and the table of its moves. Everything else asks this file."""

from __future__ import annotations

from dataclasses import dataclass

READY, RUNNING = "ready", "running"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"

LIVE = (READY, RUNNING)
SETTLED = (DONE, FAILED, CANCELLED)
STATUSES = LIVE + SETTLED

OUTCOMES = ("done", "retried", "failed", "deferred", "released", "lost", "cancelled")
"""How an attempt can have ended, as its history row says it."""


@dataclass(frozen=True, slots=True)
class Move:
    """One way for a job to change: from any of `sources` to one of `targets`."""

    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    attempts: str
    """What happens to the attempt counter, as the README prints it."""
    guard: str
    """What must hold in the database at the moment of the write, else nothing is written."""
    outcome: str = ""
    """How the move's attempt reads in the history; blank where it ends none."""


MOVES = {
    move.name: move
    for move in (
        Move("claim", (READY,), (RUNNING,), "+1", "still ready, run_at has come"),
        Move("renew", (RUNNING,), (RUNNING,), "", "the claim"),
        Move("complete", (RUNNING,), (DONE,), "", "the claim", "done"),
        Move("retry", (RUNNING,), (READY,), "", "the claim", "retried"),
        Move("abandon", (RUNNING,), (FAILED,), "", "the claim", "failed"),
        Move("defer", (RUNNING,), (READY,), "-1", "the claim", "deferred"),
        Move("reschedule", (RUNNING,), (READY,), "=0", "the claim", "done"),
        Move("advance", (RUNNING,), (READY,), "=0", "the claim, or lease over and attempts spent"),
        Move("release", (RUNNING,), (READY,), "-1", "the owner", "released"),
        Move("reclaim", (RUNNING,), (READY,), "", "lease over or runner dead", "lost"),
        Move("expire", (RUNNING,), (FAILED,), "", "the same, attempts spent", "lost"),
        Move("reset", (RUNNING,), (READY, FAILED), "", "reset_running only", "lost"),
        Move("cancel", (READY, RUNNING), (CANCELLED, RUNNING), "", "live"),
        Move("requeue", SETTLED, (READY,), "=0", "no live twin holds its dedup key"),
    )
}
"""Every move there is. A claim that ends with cancel_requested_at set ends as cancelled instead."""
