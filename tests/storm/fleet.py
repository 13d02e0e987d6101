"""The processes of a storm: started through a nursery, replaced when they end, found to be hit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import ROOT
from tests.storm import journal
from tests.storm.nursery import SETTINGS


class Nursery:
    """A process that forks those of a storm; with a prefix it lives elsewhere, as in a netns."""

    def __init__(self, environ: Mapping[str, str], log: Path, prefix: Sequence[str] = ()) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "tests.storm.nursery"],
                cwd=ROOT,
                env={**os.environ, **environ, "DJANGO_SETTINGS_MODULE": SETTINGS},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    def start(self, role: str, *arguments: str, **options: Any) -> int:
        """Start a process in one of the nursery's roles; return its id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wanted = {"role": role, "arguments": arguments, "options": options}
        self._process.stdin.write(f"{json.dumps(wanted)}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End all that was started here."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@dataclass
class Crew:
    """How many processes of one role there should be, and how each is started."""

    role: str
    size: int
    arguments: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    nursery: Nursery | None = None
    """Where its processes are born, if not where all others are."""
    pids: list[int] = field(default_factory=list)


class Fleet:
    """All crews of a storm. What ends is replaced at the next call of keep()."""

    def __init__(self, nursery: Nursery, seed: int) -> None:
        self._nursery, self._dice = nursery, random.Random(seed)
        self.crews: dict[str, Crew] = {}
        self.started = 0
        self.kills = 0

    def want(self, name: str, crew: Crew) -> None:
        self.crews[name] = crew

    def keep(self) -> None:
        """Start what is missing; options that are callables are asked for each process."""
        for crew in self.crews.values():
            crew.pids = [pid for pid in crew.pids if is_alive(pid)]
            while len(crew.pids) < crew.size:
                options = {
                    name: value(self._dice) if callable(value) else value
                    for name, value in crew.options.items()
                }
                nursery = crew.nursery or self._nursery
                crew.pids.append(nursery.start(crew.role, *crew.arguments, **options))
                self.started += 1

    def pids(self, name: str) -> list[int]:
        """Return the living processes of a crew, or with `children` those of its supervisors."""
        if name == "children":
            found = [child for pid in self.pids("supervisors") for child in children_of(pid)]
        else:
            found = self.crews[name].pids if name in self.crews else []
        return [pid for pid in found if is_alive(pid)]

    def workers(self) -> list[int]:
        """Return the processes that run jobs."""
        return self.pids("workers") + self.pids("workers elsewhere") + self.pids("children")

    def hit(self, pid: int, signum: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)
            if signum == signal.SIGKILL:
                self.kills += 1
                journal.write("killed", pid=pid)

    def wake_all(self) -> None:
        """Let nobody stand still any more."""
        for name in (*self.crews, "children"):
            for pid in self.pids(name):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def dismiss(self, *names: str, signum: signal.Signals = signal.SIGTERM) -> None:
        """Let crews go; they are not replaced any more."""
        for name in names:
            crew = self.crews.pop(name, None)
            for pid in crew.pids if crew else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signum)


def is_alive(pid: int) -> bool:
    """Say whether a process runs or is stopped; a dead one may still wait for its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def children_of(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill_all_of(path: Path) -> int:
    """Kill every process that keeps the journal at this path; return how many there were."""
    mark, killed = f"{journal.PATH}={path}\0".encode(), 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)
                killed += 1
    return killed
