"""Coroutine handlers run side by side on one event loop, each awaited to its end."""

import asyncio
import threading
import time
from contextlib import suppress
from unittest import mock

import pytest
from django.test import override_settings

from django_sqlqueue.models import Job
from tests.processes import wait_until
from tests.testapp.models import Effect
from tests.worker.base import RunnerTestCase, WorkerTestCase


class CoroutineTests(RunnerTestCase):
    def setUp(self):
        super().setUp()
        self.running = 0
        self.open = False

        async def wait(job):
            self.running += 1
            while not self.open:
                await asyncio.sleep(0.02)
            self.running -= 1
            return "awaited"

        self.handle("t.wait", wait)
        self.handle("t.noop", lambda job: None)

    def enqueue_many(self, kind, number):
        Job.objects.enqueue_many((kind, None) for _ in range(number))
        return list(Job.objects.filter(kind=kind))

    def test_a_hundred_wait_at_once_and_hold_no_thread(self):
        jobs = self.enqueue_many("t.wait", 103)
        self.start(threads=4, lease=1)
        wait_until(lambda: self.running == 100, 30)
        self.wait_for("done", self.enqueue("t.noop"))
        self.assertEqual((self.running, self.count("running")), (100, 100))
        first = Job.objects.earliest("id").lease_until
        wait_until(lambda: Job.objects.earliest("id").lease_until > first, 10)
        self.open = True
        self.wait_for("done", *jobs)
        self.assertEqual({(job.attempts, job.result) for job in jobs}, {(1, "awaited")})

    def test_their_number_is_an_option(self):
        self.enqueue_many("t.wait", 5)
        self.start(coroutines=2)
        wait_until(lambda: self.running == 2)
        self.wait_for("done", self.enqueue("t.noop"))
        self.assertEqual(self.running, 2)
        self.open = True
        wait_until(lambda: self.count("done") == 6, 30)

    @override_settings(SQLQUEUE={"UNKNOWN_KINDS": "fail"})
    def test_they_hold_no_thread_where_unknown_kinds_are_failed(self):
        self.enqueue_many("t.wait", 10)
        unknown = self.enqueue("t.unknown")
        self.start(threads=1)
        wait_until(lambda: self.running == 10)
        self.wait_for("failed", unknown)
        self.assertEqual(unknown.last_error, "no_handler")
        self.open = True

    def test_full_threads_do_not_hold_them_up(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.handle("t.thread", lambda job: gate.wait(30) and None)
        self.enqueue_many("t.thread", 3)
        self.start(threads=1)
        wait_until(lambda: self.count("running") == 1)
        self.enqueue_many("t.wait", 2)
        wait_until(lambda: self.running == 2)
        self.open = True
        gate.set()

    def test_one_that_blocks_the_loop_blocks_neither_threads_nor_renewal(self):
        async def blocks(job):
            time.sleep(2.5)

        self.handle("t.blocks", blocks)
        blocking = self.enqueue("t.blocks")
        self.start(lease=1)
        wait_until(lambda: self.count("running") == 1)
        other = self.enqueue("t.noop")
        self.wait_for("done", other)
        self.assertEqual(Job.objects.get(pk=blocking.pk).status, "running")
        self.wait_for("done", blocking)
        self.assertEqual((blocking.attempts, blocking.claims), (1, 1))

    def test_tasks_left_behind_are_ended_with_the_job(self):
        ended = []

        async def lingers():
            try:
                await asyncio.sleep(600)
            finally:
                ended.append(True)

        async def leaves(job):
            job.task = asyncio.create_task(lingers())
            await asyncio.sleep(0)

        self.handle("t.leaves", leaves)
        job = self.enqueue("t.leaves")
        self.start()
        self.wait_for("done", job)
        self.assertEqual(ended, [True])

    def test_a_task_that_raises_system_exit_leaves_the_loop_running(self):
        async def exits():
            raise SystemExit

        async def leaves(job):
            job.task = asyncio.create_task(exits())
            await asyncio.sleep(0.05)

        self.handle("t.leaves", leaves)
        first = self.enqueue("t.leaves")
        self.start()
        self.wait_for("done", first)
        self.open = True
        self.wait_for("done", self.enqueue("t.wait"))

    def test_what_they_raise_is_classified_as_in_threads(self):
        async def fails(job):
            raise {"exit": SystemExit, "key": KeyError, "cancel": asyncio.CancelledError}[
                job.payload
            ]

        self.handle("t.fails", fails, max_attempts=1)
        jobs = [self.enqueue("t.fails", what) for what in ("exit", "key", "cancel")]
        self.start()
        self.wait_for("failed", *jobs)
        self.assertEqual(
            [job.last_error for job in jobs],
            ["SystemExit", "KeyError", "asyncio.exceptions.CancelledError"],
        )

    def test_the_async_orm_works_and_the_sync_orm_is_an_ordinary_failure(self):
        async def right(job):
            await Effect.objects.acreate(name="right")

        async def wrong(job):
            Effect.objects.create(name="wrong")

        self.handle("t.right", right)
        self.handle("t.wrong", wrong, max_attempts=1)
        right_job, wrong_job = self.enqueue("t.right"), self.enqueue("t.wrong")
        self.start()
        self.wait_for("done", right_job)
        self.wait_for("failed", wrong_job)
        self.assertEqual(wrong_job.last_error, "django.core.exceptions.SynchronousOnlyOperation")
        self.assertEqual(list(Effect.objects.values_list("name", flat=True)), ["right"])

    def test_one_over_its_time_is_cancelled(self):
        ended = []

        async def slow(job):
            try:
                await asyncio.sleep(600)
            finally:
                ended.append(True)

        self.handle("t.slow", slow, timeout=0.2, max_attempts=1)
        job = self.enqueue("t.slow")
        self.start()
        self.wait_for("failed", job)
        self.assertEqual((job.last_error, ended), ("timeout", [True]))

    def test_one_that_ends_well_after_its_time_is_done(self):
        async def tidies_up(job):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(600)
            return "tidy"

        self.handle("t.tidy", tidies_up, timeout=0.2)
        job = self.enqueue("t.tidy")
        self.start()
        self.wait_for("done", job)
        self.assertEqual(job.result, "tidy")

    def test_a_stop_gives_back_those_that_go_on_and_ends_them(self):
        jobs = self.enqueue_many("t.wait", 3)
        runner = self.start(grace=0.2)
        wait_until(lambda: self.running == 3)
        self.stop(runner)
        self.wait_for("ready", *jobs)
        self.assertEqual({job.attempts for job in jobs}, {0})
        self.assertFalse(runner.coroutines.is_alive())

    def test_an_error_of_the_worker_s_own_code_is_a_failed_attempt(self):
        job = self.enqueue("t.wait", max_attempts=1)
        with mock.patch(
            "django_sqlqueue.execution.attempt_coroutine", side_effect=ImportError("of the worker")
        ):
            self.start()
            self.wait_for("failed", job)
        self.assertEqual(job.last_error, "ImportError")
        self.open = True
        self.wait_for("done", self.enqueue("t.wait"))


@pytest.mark.processes
class HungCoroutineTests(WorkerTestCase):
    def test_one_that_will_not_end_is_settled_without_and_its_process_replaced(self):
        hung = self.enqueue("worker.stubborn_coroutine", max_attempts=1)
        worker = self.start()
        self.wait_for("failed", hung)
        self.assertEqual(hung.last_error, "timeout")
        wait_until(lambda: "replaced by a fresh process" in worker.output)
        late = self.enqueue("worker.noop")
        self.wait_for("done", late)
        self.end(worker)
