"""How far ahead to claim: measured from how long jobs take, never configured."""

from __future__ import annotations

AHEAD = 0.2
"""Seconds of work that may lie claimed and not yet started."""
MOST = 500


class Pace:
    """The time that attempts take of late; one long attempt outweighs many short ones."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._typical: float | None = None

    def note(self, seconds: float) -> None:
        typical = self._typical
        if typical is None or seconds > 4 * typical:
            self._typical = seconds
        else:
            self._typical = 0.95 * typical + 0.05 * seconds

    def forget(self) -> None:
        """Measure anew: what was measured has turned out wrong."""
        self._typical = None

    @property
    def ahead(self) -> int:
        """Return how many jobs beyond the slots will start within a fraction of a second."""
        if self._typical is None:
            return 0
        return min(int(self._slots * AHEAD / max(self._typical, 1e-6)), MOST)
