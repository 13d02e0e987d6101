"""Hearing of new work at once, where the engine can tell; polling stays the truth."""

from __future__ import annotations

import threading

from django.db import connections

from ..engines import Engine, engine_for
from .bell import Bell
from .patience import Patience, close_connections

STEP = 0.03
"""Seconds between two looks at an engine's change marker while idle.

Half of it is the median wait; each look wakes the thread, which costs more than the look itself.
"""


class ChangeMarker:
    """Waits until someone else has committed, by a marker that costs microseconds to read."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._engine: Engine | None = None
        self._seen: int | None = None

    def note(self) -> None:
        """Remember the marker, before a claim: what is committed from now on is news."""
        self._engine = engine_for(connections[self._alias])
        self._seen = self._engine.change_marker()

    def has_changed(self) -> bool:
        return self._engine is None or self._engine.change_marker() != self._seen

    @property
    def step(self) -> float | None:
        return None if self._seen is None else STEP


class Listener(threading.Thread):
    """A thread whose connection waits for notifications, and reconnects when it is lost."""

    def __init__(self, alias: str, bell: Bell) -> None:
        super().__init__(name="sqlqueue-listener", daemon=True)
        self._alias, self._bell = alias, bell
        self._patience = Patience("Listening for new jobs")
        self._stopped = threading.Event()

    def finish(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    engine = engine_for(connections[self._alias])
                    engine.listen(self._heard, self._stopped.is_set)
                except Exception as error:
                    self._stopped.wait(self._patience.after(error))
        finally:
            close_connections()

    def _heard(self) -> None:
        self._patience.success()
        self._bell.ring()


def listener(alias: str, bell: Bell, wanted: bool) -> Listener | None:
    """Return a listener where the engine can notify, and it is wanted."""
    engine = engine_for(connections[alias])
    return Listener(alias, bell) if wanted and engine.can_listen else None
