"""A queue that is paused or resumed while a worker runs: it heeds that within a second or so."""

import time

import pytest

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job, PausedQueue
from tests.processes import wait_until
from tests.worker.base import WorkerTestCase

pytestmark = pytest.mark.processes

POLL = 1.0


class PausingTests(WorkerTestCase):
    def test_nothing_more_starts_within_a_second_and_it_goes_on_within_a_poll(self):
        Job.objects.enqueue_many([NewJob("worker.sleep", 0.05, queue="mail")] * 3000)
        worker = self.start("--poll", str(POLL))
        started = Job.objects.filter(queue="mail", started_at__isnull=False)
        wait_until(lambda: started.count() > 20)
        PausedQueue.objects.pause("mail")
        paused_at = self.now()
        self.wait_for("done", self.enqueue("worker.noop"))
        time.sleep(2)
        latest = started.latest("started_at")
        self.assertLess((latest.started_at - paused_at).total_seconds(), 1)
        PausedQueue.objects.resume("mail")
        resumed_at = self.now()
        again = started.filter(started_at__gt=latest.started_at)
        wait_until(again.exists)
        first = again.earliest("started_at")
        self.assertLess((first.started_at - resumed_at).total_seconds(), POLL + 1)
        Job.objects.filter(status="ready").cancel()
        self.end(worker)

    def now(self):
        return Job.objects.all().engine.now()
