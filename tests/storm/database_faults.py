"""The faults of the database itself: away, read-only, locked, full."""

from __future__ import annotations

from typing import Any

from tests.storm.faults import Fault, Stage

SERVERS = ("postgresql", "mariadb")
"""Engines with a server that may be away."""


class Restart(Fault):
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


class SessionsEnded(Fault):
    name, engines, weight = "sessions ended", SERVERS, 2.0

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        return {"sessions": stage.server.end_sessions()}


class ReadOnly(Fault):
    name, engines, lasts = "database read-only", SERVERS, (0.3, 1.5)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        stage.server.refuse_writes()
        return {}

    def end(self, stage: Stage) -> None:
        stage.server.allow_writes()


class LongWriter(Fault):
    """Somebody holds the rows of all live jobs, or all that can be written, and thinks."""

    name, lasts = "long writer", (0.2, 1.3)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        return {"held": stage.server.hold_locks()}

    def end(self, stage: Stage) -> None:
        stage.server.let_go()


class DiskFull(Fault):
    """Nothing more can be written; a server may die of it."""

    name, lasts = "disk full", (0.3, 1.5)

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        if stage.server.disk is None:
            return {"full": False}
        stage.server.disk.fill()
        return {"full": True}

    def end(self, stage: Stage) -> None:
        if stage.server.disk is not None:
            stage.server.disk.empty()
        stage.server.start()


DATABASE_FAULTS: tuple[type[Fault], ...] = (
    Restart, Crash, SessionsEnded, ReadOnly, LongWriter, DiskFull,
)  # fmt: skip
