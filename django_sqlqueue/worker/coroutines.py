"""The event loop on which coroutine handlers run side by side, not one per thread."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from .. import execution
from ..isolation import check_before_use, tidy_connections
from ..policy import Outcome
from .attempts import Attempts
from .patience import close_connections

if TYPE_CHECKING:
    from ..models import Job

_children: contextvars.ContextVar[set[asyncio.Task[Any]]] = contextvars.ContextVar("children")


class Coroutines(threading.Thread):
    """One thread with one event loop; `limit` bounds how many jobs run on it."""

    def __init__(self, limit: int, attempts: Attempts) -> None:
        super().__init__(name="sqlqueue-coroutines", daemon=True)
        self.limit = limit
        self._attempts = attempts
        self._running = 0
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(_remember_child)

    def room(self) -> int:
        return self.limit - self._running

    def feed(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._running += 1
            self._attempts.add(job)
            self._loop.call_soon_threadsafe(self._begin, job)

    def finish(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(sync_to_async(close_connections)())
        finally:
            self._loop.close()

    def _begin(self, job: Job) -> None:
        contextvars.Context().run(self._loop.create_task, self._run(job))

    async def _run(self, job: Job) -> None:
        started = time.monotonic()
        children: set[asyncio.Task[Any]] = set()
        _children.set(children)
        task = asyncio.current_task()
        timed_out = False

        def interrupt() -> None:
            nonlocal timed_out
            timed_out = True
            if task is not None:
                self._loop.call_soon_threadsafe(task.cancel)

        watch = self._attempts.watch(job, interrupt)
        try:
            await sync_to_async(check_before_use)()
            outcome: Outcome | None = await execution.attempt_coroutine(job)
        except BaseException as error:
            outcome = self._attempts.broke(job, error)
        if timed_out:
            outcome = execution.timed_out(job)
        await self._tidy(children)
        self._running -= 1
        if watch is not None:
            in_time = watch.finish()
            self._attempts.timeouts.forget(watch)
            if not in_time:
                return
        self._attempts.end(job, outcome, started)

    async def _tidy(self, children: set[asyncio.Task[Any]]) -> None:
        """End the tasks that the handler left behind, and what it left in connections."""
        left = [task for task in children if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1)
        await sync_to_async(tidy_connections)()


def _remember_child(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **kwargs: Any
) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **kwargs)
    children = _children.get(None)
    if children is not None:
        children.add(task)
        task.add_done_callback(children.discard)
    return task
