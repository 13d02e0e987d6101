"""A disk that can be full: a file system in memory whose size is changed while it is used."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOM = "2g"
"""More than a storm writes; only what is written takes memory."""


class NoDisk(Exception):
    """No file system can be mounted here; the message says why."""


class Disk:
    """Mounted for as long as the process lives that made it, or until remove()."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sqlqueue-disk-"))
        # A server may run as somebody else.
        mode = f"size={ROOM},mode=0777"
        try:
            _run("mount", "-t", "tmpfs", "-o", mode, "sqlqueue-storm", str(self.folder))
        except (OSError, subprocess.CalledProcessError) as error:
            self.folder.rmdir()
            raise NoDisk(str(error)) from error

    def fill(self) -> None:
        """Leave no room for anything that is not written yet."""
        for spare in range(0, 1_000_000, 50_000):
            used = os.statvfs(self.folder)
            size = (used.f_blocks - used.f_bfree) * used.f_frsize + spare
            # More may have been written just now.
            with suppress(subprocess.CalledProcessError):
                _run("mount", "-o", f"remount,size={size}", str(self.folder))
                return

    def empty(self) -> None:
        _run("mount", "-o", f"remount,size={ROOM}", str(self.folder))

    def remove(self) -> None:
        _run("umount", "--lazy", str(self.folder))
        self.folder.rmdir()

    @contextmanager
    def holds_temporary_files(self) -> Iterator[None]:
        """Let what makes itself a temporary folder in the body make it on this disk."""
        before = tempfile.tempdir
        tempfile.tempdir = str(self.folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
