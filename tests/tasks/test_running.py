"""What the framework asks of whatever runs tasks, attempt by attempt."""

import logging
import sys
from datetime import timedelta

import pytest
from django.test import TestCase, override_settings
from django.utils import timezone

from django_sqlqueue import execution
from django_sqlqueue.backend import SqlQueueBackend, listening
from django_sqlqueue.backend import exceptions as reasons
from django_sqlqueue.exceptions import JobTimeout
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.tasks import work
from tests.tasks.post import tasks as post
from tests.tasks.post.framework import (
    LOGGER,
    TaskResultStatus,
    task_finished,
    task_started,
)
from tests.testapp.models import Effect

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL
BACKEND = {"BACKEND": "django_sqlqueue.backend.SqlQueueBackend"}


class RunningTestCase(TestCase):
    """Writes down the signals of running."""

    def setUp(self):
        super().setUp()
        self.heard = []
        for name, signal in (("started", task_started), ("finished", task_finished)):
            receiver = self._receiver(name)
            signal.connect(receiver, weak=False)
            self.addCleanup(signal.disconnect, receiver)

    def _receiver(self, name):
        def receiver(sender, task_result, **kwargs):
            assert sender is SqlQueueBackend
            self.heard.append((name, str(task_result.status), sys.exc_info()[0]))

        return receiver

    def run_at(self, result, moment=None):
        run_jobs(now=moment)
        result.refresh()
        return result


class OutcomeTests(RunningTestCase):
    def test_a_return_value_makes_it_successful(self):
        result = self.run_at(post.weigh.enqueue([3, 4]))
        assert result.status == SUCCESSFUL
        assert result.return_value == {"parcels": 2, "grams": 7}
        assert result.attempts == 1
        assert result.enqueued_at <= result.started_at == result.last_attempted_at
        assert result.started_at <= result.finished_at
        assert self.heard == [("started", "RUNNING", None), ("finished", "SUCCESSFUL", None)]

    def test_return_values_become_json(self):
        assert self.run_at(post.return_odd_things.enqueue()).return_value == [1, "two", [0, 1, 2]]

    def test_a_coroutine_is_awaited(self):
        assert self.run_at(post.deliver.enqueue("x")).return_value == "delivered to x"

    def test_a_context_comes_first_and_knows_the_result_and_the_attempt(self):
        for called in (post.number.enqueue(10), post.number_on_loop.enqueue()):
            result = self.run_at(called)
            assert result.return_value[0] == result.id
        assert result.return_value[1] == 1
        assert result.args == []

    def test_an_exception_makes_it_failed(self):
        result = self.run_at(post.lose.enqueue("letter"))
        assert result.status == FAILED
        assert result.is_finished
        (error,) = result.errors
        assert error.exception_class is LookupError
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = result.return_value
        assert self.heard == [("started", "RUNNING", None), ("finished", "FAILED", LookupError)]

    def test_an_exit_makes_it_failed_for_good(self):
        result = self.run_at(post.resign.using(max_attempts=9).enqueue())
        assert result.status == FAILED
        assert result.errors[0].exception_class is SystemExit

    def test_a_value_that_cannot_be_stored_makes_it_failed_for_good(self):
        for called, error in (
            (post.return_a_function, TypeError),
            (post.return_what_no_database_holds, ValueError),
        ):
            result = self.run_at(called.using(max_attempts=9).enqueue())
            assert result.status == FAILED
            assert result.errors[0].exception_class is error
            assert result.attempts == 1

    def test_arguments_that_do_not_fit_make_it_failed(self):
        result = self.run_at(post.weigh.enqueue(1, 2, 3))
        assert result.status == FAILED
        assert result.errors[0].exception_class is TypeError

    def test_a_payload_that_holds_no_arguments_makes_it_failed(self):
        for payload in ({"args": 1}, {"kwargs": []}, ["x"]):
            job = Job.objects.enqueue(post.weigh.module_path, payload, max_attempts=1)
            run_jobs()
            result = post.weigh.get_result(str(job.pk))
            assert result.status == FAILED
            assert result.errors[0].exception_class is TypeError

    def test_it_has_the_worker_that_ran_it(self):
        result = self.run_at(post.lose.enqueue("letter"))
        (worker,) = result.worker_ids
        assert worker.startswith("run_jobs:")

    def test_it_is_running_while_it_runs(self):
        result = post.weigh.enqueue([1])
        job = Job.objects.claim_next("a worker", lease=60)
        result.refresh()
        assert result.status == RUNNING
        assert result.worker_ids == ["a worker"]
        assert result.attempts == 1
        assert result.started_at == result.last_attempted_at == job.started_at
        execution.run(job)
        result.refresh()
        assert (result.status, result.worker_ids) == (SUCCESSFUL, ["a worker"])

    def test_higher_priorities_run_first_and_equals_in_their_order(self):
        for priority, name in ((0, "c"), (0, "d"), (5, "b"), (100, "a"), (-1, "e")):
            work.note.using(priority=priority).enqueue(name)
        run_jobs()
        assert "".join(Effect.objects.order_by("pk").values_list("name", flat=True)) == "abcde"

    def test_it_does_not_run_before_its_time(self):
        moment = timezone.now() + timedelta(hours=1)
        result = post.weigh.using(run_after=moment).enqueue([1])
        assert self.run_at(result, moment - timedelta(seconds=1)).status == READY
        assert self.run_at(result, moment).status == SUCCESSFUL


class TracebackTests(RunningTestCase):
    def test_a_traceback_names_frames_and_classes_but_no_messages(self):
        (error,) = self.run_at(post.lose.enqueue("my letter")).errors
        assert "in lose" in error.traceback
        assert error.traceback.endswith("LookupError\n")
        assert "my letter" not in error.traceback
        assert "no trace" not in error.traceback

    @override_settings(SQLQUEUE={"STORE_MESSAGES": True})
    def test_messages_are_there_where_the_project_wants_them(self):
        (error,) = self.run_at(post.lose.enqueue("my letter")).errors
        assert error.traceback.startswith("Traceback (most recent call last):\n")
        assert error.traceback.endswith("LookupError: no trace of my letter\n")

    @override_settings(TASKS={"default": {**BACKEND, "OPTIONS": {"store_messages": True}}})
    def test_messages_are_there_where_the_backend_wants_them(self):
        (error,) = self.run_at(post.lose.using(max_attempts=1).enqueue("my letter")).errors
        assert error.traceback.endswith("LookupError: no trace of my letter\n")

    @override_settings(
        SQLQUEUE={"STORE_MESSAGES": True},
        TASKS={"default": {**BACKEND, "OPTIONS": {"store_messages": False}}},
    )
    def test_the_backend_may_keep_out_what_the_project_keeps(self):
        (error,) = self.run_at(post.lose.using(max_attempts=1).enqueue("my letter")).errors
        assert "my letter" not in error.traceback

    @override_settings(SQLQUEUE={"STORE_MESSAGES": True})
    def test_a_message_that_no_database_holds_is_made_storable(self):
        with self.assertLogs(LOGGER, "ERROR"):
            (error,) = self.run_at(work.fail_unspeakably.enqueue()).errors
        assert error.traceback.endswith("ValueError: nul \\x00, surrogate \\ud800\n")

    @override_settings(SQLQUEUE={"HISTORY": "none"})
    def test_errors_and_workers_do_not_need_the_history(self):
        result = work.succeed_on.enqueue(3)
        for minutes in range(3):
            self.run_at(result, timezone.now() + timedelta(minutes=minutes))
        assert result.status == SUCCESSFUL
        assert [error.exception_class for error in result.errors] == [LookupError] * 2
        assert len(result.worker_ids) == 3


class RetryTests(RunningTestCase):
    def test_it_is_ready_again_while_attempts_remain(self):
        result = self.run_at(work.succeed_on.enqueue(3), moment := timezone.now())
        assert result.status == READY
        assert not result.is_finished
        assert result.finished_at is None
        assert result.attempts == 1
        assert len(result.errors) == 1
        first = result.started_at

        self.run_at(result, moment + timedelta(seconds=1))
        self.run_at(result, moment + timedelta(seconds=2))
        assert result.status == SUCCESSFUL
        assert result.return_value == 3
        assert (result.attempts, len(result.errors)) == (3, 2)
        assert result.started_at == first < result.last_attempted_at
        assert [name for name, _, _ in self.heard] == ["started"] * 3 + ["finished"]

    def test_the_backoff_says_how_long_it_waits(self):
        result = work.succeed_on.enqueue(9)
        moment = timezone.now() + timedelta(minutes=1)
        self.run_at(result, moment)
        assert Job.objects.get().run_at == moment + timedelta(seconds=0.01)
        self.run_at(result, moment := moment + timedelta(seconds=1))
        assert Job.objects.get().run_at == moment + timedelta(seconds=0.02)

    def test_a_backoff_of_none_gives_up(self):
        assert self.run_at(work.fail_with.enqueue("lookup")).status == READY
        result = self.run_at(work.fail_with.enqueue("value"))
        assert result.status == FAILED
        assert result.attempts == 1
        assert [error.exception_class for error in result.errors] == [ValueError]
        assert Job.objects.get(status="failed").last_error == "ValueError"

    def test_a_broken_backoff_is_logged_and_the_default_taken(self):
        moment = timezone.now() + timedelta(minutes=1)
        with self.assertLogs("django_sqlqueue", "ERROR"):
            result = self.run_at(work.fail_with_broken_backoff.enqueue(), moment)
        assert result.status == READY
        assert Job.objects.get().run_at >= moment + timedelta(seconds=30)

    def test_a_backoff_of_the_queue_will_do_too(self):
        moment = timezone.now() + timedelta(minutes=1)
        self.run_at(work.fail_slowly.enqueue(), moment)
        assert Job.objects.get().run_at == moment + timedelta(seconds=100)

    def test_using_gives_one_job_another_backoff(self):
        from django_sqlqueue import Backoff

        moment = timezone.now() + timedelta(minutes=1)
        once = work.fail_slowly.using(backoff=Backoff(base=7, jitter=0))
        result = self.run_at(once.enqueue(), moment)
        assert Job.objects.get().run_at == moment + timedelta(seconds=7)
        assert result.task == once

    @override_settings(
        TASKS={
            "default": {
                **BACKEND,
                "OPTIONS": {"max_attempts": 2, "backoff": "tests.tasks.work.soon", "ref": "all"},
            }
        }
    )
    def test_the_backends_options_hold_for_tasks_that_say_nothing(self):
        moment = timezone.now() + timedelta(minutes=1)
        self.run_at(post.lose.enqueue("x"), moment)
        job = Job.objects.get()
        assert (job.max_attempts, job.ref) == (2, "all")
        assert job.run_at == moment + timedelta(seconds=0.01)

    @override_settings(TASKS={"default": BACKEND}, SQLQUEUE={"MAX_ATTEMPTS": 4})
    def test_without_an_option_the_projects_budget_holds(self):
        post.lose.enqueue("x")
        assert Job.objects.get().max_attempts == 4

    def test_a_task_may_steer_its_own_job(self):
        deferred = self.run_at(work.steer.enqueue("defer"))
        assert (deferred.status, deferred.attempts, deferred.errors) == (READY, 0, [])
        abandoned = self.run_at(work.steer.enqueue("abandon"))
        assert (abandoned.status, abandoned.attempts) == (FAILED, 1)
        assert abandoned.errors[0].exception_class.__name__ == "Abandon"
        retried = self.run_at(work.steer.enqueue("retry"))
        assert (retried.status, retried.attempts) == (FAILED, 3)
        assert [error.exception_class.__name__ for error in retried.errors] == ["Retry"] * 3


class EndedElsewhereTests(RunningTestCase):
    def test_a_lost_worker_counts_as_an_attempt_with_an_error(self):
        result = work.succeed_on.enqueue(2)
        moment = timezone.now()
        job = Job.objects.claim_next("lost worker", lease=1, now=moment)
        Job.objects.reclaim_expired(now=moment + timedelta(seconds=2))
        result.refresh()
        assert (result.status, result.worker_ids) == (READY, ["lost worker"])
        assert result.errors[0].exception_class is reasons.TaskLost
        assert self.heard == []

        self.run_at(result, moment + timedelta(seconds=3))
        assert (result.status, result.return_value) == (SUCCESSFUL, 2)
        assert result.worker_ids[0] == "lost worker"
        assert len(result.worker_ids) == 2
        assert len(result.errors) == 1
        assert result.started_at == job.started_at < result.last_attempted_at

    def test_a_spent_budget_makes_it_failed_with_the_reason(self):
        result = post.weigh.enqueue([1])
        moment = timezone.now()
        Job.objects.claim_next("lost worker", lease=1, now=moment)
        Job.objects.reclaim_expired(now=moment + timedelta(seconds=2))
        result.refresh()
        assert result.status == FAILED
        assert [error.exception_class for error in result.errors] == [reasons.TaskLost]
        assert result.worker_ids == ["lost worker"]
        assert self.heard == [("finished", "FAILED", reasons.TaskLost)]

    @override_settings(SQLQUEUE={"HISTORY": "none"})
    def test_without_a_history_a_lost_worker_is_unknown(self):
        result = post.weigh.enqueue([1])
        moment = timezone.now()
        Job.objects.claim_next("lost worker", lease=1, now=moment)
        Job.objects.reclaim_expired(now=moment + timedelta(seconds=2))
        result.refresh()
        assert (result.status, result.worker_ids) == (FAILED, ["unknown"])
        assert result.errors[0].exception_class is reasons.TaskLost

    def test_a_passed_deadline_makes_it_failed_without_a_start(self):
        moment = timezone.now()
        result = post.weigh.using(deadline=moment + timedelta(seconds=5)).enqueue([1])
        self.run_at(result, moment + timedelta(seconds=6))
        assert result.status == FAILED
        assert [error.exception_class for error in result.errors] == [reasons.TaskExpired]
        assert self.heard == [("finished", "FAILED", reasons.TaskExpired)]

    def test_a_cancelled_task_is_failed(self):
        result = post.weigh.enqueue([1])
        assert Job.objects.all().cancel() == 1
        result.refresh()
        assert (result.status, result.attempts) == (FAILED, 0)
        assert [error.exception_class for error in result.errors] == [reasons.TaskCancelled]
        assert self.heard == [("finished", "FAILED", reasons.TaskCancelled)]
        assert Job.objects.all().cancel() == 0
        assert len(self.heard) == 1

    def test_a_task_cancelled_while_it_runs_is_failed(self):
        result = post.weigh.enqueue([1])
        job = Job.objects.claim_next("a worker", lease=60)
        Job.objects.all().cancel()
        assert self.heard == []
        execution.run(job)
        result.refresh()
        assert result.status == FAILED
        assert [error.exception_class for error in result.errors] == [reasons.TaskCancelled]
        assert self.heard[-1] == ("finished", "FAILED", reasons.TaskCancelled)

    def test_a_lost_claim_announces_nothing(self):
        post.weigh.enqueue([1])
        job = Job.objects.claim_next("a worker", lease=60)
        Job.objects.reset_running()
        self.heard.clear()
        assert execution.run(job) is None
        assert [name for name, _, _ in self.heard] == ["started"]

    def test_an_attempt_ended_without_its_function_has_its_reason(self):
        result = work.sleep.using(max_attempts=1).enqueue(0)
        job = Job.objects.claim_next("a worker", lease=60)
        Job.objects.all().settle(job, execution.timed_out(job))
        result.refresh()
        assert result.status == FAILED
        assert [error.exception_class for error in result.errors] == [JobTimeout]
        assert self.heard == [("finished", "FAILED", JobTimeout)]

    def test_a_requeued_task_starts_afresh(self):
        result = self.run_at(post.lose.enqueue("x"))
        Job.objects.all().requeue()
        result.refresh()
        assert (result.status, result.attempts, result.errors) == (READY, 0, [])
        assert result.started_at is result.last_attempted_at is None
        job = Job.objects.claim_next("second", lease=60)
        Job.objects.all().settle(job, execution.timed_out(job))
        result.refresh()
        assert result.worker_ids == ["second"]
        assert len(result.errors) == 1

    def test_jobs_that_are_no_tasks_are_nobodys_business(self):
        Job.objects.enqueue("testapp.noop")
        Job.objects.enqueue("testapp.noop", run_at=timezone.now() + timedelta(days=1))
        Job.objects.enqueue("someone.elses")
        run_jobs()
        Job.objects.all().cancel()
        assert self.heard == []


class TimeoutTests(TestCase):
    def test_a_timeout_is_the_tasks_own_or_the_jobs(self):
        for task, seconds in (
            (work.sleep, 0.2),
            (work.sleep.using(timeout=9), 9),
            (work.note, None),
        ):
            job = Job.objects.get(pk=task.enqueue("x").id.partition("-")[0])
            assert execution.timeout_of(job) == seconds

    @override_settings(TASKS={"default": {**BACKEND, "OPTIONS": {"timeout": 3}}})
    def test_or_the_backends(self):
        job = Job.objects.get(pk=post.weigh.enqueue("x").id.partition("-")[0])
        assert execution.timeout_of(job) == 3


class LoggingTests(TestCase):
    def test_the_frameworks_log_shows_a_task_from_end_to_end(self):
        with self.assertLogs(LOGGER, level="DEBUG") as logs:
            post.weigh.enqueue([1])
            run_jobs()
        assert [record.levelname for record in logs.records] == ["DEBUG", "INFO", "INFO"]
        assert "NoneType" not in "".join(logs.output)

    def test_the_log_of_a_failure_has_its_traceback(self):
        with self.assertLogs(LOGGER, level="ERROR") as logs:
            post.lose.enqueue("letter")
            run_jobs()
        (record,) = logs.records
        assert record.levelno == logging.ERROR
        assert record.exc_info[0] is LookupError
        assert "in lose" in logs.output[0]


class ReceiverTests(TestCase):
    def test_a_broken_receiver_changes_no_outcome(self):
        def break_down(sender, **kwargs):
            raise RuntimeError("a receiver broke")

        for signal in (task_started, task_finished):
            signal.connect(break_down)
            self.addCleanup(signal.disconnect, break_down)
        good, bad = post.weigh.enqueue([1]), post.lose.enqueue("x")
        with self.assertLogs("django.dispatch", "ERROR"):
            run_jobs()
        good.refresh()
        bad.refresh()
        assert (good.status, bad.status) == (SUCCESSFUL, FAILED)


class ListeningTests(TestCase):
    """What nobody hears is not sent; whoever could hear it, does."""

    def logged(self, level=logging.INFO):
        return listening.is_logged(level)

    def with_handler(self, handler, name=LOGGER):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)

    def setUp(self):
        super().setUp()
        # The test runner's own handlers hear everything.
        root = logging.getLogger()
        kept, root.handlers = root.handlers, []
        self.addCleanup(setattr, root, "handlers", kept)
        # The backport's logger has no level of its own, and no handler.
        level = listening.logger.level
        listening.logger.setLevel(logging.INFO)
        self.addCleanup(listening.logger.setLevel, level)

    def test_in_production_the_frameworks_lines_reach_nobody_but_failures_do(self):
        assert not self.logged()
        assert self.logged(logging.ERROR)
        assert not listening.has_receivers(task_started)

    @pytest.mark.skipif(
        LOGGER == "django_tasks", reason="no handler of Django's hears the backport"
    )
    @override_settings(DEBUG=True)
    def test_in_development_they_reach_the_console(self):
        assert self.logged()

    def test_a_handler_anywhere_on_the_way_hears_them(self):
        for name in (LOGGER, "") if LOGGER == "django_tasks" else (LOGGER, "django", ""):
            with self.subTest(logger=name):
                handler = logging.NullHandler()
                logging.getLogger(name).addHandler(handler)
                assert self.logged()
                logging.getLogger(name).removeHandler(handler)

    def test_a_handler_for_worse_does_not(self):
        self.with_handler(logging.NullHandler(level=logging.WARNING))
        assert not self.logged()

    def test_a_filter_that_is_not_known_counts_as_letting_through(self):
        handler = logging.NullHandler()
        handler.addFilter(lambda record: False)
        self.with_handler(handler)
        assert self.logged()

    def test_a_monitor_that_sees_records_before_handlers_hears_them(self):
        def seen(self, record):
            return None

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logging.Logger, "callHandlers", seen)
            assert self.logged()

    def test_a_receiver_hears_them(self):
        def hear(sender, **kwargs):
            return None

        task_started.connect(hear)
        self.addCleanup(task_started.disconnect, hear)
        assert listening.has_receivers(task_started)
        assert not listening.has_receivers(task_finished)

    def test_what_nobody_hears_ends_alike(self):
        good, bad = post.weigh.enqueue([1]), post.lose.enqueue("x")
        looped = post.number_on_loop.enqueue()
        with self.assertLogs(LOGGER, logging.ERROR):
            run_jobs()
        for result in (good, bad, looped):
            result.refresh()
        assert [result.status for result in (good, bad, looped)] == [
            SUCCESSFUL, FAILED, SUCCESSFUL,
        ]  # fmt: skip
        assert good.return_value == {"parcels": 1, "grams": 1}
