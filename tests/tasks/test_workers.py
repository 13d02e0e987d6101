"""What the framework asks of a worker, sentence by sentence, through real runjobs processes."""

import json
from asyncio import CancelledError
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_sqlqueue.backend import exceptions as reasons
from django_sqlqueue.backend.marks import mark_of
from django_sqlqueue.exceptions import JobTimeout
from django_sqlqueue.models import Job
from tests.processes import ProcessTestCase, spawn, wait_until
from tests.tasks import work
from tests.tasks.post import tasks as post
from tests.tasks.post.framework import (
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from tests.testapp.models import Effect

pytestmark = pytest.mark.processes

READY, FAILED = TaskResultStatus.READY, TaskResultStatus.FAILED
SUCCESSFUL = TaskResultStatus.SUCCESSFUL


class WorkerTestCase(ProcessTestCase):
    def start(self, *arguments, **environ):
        return spawn("runjobs", *arguments, env=environ, settings="tests.tasks.observed")

    def drain(self, *arguments, **environ):
        worker = self.start("--drain", *arguments, **environ)
        assert worker.wait(60) == 0, worker.output
        return worker

    def effects(self, *names):
        return list(Effect.objects.filter(name__in=names).order_by("pk").values_list("name", "n"))


class CallTests(WorkerTestCase):
    def test_what_a_function_is_called_with_and_what_becomes_of_its_end(self):
        context = post.number.enqueue(5)
        where = work.say_where.enqueue()
        nothing = work.note.enqueue("noted")
        ends = [work.end_by.enqueue(name) for name in ("key", "exit", "close")]
        elsewhere = work.name_the_backend.enqueue()
        asked, mistaken = work.ask_the_orm.enqueue("async"), work.ask_the_orm.enqueue("sync")
        unwaited, left = work.never_wait.enqueue(), work.leave_behind.enqueue()
        many = post.frank.enqueue_many([([n], {}) for n in range(3)])
        last = post.weigh.using(priority=-100).enqueue([1])
        self.drain("--threads", "1")
        for result in (
            context, where, nothing, *ends, elsewhere, asked, mistaken, unwaited, left, *many, last,
        ):  # fmt: skip
            result.refresh()

        # The context comes first, and is no argument of the result.
        assert (context.return_value, context.args) == ([context.id, 6], [5])
        # It is called outside any transaction.
        assert where.return_value["in a transaction"] is False
        assert (nothing.status, nothing.return_value) == (SUCCESSFUL, None)
        # What ends programs ends one task, and the worker goes on.
        assert [result.errors[0].exception_class for result in ends] == [
            KeyboardInterrupt, SystemExit, GeneratorExit,
        ]  # fmt: skip
        assert {result.status for result in ends} == {FAILED}
        assert last.status == SUCCESSFUL
        # One worker serves every backend of the project.
        assert elsewhere.return_value == elsewhere.backend == "any_queue"
        assert [result.return_value for result in many] == [[n, "blue"] for n in range(3)]

        # A coroutine is awaited, whatever it does.
        assert asked.return_value == 1
        assert mistaken.errors[0].exception_class is SynchronousOnlyOperation
        assert unwaited.return_value == "awaited"
        assert left.return_value is False
        assert nothing.worker_ids == context.worker_ids == asked.worker_ids

    def test_coroutines_end_as_functions_do(self):
        slow, cancelled = work.sleep_on_loop.enqueue(60), work.cancel_itself.enqueue()
        recovering = work.recover.enqueue()
        self.start()
        for result in (slow, cancelled, recovering):
            wait_until(lambda job=result: job.refresh() or job.is_finished, 30)
        assert [error.exception_class for error in slow.errors] == [JobTimeout]
        assert [error.exception_class for error in cancelled.errors] == [CancelledError]
        assert (slow.status, cancelled.status) == (FAILED, FAILED)
        assert (recovering.status, recovering.return_value) == (SUCCESSFUL, [2, 1, 2])
        assert recovering.attempts == 2

    def test_messages_are_stored_where_the_project_wants_them(self):
        lost, unspeakable = post.lose.enqueue("my letter"), work.fail_unspeakably.enqueue()
        self.drain(TEST_SQLQUEUE=json.dumps({"STORE_MESSAGES": True}))
        lost.refresh()
        unspeakable.refresh()
        assert lost.errors[0].traceback.startswith("Traceback (most recent call last):\n")
        assert lost.errors[0].traceback.endswith("LookupError: no trace of my letter\n")
        assert "ValueError: nul \\x00, surrogate \\ud800\n" in unspeakable.errors[0].traceback

    def test_without_time_zones_all_times_are_naive(self):
        with override_settings(USE_TZ=False):
            moment = datetime(2030, 1, 1)  # noqa: DTZ001
            post.weigh.using(run_after=moment).enqueue([1])
            failed, good = work.fail_slowly.enqueue(), post.weigh.enqueue([1])
            self.drain(TEST_USE_TZ="no")
            for result in (failed, good):
                result.refresh()
                times = (result.enqueued_at, result.started_at, result.last_attempted_at)
                assert all(timezone.is_naive(time) for time in times)
            assert timezone.is_naive(good.finished_at)
            again = post.weigh.get_result(good.id)
            assert (again.status, again.started_at) == (SUCCESSFUL, good.started_at)
        # A project that turns time zones on reads what was stored without.
        failed.refresh()
        assert failed.started_at.tzinfo is UTC


class ChoiceTests(WorkerTestCase):
    def test_only_the_queues_that_are_served(self):
        here, there = work.low.enqueue("served"), work.note.enqueue("not served")
        self.drain("--queue", "letters")
        here.refresh()
        there.refresh()
        assert (here.status, there.status) == (SUCCESSFUL, READY)

    def test_not_before_its_time_and_then_at_it(self):
        later = post.weigh.using(run_after=timedelta(hours=1)).enqueue([1])
        soon = post.weigh.using(run_after=timedelta(seconds=1)).enqueue([1])
        self.start()
        wait_until(lambda: post.weigh.get_result(soon.id).is_finished, 30)
        later.refresh()
        soon.refresh()
        assert (later.status, later.attempts) == (READY, 0)
        assert soon.started_at >= soon.task.run_after

    def test_nothing_of_a_transaction_that_is_not_committed(self):
        first = work.note.enqueue("first")
        self.start()
        wait_until(lambda: work.note.get_result(first.id).is_finished)
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            work.note.enqueue("rolled back")
            _ = 1 / 0
        committed = work.note.enqueue("committed")
        wait_until(lambda: work.note.get_result(committed.id).is_finished)
        assert not Effect.objects.filter(name="rolled back").exists()

    def test_an_event_loop_enqueues_and_asks(self):
        async def enqueue_and_wait():
            result = await post.deliver.aenqueue("x")
            await sync_to_async(self.drain)()
            await result.arefresh()
            return result

        result = async_to_sync(enqueue_and_wait)()
        assert (result.status, result.return_value) == (SUCCESSFUL, "delivered to x")


class RetryTests(WorkerTestCase):
    def test_a_task_that_waits_for_its_retry_is_ready_with_its_errors_so_far(self):
        result = work.fail_slowly.enqueue()
        self.drain()
        result.refresh()
        assert (result.status, result.is_finished, result.finished_at) == (READY, False, None)
        assert (result.attempts, len(result.worker_ids)) == (1, 1)
        assert [error.exception_class for error in result.errors] == [LookupError]
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            _ = result.return_value
        finished = Effect.objects.filter(name__startswith="finished fail_slowly")
        assert not finished.exists()
        self.drain()
        result.refresh()
        assert result.attempts == 1

    def test_a_budget_is_spent_with_one_error_for_each_attempt(self):
        result = work.succeed_on.using(max_attempts=2).enqueue(9)
        self.start()
        wait_until(lambda: work.succeed_on.get_result(result.id).is_finished)
        result.refresh()
        assert (result.status, result.attempts, len(result.errors)) == (FAILED, 2, 2)
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = result.return_value


class SignalTests(WorkerTestCase):
    def test_each_signal_is_sent_when_others_see_what_it_tells(self):
        post.frank.enqueue("x")
        post.lose.enqueue("x")
        self.drain("--threads", "1", OBSERVER="asks")
        assert self.effects("frank is RUNNING", "frank is SUCCESSFUL") == [
            ("frank is RUNNING", 0), ("frank is SUCCESSFUL", 1),
        ]  # fmt: skip
        assert self.effects("lose is RUNNING", "lose is FAILED") == [
            ("lose is RUNNING", 0), ("lose is FAILED", 1),
        ]  # fmt: skip

    def test_a_task_that_was_cancelled_before_it_began_is_never_run(self):
        result = work.note.enqueue("cancelled")
        Job.objects.all().cancel()
        self.drain()
        result.refresh()
        assert (result.status, result.attempts) == (FAILED, 0)
        assert [error.exception_class for error in result.errors] == [reasons.TaskCancelled]
        assert self.effects("cancelled") == []


class RenamedTests(WorkerTestCase):
    def rename(self, result):
        """As if the function had been renamed since: the row names one that is not there."""
        job = Job.objects.get(pk=result.id.partition("-")[0])
        gone = "tests.tasks.post.tasks.old_name"
        payload = {**job.payload, "task": {**job.payload["task"], "mark": mark_of(gone)}}
        Job.objects.all().remove()
        return Job.objects.enqueue(gone, payload, max_attempts=1)

    def test_a_task_that_is_gone_waits_for_a_worker_that_knows_it(self):
        self.rename(post.weigh.enqueue([1]))
        other = post.weigh.enqueue([2])
        worker = self.drain()
        other.refresh()
        assert other.status == SUCCESSFUL
        assert Job.objects.get(kind__endswith="old_name").status == "ready"
        assert "'tests.tasks.post.tasks.old_name' cannot be imported" in worker.output

    def test_or_fails_where_the_project_says_so(self):
        gone = self.rename(post.weigh.enqueue([1]))
        other = post.weigh.enqueue([2])
        self.drain(TEST_SQLQUEUE=json.dumps({"UNKNOWN_KINDS": "fail"}))
        gone.refresh_from_db()
        other.refresh()
        assert (gone.status, gone.last_error) == ("failed", "no_handler")
        assert other.status == SUCCESSFUL
        with self.assertRaises(TaskResultDoesNotExist):
            task_backends["default"].get_result(f"{gone.pk}-{gone.payload['task']['id']}")
