"""Handlers that are coroutines: awaited, on the connection of the thread that runs them."""

import asyncio
import contextvars
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.utils import translation

from django_sqlqueue import Abandon, Backoff, Defer, Retry
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.handling import HandlingMixin
from tests.testapp.models import Effect

LEFT = contextvars.ContextVar("LEFT", default="nothing")


class Coroutines(HandlingMixin):
    def test_a_coroutine_is_awaited_and_its_result_stored(self):
        async def waits(job):
            await asyncio.sleep(0)
            return {"id": job.id}

        job = self.run_one(waits)
        self.assertEqual((job.status, job.result), ("done", {"id": job.id}))

    def test_one_that_never_awaits_is_run_all_the_same(self):
        async def never_awaits(job):
            seen.append(job.id)

        seen: list[int] = []
        job = self.run_one(never_awaits)
        self.assertEqual((job.status, seen), ("done", [job.id]))

    def test_the_async_orm_works(self):
        async def creates(job):
            await Effect.objects.acreate(name="by a coroutine", n=job.id)
            return await Effect.objects.acount()

        self.assertEqual(self.run_one(creates).result, 1)
        self.assertEqual(Effect.objects.get().name, "by a coroutine")

    def test_the_sync_orm_by_mistake_is_a_failure_like_any_other(self):
        async def mistaken(job):
            Effect.objects.create(name="never")

        job = self.run_one(mistaken)
        self.assertEqual(
            (job.status, job.last_error),
            ("ready", "django.core.exceptions.SynchronousOnlyOperation"),
        )
        self.assertEqual(Effect.objects.count(), 0)

    def test_sync_code_may_be_called_through_a_thread(self):
        async def creates(job):
            await sync_to_async(Effect.objects.create)(name="in a thread")

        self.assertEqual(self.run_one(creates).status, "done")
        self.assertEqual(Effect.objects.get().name, "in a thread")

    def test_its_outcomes_are_those_of_any_handler(self):
        cases: tuple[tuple[BaseException, tuple[str, int, str]], ...] = (
            (ValueError("secret"), ("ready", 1, "ValueError")),
            (Retry(5, "busy"), ("ready", 1, "busy")),
            (Defer(5), ("ready", 0, "")),
            (Abandon("enough"), ("failed", 1, "enough")),
            (SystemExit(1), ("failed", 1, "SystemExit")),
            (KeyboardInterrupt(), ("failed", 1, "KeyboardInterrupt")),
            (asyncio.CancelledError(), ("failed", 1, "asyncio.exceptions.CancelledError")),
            (TimeoutError(), ("ready", 1, "TimeoutError")),
        )
        for error, expected in cases:
            with self.subTest(repr(error)):

                async def fails(job, error=error):
                    await asyncio.sleep(0)
                    raise error

                job = self.run_one(fails, backoff=Backoff(60))
                self.assertEqual((job.status, job.attempts, job.last_error), expected)
                if error.__class__ not in (Defer,):
                    self.assertIn("fails", job.history.get().traceback)

    def test_tasks_that_it_leaves_behind_are_ended_with_it(self):
        async def leaves(job):
            seen.append(asyncio.create_task(forever()))
            await asyncio.sleep(0)

        async def forever():
            await asyncio.sleep(3600)

        seen: list[Any] = []
        self.assertEqual(self.run_one(leaves).status, "done")
        self.assertTrue(seen[0].cancelled())

    def test_its_context_does_not_leak(self):
        async def leaves(job):
            seen.append((LEFT.get(), translation.get_language()))
            LEFT.set("something")
            translation.activate("de")

        seen: list[Any] = []
        self.handle(leaves)
        self.enqueue()
        self.enqueue()
        self.assertEqual(run_jobs(), 2)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(LEFT.get(), "nothing")

    def test_a_function_that_returns_a_coroutine_is_awaited_too(self):
        async def inner(job):
            return "awaited"

        self.assertEqual(self.run_one(lambda job: inner(job)).result, "awaited")

    def test_an_atomic_coroutine_takes_back_its_effects_when_it_fails(self):
        async def fails(job):
            await Effect.objects.acreate(name="never")
            raise ValueError

        self.assertEqual(self.run_one(fails, atomic=True).last_error, "ValueError")
        self.assertEqual(Effect.objects.count(), 0)

    def test_an_atomic_coroutine_commits_with_its_completion(self):
        async def creates(job):
            await Effect.objects.acreate(name="with the job")
            return "done"

        job = self.run_one(creates, atomic=True)
        self.assertEqual((job.status, job.result), ("done", "done"))
        self.assertEqual(Effect.objects.count(), 1)


class CoroutinesInTestCase(Coroutines, TestCase):
    pass


class CoroutinesInTransactionTestCase(Coroutines, TransactionTestCase):
    def test_an_open_transaction_is_left_also_after_a_coroutine(self):
        async def leaves(job):
            await sync_to_async(transaction.atomic().__enter__)()
            await Effect.objects.acreate(name="never")

        self.assertEqual(self.run_one(leaves).status, "done")
        self.assertFalse(connection.in_atomic_block)
        self.assertEqual((Effect.objects.count(), Job.objects.count()), (0, 1))
