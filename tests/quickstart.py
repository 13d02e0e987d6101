"""Starts Python processes for tests in a third of the time: as forks of one that knows Django.

`python -m tests.quickstart FD` takes requests from the other end of that socket. Each start is a
process of its own, in a session of its own, that goes on as `python -m MODULE ...` or
`python SCRIPT ...` would; only the import of the libraries lies behind it already.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LIBRARIES = (
    "asyncio", "django.contrib.admin", "django.core.management", "django.core.servers.basehttp",
    "django.test", "django.utils.autoreload", "django.db.backends.sqlite3.base",
    "django.db.backends.postgresql.base", "django.db.backends.mysql.base",
)  # fmt: skip
"""What most processes need and can be imported before there are settings."""
AT_START = ("LD_", "LC_", "LANG", "MALLOC", "PYTHON", "TZ")
"""Beginnings of variables that a process has to know from its first moment."""
UNKNOWN = 255
"""The exit code of a process of which nobody knows how it has ended."""
LONGEST = 200_000
"""Bytes of a request; the socket takes so many at once."""
SHOW_STACKS = signal.SIGUSR2
"""The signal at which a process prints where each of its threads is."""


class Server:
    """The process that is forked, at the end of a socket."""

    def __init__(self) -> None:
        self._lock, self._environ = threading.Lock(), dict(os.environ)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.quickstart", str(theirs.fileno())],
                cwd=Path(__file__).resolve().parent.parent,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def can_start(self, arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
        """Say whether such a process may be a fork: it must begin as the server did."""
        changed = {name for name, _ in set(environ.items()) ^ set(self._environ.items())}
        changed -= {"PYTHONUNBUFFERED"}
        is_known = arguments[0] == "-m" or arguments[0].endswith(".py")
        return is_known and not any(name.startswith(AT_START) for name in changed)

    def start(
        self, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, output: int
    ) -> Fork:
        """Start `python *arguments`, which writes to the file descriptor `output`."""
        request = {"arguments": list(arguments), "environ": dict(environ), "cwd": str(cwd)}
        ours, theirs = os.pipe()
        try:
            with self._lock:
                message = json.dumps(request).encode()
                socket.send_fds(self._channel, [message], [output, theirs])
                pid = int(self._channel.recv(100))
        finally:
            os.close(theirs)
        return Fork(list(arguments), pid, ours)

    def close(self) -> None:
        self._channel.close()
        self._popen.wait(30)


class Fork:
    """A started process, with what tests ask of a subprocess.Popen."""

    def __init__(self, args: list[str], pid: int, end: int) -> None:
        self.args, self.pid, self._end = args, pid, end
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            said = os.read(self._end, 100)
            os.close(self._end)
            # Nothing is said where the server has ended.
            self.returncode = int(said) if said else UNKNOWN
        return self.returncode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            # It may have ended since.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def show_stacks(self) -> None:
        """Let it print where each of its threads is."""
        self.send_signal(SHOW_STACKS)
        time.sleep(0.5)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    for name in LIBRARIES:
        # A driver that is not here is not needed.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    request, output = serve(channel)
    become(**request, output=output)


def serve(channel: socket.socket) -> tuple[dict[str, Any], int]:
    """Fork for each request until the other end is closed; return in each child."""
    children: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), *children], [], [])
        for descriptor in set(ready) - {channel.fileno()}:
            report_end(*children.pop(descriptor))
            os.close(descriptor)
        if channel.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(channel, LONGEST, 2)
        if not message:
            os._exit(0)
        output, end = descriptors
        pid = os.fork()
        if not pid:
            os.setsid()
            channel.send(str(os.getpid()).encode())
            others = [part for pidfd, (_, other) in children.items() for part in (pidfd, other)]
            for descriptor in (channel.detach(), end, *others):
                os.close(descriptor)
            return json.loads(message), output
        os.close(output)
        children[os.pidfd_open(pid)] = pid, end


def report_end(pid: int, end: int) -> None:
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(end)


def become(arguments: list[str], environ: dict[str, str], cwd: str, output: int) -> None:
    """Go on as `python *arguments`."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdout, sys.stderr = unbuffered(1, "strict"), unbuffered(2, "backslashreplace")
    faulthandler.register(SHOW_STACKS)
    sys.orig_argv = [sys.executable, *arguments]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = cwd
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).parent)
        runpy.run_path(arguments[0], run_name="__main__")


def unbuffered(descriptor: int, errors: str) -> io.TextIOWrapper:
    raw: Any = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


if __name__ == "__main__":
    main()
