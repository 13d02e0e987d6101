"""The journal of a storm: a line for each thing that happened, written outside the queue.

Every process appends to the same file, one write a line. The monotonic clock, which all processes
of a machine share and which no fault moves, puts the lines in order.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATH = "STORM_JOURNAL"
"""The environment variable that names the file."""

Record = dict[str, Any]

_path = os.environ.get(PATH)
_files: dict[str, int] = {}
_image = ""


def keep_in(path: Path) -> None:
    """Let this process alone keep its journal there; what it starts is told by PATH."""
    global _path
    _path = str(path)


def write(what: str, **facts: Any) -> None:
    """Append a line; where no journal is kept, do nothing."""
    if _path is None:
        return
    if _path not in _files:
        _files[_path] = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    record = {"what": what, "at": time.monotonic(), "wall": time.time(), "who": who(), **facts}
    # A line of its own also behind one that a kill has cut off.
    os.write(_files[_path], f"\n{json.dumps(record)}\n".encode())


def who() -> str:
    """Return the name of this process image: a pid that is used again has another one."""
    global _image
    if not _image:
        _image = uuid.uuid4().hex[:8]
    return f"{os.getpid()}-{_image}"


def _forget_image() -> None:
    global _image
    _image = ""


os.register_at_fork(after_in_child=_forget_image)


def read(path: Path) -> list[Record]:
    """Return the lines in the order of their clock; what a kill has cut off is left out."""
    return sorted(_records(path), key=lambda record: record["at"])


def _records(path: Path) -> Iterator[Record]:
    with path.open(errors="replace") as lines:
        yield from filter(None, map(_parsed, lines))


def _parsed(line: str) -> Record | None:
    try:
        record = json.loads(line) if line.strip() else None
    except ValueError:
        return None
    return record if isinstance(record, dict) and "what" in record else None


class Tally:
    """Counts the jobs that were committed and the runs that ended, while the journal grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self._announced: dict[str, int] = {}
        self.committed = self.ended = 0

    @property
    def waiting(self) -> int:
        """About how many jobs wait to be run."""
        return self.committed - self.ended

    def count(self) -> int:
        with self._path.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self._note(_parsed(line.decode(errors="replace")) or {"what": ""})
        return self.committed

    def _note(self, record: Record) -> None:
        if record["what"] == "intent":
            self._announced[record["txn"]] = len(record["jobs"])
        elif record["what"] == "end":
            self.ended += 1
        elif record["what"] == "commit":
            absent = len(record.get("absent", ())) + record.get("refused", 0)
            self.committed += self._announced.pop(record["txn"], 0) - absent
