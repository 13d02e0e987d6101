"""A clock that can be moved under running processes: libfaketime, and a file with the offset."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

SKEW_LIBRARY = next(
    iter(
        [
            *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
            *Path("/usr/lib").glob("faketime/libfaketimeMT.so.1"),
        ]
    ),
    None,
)
OFFSET_FILE = "FAKETIME_TIMESTAMP_FILE"


class NoClock(Exception):
    """No clock can be moved here; the message says why."""


class Clock:
    """The clock of the processes that are started with environ(); only its seconds move."""

    def __init__(self) -> None:
        if SKEW_LIBRARY is None:
            raise NoClock("libfaketime is not installed")
        self._folder = Path(tempfile.mkdtemp(prefix="sqlqueue-clock-"))
        # A server may run as somebody else.
        self._folder.chmod(0o755)
        self.move(0)

    def environ(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(SKEW_LIBRARY),
            OFFSET_FILE: str(self._folder / "offset"),
            # How soon it looks again.
            "FAKETIME_CACHE_DURATION": "1",
            # Time-outs and waiting go by the monotonic clock, which no skew moves.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def move(self, seconds: float) -> None:
        """Let the clock be so many seconds ahead, or behind where they are negative."""
        written = self._folder / "written"
        written.write_text(f"{seconds:+.0f}")
        written.replace(self._folder / "offset")

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def mend_sleep() -> None:
    """Sleep in another way: under a moved clock time.sleep is an error."""
    if OFFSET_FILE in os.environ:
        import select

        time.sleep = lambda seconds: select.select([], [], [], seconds) and None  # type: ignore
