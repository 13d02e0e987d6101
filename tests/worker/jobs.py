"""Handlers that wait, hang, crash and misbehave, for worker processes under test."""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress

from django_sqlqueue import handler
from django_sqlqueue.exceptions import JobTimeout
from tests.testapp.models import Effect


def note(name, job):
    Effect.objects.create(name=name, n=job.id)


@handler("worker.noop")
def noop(job):
    return {"pid": os.getpid()}


@handler("worker.gate")
def gate(job):
    """Wait for the gate of this attempt, or of the job, to be opened by an Effect."""
    note("started", job)
    while not Effect.objects.filter(name__in=(f"open {job.attempts}", "open"), n=job.id).exists():
        time.sleep(0.05)
    return {"pid": os.getpid()}


@handler("worker.sleep")
def sleep(job):
    note("started", job)
    time.sleep(job.payload)
    return {"pid": os.getpid()}


@handler("worker.ignore")
def ignore(job):
    """Never end, whatever is raised."""
    note("started", job)
    while True:
        with suppress(BaseException):
            time.sleep(0.05)


@handler("worker.stubborn", timeout=0.5)
def stubborn(job):
    """Never end, although the time is over."""
    note("started", job)
    while True:
        with suppress(JobTimeout):
            time.sleep(0.05)


@handler("worker.stubborn_atomic", timeout=0.5, atomic=True)
def stubborn_atomic(job):
    """Never end, and hold what was written."""
    Effect.objects.filter(name="wanted").update(n=job.id)
    while True:
        with suppress(JobTimeout):
            time.sleep(0.05)


@handler("worker.kill")
def kill(job):
    note("started", job)
    os.kill(os.getpid(), signal.SIGKILL)


@handler("worker.exit")
def exit_at_once(job):
    note("started", job)
    os._exit(0)


@handler("worker.segfault")
def segfault(job):
    note("started", job)
    ctypes.string_at(0)


@handler("worker.sys_exit")
def sys_exit(job):
    sys.exit(job.payload)


@handler("worker.forks")
def forks(job):
    """Fork a process and end it by the signal that would stop the worker."""
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    time.sleep(0.2)
    os.kill(child, signal.SIGTERM)
    time.sleep(0.2)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@handler("worker.ends_thread")
def ends_thread(job):
    """Let one of the worker's own threads die of what it was never to meet."""
    (thread,) = (each for each in threading.enumerate() if each.name == job.payload)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
    )


@handler("worker.leaves_thread")
def leaves_thread(job):
    threading.Thread(target=time.sleep, args=(600,)).start()


@handler("worker.stubborn_coroutine", timeout=0.5)
async def stubborn_coroutine(job):
    """Block the event loop for ever."""
    time.sleep(600)
