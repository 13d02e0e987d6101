"""Looking at files on disk: which there are, what is in them, whether they are at rest."""

import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

_SUFFIXES = """
    .cfg .css .csv .html .ini .js .json .log .md .py .pyi .rst .sql .tex .toml .ts .txt .xml
    .yaml .yml
"""
TEXT_SUFFIXES = frozenset(_SUFFIXES.split())
ALWAYS_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})


class StillBeingWritten(Exception):
    """The file changed a moment ago, or while it was read."""


def text_files(
    root: Path, skip: Collection[str] = (), onerror: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """Yield the text files below a folder in a stable order.

    Hidden folders, those that hold no sources, and those named in ``skip`` are left out.
    ``onerror`` is told of each folder that could not be listed.
    """
    left_out = ALWAYS_SKIPPED.union(skip)
    for folder, subfolders, names in os.walk(root, onerror=onerror):
        subfolders[:] = sorted(
            name for name in subfolders if name not in left_out and not name.startswith(".")
        )
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix.lower() in TEXT_SUFFIXES and path.is_file():
                yield path


def content_hash(content: bytes) -> str:
    """Return the hash that tells one content of a file from another."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def hash_and_size(path: Path) -> tuple[str, int]:
    """Return the hash and the size of a file's present content, read in pieces."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
        return digest.hexdigest(), file.tell()


def read_at_rest(path: Path, quiet_seconds: float, max_bytes: int) -> bytes:
    """Return at most ``max_bytes + 1`` bytes of a file that nobody is writing.

    Raise StillBeingWritten where the file changed in the last ``quiet_seconds`` or while it was
    read.
    """
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        if changed_within(before, quiet_seconds):
            raise StillBeingWritten
        content = file.read(max_bytes + 1)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise StillBeingWritten
    return content


def changed_within(status: os.stat_result, seconds: float) -> bool:
    """Return whether a file changed in the last seconds.

    A time in the future is a wrong clock and says nothing; taken for a change, it would put the
    file off for as long as the clock is wrong.
    """
    age = time.time() - status.st_mtime
    return stat.S_ISREG(status.st_mode) and 0 <= age < seconds
