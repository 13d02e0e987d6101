"""What a worker is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of runjobs; times are in seconds, None means any or unlimited."""

    queues: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    threads: int = field(default_factory=lambda: settings.THREADS)
    coroutines: int = 100
    max_jobs: int | None = None
    drain: bool = False
    lease: float = field(default_factory=lambda: settings.LEASE)
    poll: float = field(default_factory=lambda: settings.POLL)
    grace: float = field(default_factory=lambda: settings.GRACE)
    database: str | None = None
    health_file: str | None = None
