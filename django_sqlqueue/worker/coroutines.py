"""The event loop on which coroutine handlers run side by side, not one per thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from .. import execution, reasons
from ..isolation import tidy_own_connections
from ..policy import Claim, Outcome, claim_of
from .attempts import Attempts
from .patience import close_connections

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")

_children: contextvars.ContextVar[set[asyncio.Task[Any]]] = contextvars.ContextVar("children")


class Coroutines(threading.Thread):
    """One thread with one event loop; `limit` bounds how many jobs run on it."""

    def __init__(self, limit: int, attempts: Attempts) -> None:
        super().__init__(name="sqlqueue-coroutines", daemon=True)
        self.limit = limit
        self._attempts = attempts
        self.taken: set[Claim] = set()
        self._stopped = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(_remember_child)  # type: ignore[arg-type, unused-ignore]

    def room(self) -> int:
        return max(0, self.limit - len(self.taken))

    def feed(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.taken.add(claim_of(job))
            self._loop.call_soon_threadsafe(self._begin, job)

    def finish(self) -> None:
        self._stopped.set()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._stopped.is_set():
                self._serve()
            self._loop.run_until_complete(_end_tasks(asyncio.all_tasks(self._loop)))
            self._loop.run_until_complete(sync_to_async(close_connections)())
        finally:
            self._loop.close()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        except BaseException as error:
            # asyncio lets SystemExit and KeyboardInterrupt of any task through.
            log.error("A task on the event loop raised %s.", reasons.class_path(type(error)))

    def _begin(self, job: Job) -> None:
        contextvars.Context().run(self._loop.create_task, self._run(job))

    async def _run(self, job: Job) -> None:
        started = time.monotonic()
        counts = True
        try:
            outcome, counts = await self._attempt(job)
        except BaseException as error:
            outcome = self._attempts.broke(job, error)
        self.taken.discard(claim_of(job))
        if counts:
            self._attempts.end(job, outcome, started)

    async def _attempt(self, job: Job) -> tuple[Outcome | None, bool]:
        """Return the outcome of the attempt, and whether it still counts."""
        children: set[asyncio.Task[Any]] = set()
        _children.set(children)
        # A task of its own, so that a cancellation never hits what comes after the handler.
        task = self._loop.create_task(execution.attempt_coroutine(job))
        children.discard(task)
        watch = self._attempts.watch(job, lambda: self._cancel(job, task))
        await asyncio.wait([task])
        outcome = execution.timed_out(job) if task.cancelled() else task.result()
        await _tidy(children)
        if watch is None:
            return outcome, True
        self._attempts.timeouts.forget(watch)
        return outcome, watch.finish(self)

    def _cancel(self, job: Job, task: asyncio.Task[Any]) -> None:
        job.__dict__["_timed_out"] = True
        self._loop.call_soon_threadsafe(task.cancel)


async def _tidy(children: set[asyncio.Task[Any]]) -> None:
    """End the tasks that the handler left behind, and what it left in connections."""
    if left := [task for task in children if not task.done()]:
        await _end_tasks(left)
    await sync_to_async(tidy_own_connections)()


async def _end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    others = [task for task in tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=1)


def _remember_child(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **kwargs: Any
) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **kwargs)
    children = _children.get(None)
    if children is not None:
        children.add(task)
        task.add_done_callback(children.discard)
    return task
