"""The faults of the database itself: away, read-only, locked, full."""

from __future__ import annotations

from typing import Any

from tests.storm.faults import Fault, Stage

SERVERS = ("postgresql", "mariadb")
"""Engines with a server that may be away."""
FARTHEST = 15.0
"""Seconds by which a clock is moved at most."""


class DatabaseFault(Fault):
    is_alone = True


class Restart(DatabaseFault):
    name, engines, lasts = "database restarted", SERVERS, (0.0, 1.0)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        stage.server.stop()
        return {}

    def end(self, stage: Stage) -> None:
        stage.server.start()


class Crash(Restart):
    name, engines, lasts = "database killed", SERVERS, (0.0, 1.0)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        stage.server.crash()
        return {}


class SessionsEnded(DatabaseFault):
    name, engines, weight = "sessions ended", SERVERS, 2.0

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        return {"sessions": stage.server.end_sessions()}


class ReadOnly(DatabaseFault):
    name, engines, lasts = "database read-only", SERVERS, (0.3, 1.5)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        stage.server.refuse_writes()
        return {}

    def end(self, stage: Stage) -> None:
        stage.server.allow_writes()


class LongWriter(DatabaseFault):
    """Somebody holds the rows of all live jobs, or all that can be written, and thinks."""

    name, lasts = "long writer", (0.2, 1.3)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        return {"held": stage.server.hold_locks()}

    def end(self, stage: Stage) -> None:
        stage.server.let_go()


class DiskFull(DatabaseFault):
    """Nothing more can be written; a server may die of it."""

    name, needs, lasts = "disk full", "small_disk", (0.3, 1.5)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        if stage.server.disk is None:
            return {"full": False}
        stage.server.disk.fill()
        return {"full": True}

    def end(self, stage: Stage) -> None:
        if stage.server.disk is not None:
            stage.server.disk.empty()
        stage.server.start()


class ClockMoved(DatabaseFault):
    """A clock jumps by seconds, and later jumps back."""

    needs, lasts, weight = "clocks", (0.5, 2.0), 3.0

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        seconds = round((2 * dice - 1) * FARTHEST)
        self._move(stage, seconds)
        return {"seconds": seconds}

    def end(self, stage: Stage) -> None:
        self._move(stage, 0)

    def _move(self, stage: Stage, seconds: float) -> None:
        if stage.clock is not None:
            stage.clock.move(seconds)


class WorkersClock(ClockMoved):
    """Where a server has a clock that of a worker's host does not matter."""

    name, engines = "clock of a worker moved", SERVERS


class HostsClock(ClockMoved):
    name, engines, moves_leases = "clock of the host moved", ("sqlite",), True


class DatabasesClock(ClockMoved):
    name, engines, moves_leases = "clock of the database moved", SERVERS, True

    def _move(self, stage: Stage, seconds: float) -> None:
        if stage.server.clock is not None:
            stage.server.clock.move(seconds)


DATABASE_FAULTS: tuple[type[Fault], ...] = (
    Restart, Crash, SessionsEnded, ReadOnly, LongWriter, DiskFull, WorkersClock, HostsClock,
    DatabasesClock,
)  # fmt: skip
