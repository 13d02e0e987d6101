"""The parent of several worker processes: it starts, watches and replaces them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from .bell import Bell
from .stopping import FORCE, Stop

log = logging.getLogger("django_sqlqueue")

PIPES = "SQLQUEUE_SUPERVISOR"
"""The environment variable by which a child knows its pipes to the parent."""
READY, RECYCLE, BYE = b"r", b"c", b"b"
STARTING = 60.0
"""Seconds that a child may take until it is ready."""
SHORT_LIVED, LONGEST_PAUSE = 5.0, 30.0
LAST_WORDS = 8.0
"""Seconds that a child has to give its jobs back after a second request."""


@dataclass(slots=True)
class Child:
    """One worker process, and what it has said."""

    process: subprocess.Popen
    status: int
    started: float
    said: bytes = b""

    def listen(self) -> None:
        try:
            while heard := os.read(self.status, 64):
                self.said += heard
        except BlockingIOError:
            pass

    @property
    def is_hung(self) -> bool:
        """Has it not become ready in its time?"""
        return READY not in self.said and time.monotonic() - self.started > STARTING


class Supervisor:
    """Keeps a number of children running until it is asked to stop or they are all done."""

    def __init__(self, processes: int, grace: float) -> None:
        self._grace = grace
        self._bell = Bell()
        self.stop = Stop(self._bell)
        self._slots: list[Child | None] = [None] * processes
        self._pauses = [0.0] * processes
        self._start_at = [0.0] * processes
        self._done = [False] * processes
        # The children read this pipe; that it ends tells them that the parent is gone.
        self._alive_for_children, self._alive = os.pipe()

    def run(self) -> int:
        """Supervise; return the exit code: 0 unless stopped by force."""
        self.stop.listen()
        while not all(self._done) and not self.stop.requested:
            for number, child in enumerate(self._slots):
                self._look_after(number, child)
            self._bell.wait(0.1)
        self._send(signal.SIGTERM)
        self._wait(self._grace + 5, lambda: self.stop.forced)
        if self.stop.forced:
            self._send(FORCE)
            self._wait(LAST_WORDS)
        killed = self._kill_the_rest()
        self.stop.restore()
        return 1 if self.stop.forced or killed else 0

    def _look_after(self, number: int, child: Child | None) -> None:
        if self._done[number]:
            return
        if child is None:
            if time.monotonic() >= self._start_at[number]:
                self._slots[number] = self._spawn()
            return
        child.listen()
        if child.is_hung:
            log.error("Worker process %d does not become ready; it is replaced.", child.process.pid)
            child.process.kill()
            child.process.wait()
        if child.process.poll() is not None:
            child.listen()
            self._slots[number] = None
            os.close(child.status)
            self._judge(number, child)

    def _judge(self, number: int, child: Child) -> None:
        """Decide what the end of a child means: done, to be replaced, or to be paused first."""
        if BYE in child.said:
            self._done[number] = True
            return
        if RECYCLE in child.said:
            self._start_at[number] = 0.0
            return
        lived = time.monotonic() - child.started
        pause = self._pauses[number]
        pause = 0.0 if lived > SHORT_LIVED else min(max(2 * pause, 0.5), LONGEST_PAUSE)
        self._pauses[number], self._start_at[number] = pause, time.monotonic() + pause
        log.error(
            "Worker process %d ended unasked (exit code %s); it is replaced.",
            child.process.pid,
            child.process.returncode,
        )

    def _spawn(self) -> Child:
        heard, said = os.pipe()
        os.set_blocking(heard, False)
        process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, PIPES: f"{self._alive_for_children},{said}"},
            pass_fds=(self._alive_for_children, said),
            # Ctrl-C at a terminal must reach the parent alone, which passes it on.
            process_group=0,
        )
        os.close(said)
        return Child(process, heard, time.monotonic())

    def _send(self, signum: signal.Signals) -> None:
        for child in filter(None, self._slots):
            child.process.send_signal(signum)

    def _wait(self, seconds: float, otherwise: Callable[[], bool] = bool) -> None:
        """Wait until the children have ended, at most so long and until otherwise() is true."""
        until = time.monotonic() + seconds
        while self._running() and time.monotonic() < until and not otherwise():
            self._bell.wait(0.05)

    def _running(self) -> list[Child]:
        return [child for child in self._slots if child and child.process.poll() is None]

    def _kill_the_rest(self) -> list[Child]:
        left = self._running()
        for child in left:
            log.error("Worker process %d does not end; it is killed.", child.process.pid)
            child.process.kill()
            child.process.wait()
        return left


class Parent:
    """What a child knows of its supervisor, if it has one."""

    def __init__(self) -> None:
        pipes = os.environ.pop(PIPES, "")
        self.exists = bool(pipes)
        if self.exists:
            self._alive, self._status = map(int, pipes.split(","))
            os.set_inheritable(self._alive, False)
            os.set_inheritable(self._status, False)

    def say(self, word: bytes) -> None:
        if self.exists:
            try:
                os.write(self._status, word)
            except OSError:
                self.exists = False

    def watch(self, when_gone: Callable[[], None]) -> None:
        """Call `when_gone` when the parent has ended, however it ended."""
        if not self.exists:
            return

        def wait() -> None:
            os.read(self._alive, 1)
            log.warning("The parent process is gone; worker %d stops.", os.getpid())
            when_gone()

        threading.Thread(target=wait, name="sqlqueue-parent", daemon=True).start()
