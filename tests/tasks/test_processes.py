"""Tasks through real runjobs processes, which have imported no task module when they start."""

import signal
from datetime import timedelta

import pytest
from django.utils import timezone

from django_sqlqueue.backend import exceptions as reasons
from django_sqlqueue.exceptions import JobTimeout
from django_sqlqueue.models import Job
from tests.processes import ProcessTestCase, spawn, wait_until
from tests.tasks import work
from tests.tasks.post import tasks as post
from tests.tasks.post.framework import TaskResultStatus
from tests.testapp.models import Effect

pytestmark = pytest.mark.processes

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


class TaskProcessTestCase(ProcessTestCase):
    def start(self, *arguments, **environ):
        return spawn("runjobs", *arguments, env=environ, settings="tests.tasks.observed")

    def drain(self, **environ):
        worker = self.start("--drain", **environ)
        self.assertEqual(worker.wait(60), 0, worker.output)
        return worker

    def wait_for(self, result, status):
        def there():
            result.refresh()
            return result.status == status

        wait_until(there, 30)

    def heard(self, task):
        """The signals of a task as its worker wrote them down, with the attempts of each."""
        effects = Effect.objects.filter(name__contains=f" {task.name} ").order_by("pk")
        return [
            (name.replace(f" {task.name}", "").replace(" SqlQueueBackend", ""), n)
            for name, n in effects.values_list("name", "n")
        ]


class DrainTests(TaskProcessTestCase):
    def test_a_worker_runs_tasks_of_modules_that_it_had_not_imported(self):
        moment = timezone.now() + timedelta(days=1)
        weighed = post.weigh.enqueue([1, 2])
        franked = post.frank.enqueue("letter", stamp="red")
        delivered = post.deliver.enqueue("x")
        numbered = post.number.enqueue(1)
        looped = post.number_on_loop.enqueue()
        lost = post.lose.enqueue("letter")
        resigned = post.resign.enqueue()
        odd = post.return_odd_things.enqueue()
        unstorable = post.return_a_function.enqueue()
        later = post.weigh.using(run_after=moment).enqueue([3])
        misfit = post.weigh.enqueue(1, 2, 3)
        enqueued = [
            weighed, franked, delivered, numbered, looped, lost, resigned, odd, unstorable, later,
            misfit,
        ]  # fmt: skip
        self.drain()
        for result in enqueued:
            result.refresh()

        values = [weighed, franked, delivered, numbered, looped, odd]
        assert [result.status for result in values] == [SUCCESSFUL] * 6
        assert [result.return_value for result in values] == [
            {"parcels": 2, "grams": 3}, ["letter", "red"], "delivered to x", [numbered.id, 2],
            [looped.id, 1], [1, "two", [0, 1, 2]],
        ]  # fmt: skip
        failures = [lost, resigned, unstorable, misfit]
        assert [result.status for result in failures] == [FAILED] * 4
        assert [result.errors[0].exception_class for result in failures] == [
            LookupError, SystemExit, TypeError, TypeError,
        ]  # fmt: skip
        assert "in lose" in lost.errors[0].traceback
        assert "letter" not in lost.errors[0].traceback
        assert later.status == READY
        for result in values + failures:
            assert result.attempts == 1
            assert result.enqueued_at <= result.started_at <= result.finished_at
            assert result.last_attempted_at == result.started_at

        assert self.heard(post.frank) == [("started RUNNING", 1), ("finished SUCCESSFUL -", 1)]
        assert self.heard(post.number_on_loop) == self.heard(post.frank)
        assert self.heard(post.lose) == [
            ("started RUNNING", 1), ("finished FAILED LookupError", 1),
        ]  # fmt: skip

    def test_a_module_that_a_row_merely_names_is_not_imported(self):
        forged = post.weigh.enqueue([1])
        payload = Job.objects.get().payload
        Job.objects.all().remove()
        for kind in ("tests.tasks.trap.spring", "tests.tasks.trap"):
            Job.objects.enqueue(kind, {})
            Job.objects.enqueue(kind, payload)
        good = post.weigh.enqueue([1])
        self.drain()
        assert not Effect.objects.filter(name__contains="trap").exists()
        assert Job.objects.filter(kind__contains="trap", status="ready").count() == 4
        good.refresh()
        assert good.status == SUCCESSFUL
        assert forged.id != good.id

    def test_what_is_enqueued_in_a_row_of_one_kind_keeps_its_order(self):
        for priority, name in ((0, "c"), (5, "a"), (0, "d"), (5, "b")):
            work.note.using(priority=priority).enqueue(name)
        worker = self.start("--drain", "--threads", "1")
        assert worker.wait(60) == 0, worker.output
        names = Effect.objects.filter(name__in="abcd").order_by("pk")
        assert "".join(names.values_list("name", flat=True)) == "abcd"

    def test_a_broken_receiver_changes_no_outcome(self):
        good, bad = post.weigh.enqueue([1]), post.lose.enqueue("x")
        self.drain(OBSERVER="broken")
        good.refresh()
        bad.refresh()
        assert (good.status, bad.status) == (SUCCESSFUL, FAILED)
        assert self.heard(post.weigh) == [("started RUNNING", 1), ("finished SUCCESSFUL -", 1)]

    def test_a_schedule_of_a_task_runs(self):
        result = work.note.schedule("hourly note", "scheduled", every=3600)
        assert result.status == READY
        again = work.note.schedule("hourly note", "scheduled", every=3600)
        assert again.id == result.id
        self.drain()
        result.refresh()
        assert Effect.objects.filter(name="scheduled").count() == 1
        assert (result.status, result.attempts) == (READY, 0)
        assert self.heard(work.note) == [("started RUNNING", 1), ("finished SUCCESSFUL -", 1)]


class LivingWorkerTests(TaskProcessTestCase):
    def test_attempts_add_up_until_one_succeeds(self):
        self.start()
        result = work.succeed_on.enqueue(3)
        self.wait_for(result, SUCCESSFUL)
        assert result.return_value == 3
        assert (result.attempts, len(result.errors)) == (3, 2)
        assert {error.exception_class for error in result.errors} == {LookupError}
        assert result.started_at < result.last_attempted_at < result.finished_at
        wait_until(lambda: len(self.heard(work.succeed_on)) == 4)
        assert self.heard(work.succeed_on) == [
            ("started RUNNING", 1), ("started RUNNING", 2), ("started RUNNING", 3),
            ("finished SUCCESSFUL -", 3),
        ]  # fmt: skip

    def test_a_task_is_seen_running_by_others_and_stopped_when_it_is_cancelled(self):
        self.start()
        result = work.wait_for_cancel.enqueue()
        wait_until(lambda: Effect.objects.filter(name="asleep").exists())
        result.refresh()
        assert result.status == RUNNING
        assert result.attempts == 1
        assert result.finished_at is None
        Job.objects.all().cancel()
        self.wait_for(result, FAILED)
        assert result.errors[-1].exception_class is reasons.TaskCancelled
        wait_until(lambda: len(self.heard(work.wait_for_cancel)) == 2)
        assert self.heard(work.wait_for_cancel)[1] == ("finished FAILED TaskCancelled", 1)

    def test_a_timeout_is_an_error_of_its_attempt(self):
        self.start()
        result = work.sleep.enqueue(20)
        self.wait_for(result, FAILED)
        assert [error.exception_class for error in result.errors] == [JobTimeout]
        wait_until(lambda: len(self.heard(work.sleep)) == 2)
        assert self.heard(work.sleep)[1] == ("finished FAILED JobTimeout", 1)

    def test_a_passed_deadline_is_announced_without_a_start(self):
        result = post.weigh.using(deadline=timedelta(0)).enqueue([1])
        self.start()
        self.wait_for(result, FAILED)
        assert [error.exception_class for error in result.errors] == [reasons.TaskExpired]
        wait_until(lambda: self.heard(post.weigh))
        assert self.heard(post.weigh) == [("finished FAILED TaskExpired", 1)]


class LostWorkerTests(TaskProcessTestCase):
    def lose_a_worker(self, result):
        """Start a worker on the task and kill it in the middle."""
        worker = self.start("--lease", "1")
        wait_until(lambda: Effect.objects.filter(name="asleep").exists())
        worker.kill()
        result.refresh()
        assert result.status == RUNNING
        return result.worker_ids[0]

    def test_another_worker_tries_again(self):
        result = work.sleep_first.enqueue(60)
        lost = self.lose_a_worker(result)
        second = self.start("--lease", "1")
        self.wait_for(result, SUCCESSFUL)
        assert result.return_value == "awake"
        assert result.worker_ids[0] == lost
        assert result.attempts == 2
        assert len(set(result.worker_ids)) == 2
        assert [error.exception_class for error in result.errors] == [reasons.TaskLost]
        assert result.started_at < result.last_attempted_at
        second.send_signal(signal.SIGTERM)
        assert second.wait() == 0, second.output
        assert self.heard(work.sleep_first)[-1] == ("finished SUCCESSFUL -", 2)

    def test_a_spent_budget_is_announced_by_whoever_sweeps(self):
        result = work.sleep_first.using(max_attempts=1).enqueue(60)
        lost = self.lose_a_worker(result)
        self.start("--lease", "1")
        self.wait_for(result, FAILED)
        assert result.worker_ids == [lost]
        assert [error.exception_class for error in result.errors] == [reasons.TaskLost]
        wait_until(lambda: len(self.heard(work.sleep_first)) == 2)
        assert self.heard(work.sleep_first)[1] == ("finished FAILED TaskLost", 1)
