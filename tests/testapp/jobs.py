"""Handlers for the tests; found at start-up like any app's."""

import time

from django_sqlqueue import handler
from tests.testapp.models import Effect


@handler("testapp.noop")
def noop(job):
    return None


@handler("testapp.record")
def record(job):
    Effect.objects.create(name=job.payload["name"], n=job.payload.get("n", 0))


@handler("testapp.fail", max_attempts=1)
def fail(job):
    raise RuntimeError("as asked")


@handler("testapp.sleep")
def sleep(job):
    Effect.objects.create(name="started", n=job.id)
    time.sleep(job.payload["seconds"])
    Effect.objects.create(name="finished", n=job.id)


@handler("testapp.options", queue="mail", priority=7, max_attempts=3)
def options(job):
    return job.payload


@handler("testapp.clock")
def clock(job):
    return time.time()


@handler("testapp.wait")
def wait(job):
    time.sleep(job.payload["seconds"])
