"""The name of a runner, and what it proves about a runner that is gone."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

_living: set[str] = set()
"""The tokens of the runners in this very process; one made before an exec is not among them."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Where and when a runner's process started; `token` is fresh for each start."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: str
    token: str

    @classmethod
    def of_this_process(cls) -> Identity:
        """Return a new identity, unique also after a process has replaced itself."""
        token = uuid.uuid4().hex[:12]
        _living.add(token)
        pid = os.getpid()
        return cls(_host(), _boot(), _namespace(), pid, _started(pid), token)

    @classmethod
    def parse(cls, owner: str) -> Identity | None:
        """Return the identity in a lease_owner, or None where a runner of ours did not make it."""
        parts = owner.split("|")
        if len(parts) != 6 or not parts[3].isdigit():
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), parts[4], parts[5])

    def __str__(self) -> str:
        return "|".join(
            (self.host, self.boot, self.namespace, str(self.pid), self.started, self.token)
        )

    def is_provably_dead(self) -> bool:
        """Say whether no process of this machine can be that runner any more.

        False where it ran on another machine, before another boot, or in another namespace of
        process ids, and wherever that cannot be told: those wait for their lease.
        """
        here = (_host(), _boot(), _namespace())
        if "" in here or here != (self.host, self.boot, self.namespace) or not self.started:
            return False
        started = _started(self.pid)
        if started != self.started:
            return bool(started) or not _is_hidden(self.pid)
        return self.pid == os.getpid() and self.token not in _living

    def retire(self) -> None:
        """Say that this runner is over although its process lives on."""
        _living.discard(self.token)


def _host() -> str:
    return socket.gethostname().replace("|", "_")[:60]


def _boot() -> str:
    return _read("/proc/sys/kernel/random/boot_id").replace("-", "")[:16]


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process started, in ticks since the boot; "" where there is no such process.

    A process that has ended but is not yet waited for runs nothing: it counts as gone.
    """
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _is_hidden(pid: int) -> bool:
    """Say whether there is such a process that this user may not look at."""
    if _read(f"/proc/{pid}/stat"):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
