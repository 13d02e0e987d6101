"""Tasks with the queue's own options, for the tests."""

import asyncio
import os
import time

from django.db import connection
from django.utils.translation import get_language

from django_sqlqueue import Abandon, Backoff, Defer, Retry, task
from django_sqlqueue.models import Job
from tests.testapp.models import Effect


def soon(exception, task_result):
    """Try again after as many hundredths of a second as there were attempts."""
    return task_result.attempts / 100


def only_lookups(exception, task_result):
    return 60 if isinstance(exception, LookupError) else None


def broken_backoff(exception, task_result):
    raise RuntimeError("no idea")


@task
def note(name):
    Effect.objects.create(name=name)


@task(max_attempts=3, backoff=soon, takes_context=True)
def succeed_on(context, attempt):
    if context.attempt < attempt:
        raise LookupError(f"not before {attempt}")
    return context.attempt


@task(max_attempts=3, backoff=only_lookups)
def fail_with(name):
    raise {"lookup": LookupError, "value": ValueError}[name](name)


@task
def fail_unspeakably():
    raise ValueError("nul \x00, surrogate \ud800")


@task(max_attempts=3, backoff=broken_backoff)
def fail_with_broken_backoff():
    raise LookupError


@task(max_attempts=3, backoff=Backoff(base=100, jitter=0))
def fail_slowly():
    raise LookupError


@task(max_attempts=2)
def sleep_first(seconds):
    """Sleep in the first attempt only."""
    Effect.objects.create(name="asleep", n=os.getpid())
    if Effect.objects.filter(name="asleep").count() == 1:
        time.sleep(seconds)
    return "awake"


@task(timeout=0.2)
def sleep(seconds):
    Effect.objects.create(name="asleep", n=os.getpid())
    for _ in range(int(seconds * 100)):
        time.sleep(0.01)


@task(dedup_key="the one", ref="library:1")
def alone(number=0):
    return number


@task(max_attempts=3)
def steer(how):
    if how == "defer":
        raise Defer(60)
    if how == "retry":
        raise Retry(0, "try again")
    raise Abandon("of no use")


@task(queue_name="letters", priority=-5)
def low(name):
    Effect.objects.create(name=name)


@task
def repeat(times):
    return "x" * times


@task
def forget(letter):
    """Return nothing."""


@task
def say_where():
    """Return what a function finds around it."""
    return {"in a transaction": connection.in_atomic_block, "in": get_language()}


@task
def end_by(name):
    """Raise what ends programs."""
    raise {"key": KeyboardInterrupt, "exit": SystemExit, "close": GeneratorExit}[name]


@task
async def ask_the_orm(how):
    """Use the ORM on the event loop; the sync one by mistake."""
    if how == "sync":
        return Effect.objects.count()
    await Effect.objects.acreate(name="asked")
    return await Effect.objects.filter(name="asked").acount()


@task(timeout=0.2)
async def sleep_on_loop(seconds):
    await asyncio.sleep(seconds)


@task
async def cancel_itself():
    raise asyncio.CancelledError


@task(max_attempts=2, backoff=soon, takes_context=True)
async def recover(context):
    """Fail once; then return what the second attempt knows of the first."""
    result = context.task_result
    if context.attempt == 1:
        raise LookupError
    return [context.attempt, len(result.errors), len(result.worker_ids)]


@task
async def never_wait():
    return "awaited"


@task
async def leave_behind():
    """Leave a task of the event loop behind, which would sleep for long."""
    left = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    return left.done()


@task(backend="any_queue", takes_context=True)
def name_the_backend(context):
    return context.task_result.backend


class Body:
    @task
    def in_a_class_body():
        """Its path cannot be imported."""


def plain():
    """A function that a task of another name wraps."""


renamed = task(plain)


@task(takes_context=True)
def wait_for_cancel(context):
    """Run until the job is asked to stop."""
    Effect.objects.create(name="asleep", n=os.getpid())
    job = Job.objects.get(pk=context.task_result.id.partition("-")[0])
    while not job.cancel_requested():
        time.sleep(0.02)
