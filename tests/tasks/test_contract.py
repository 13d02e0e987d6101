"""What the framework asks of a backend before anything runs: tasks, enqueue, results."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django import VERSION
from django.db import transaction
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone

from django_sqlqueue.backend import QueueTask, SqlQueueBackend
from django_sqlqueue.backend import task as queue_task
from django_sqlqueue.models import Job
from tests.tasks import work
from tests.tasks.post import tasks as post
from tests.tasks.post.framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task,
    task_backends,
    task_enqueued,
)

BACKEND = {"BACKEND": "django_sqlqueue.backend.SqlQueueBackend"}


class TheBackendTests(SimpleTestCase):
    def test_the_task_decorator_of_the_framework_makes_our_tasks(self):
        assert isinstance(post.weigh, QueueTask)

    def test_it_can_all_that_a_backend_can(self):
        backend = task_backends["default"]
        assert isinstance(backend, SqlQueueBackend)
        assert backend.supports_defer
        assert backend.supports_async_task
        assert backend.supports_get_result
        assert backend.supports_priority

    def test_each_thread_has_a_backend_of_its_own(self):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: task_backends["default"]).result() is not None
            other = pool.submit(lambda: id(task_backends["default"])).result()
        assert other != id(task_backends["default"])

    def test_a_task_is_made_without_asking_the_database(self):
        # A SimpleTestCase refuses every query.
        assert task(post.weigh.func) == post.weigh


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"priority": 101}, "priority must be a whole number between -100 and 100."),
        ({"priority": -101}, "priority must be a whole number between -100 and 100."),
        ({"priority": 1.5}, "priority must be a whole number between -100 and 100."),
        ({"queue_name": "nowhere"}, "Queue 'nowhere' is not valid for backend."),
        ({"run_after": datetime(2030, 1, 1)}, "run_after must be an aware datetime."),  # noqa: DTZ001
        ({"run_after": "tomorrow"}, "run_after must be a datetime"),
        ({"max_attempts": 0}, "max_attempts must be from 1"),
        ({"max_attempts": "3"}, "max_attempts must be a whole number"),
        ({"dedup_key": ""}, "dedup_key must not be empty"),
        ({"dedup_key": "x" * 256}, "dedup_key has 256 characters"),
        ({"ref": "nul \x00"}, "ref contains a NUL"),
        ({"timeout": 0}, "timeout must be more than 0 seconds"),
        ({"timeout": float("nan")}, "timeout must be between 0 seconds and a century"),
        ({"deadline": datetime(2030, 1, 1)}, "deadline is naive"),  # noqa: DTZ001
        ({"deadline": 5}, "deadline must be a datetime"),
        ({"backoff": 5}, "backoff must be a Backoff or a function"),
    ],
)
def test_what_the_backend_cannot_do_is_refused_when_the_task_is_made(changes, message):
    with pytest.raises(InvalidTask, match=message):
        post.weigh.using(**changes)


class ValidationTests(SimpleTestCase):
    def test_a_function_that_no_module_holds_is_refused(self):
        with self.assertRaisesMessage(InvalidTask, "must be defined at a module level"):
            task(lambda: None)

    def test_a_context_goes_by_its_name(self):
        with self.assertRaisesMessage(InvalidTask, "first argument of 'context'"):
            task(takes_context=True)(post.weigh.func)

    def test_whole_priorities_of_any_type_are_taken(self):
        assert post.weigh.using(priority=3.0).priority == 3

    def test_without_a_list_of_queues_any_will_do(self):
        assert post.weigh.using(backend="any_queue", queue_name="x").queue_name == "x"

    @override_settings(SQLQUEUE={"QUEUES": ["default"]})
    def test_a_queue_that_the_job_queue_refuses_is_refused(self):
        with self.assertRaisesMessage(InvalidTask, "not listed in SQLQUEUE"):
            post.weigh.using(queue_name="letters")

    def test_run_after_is_not_for_a_decorator(self):
        with self.assertRaises(TypeError):
            queue_task(run_after=timezone.now())(post.weigh.func)

    def test_an_unknown_option_is_refused(self):
        with self.assertRaisesMessage(TypeError, "colour"):
            queue_task(colour="red")(post.weigh.func)
        with self.assertRaisesMessage(TypeError, "colour"):
            post.weigh.using(colour="red")

    def test_using_changes_a_copy(self):
        changed = post.weigh.using(priority=7, max_attempts=4).using(ref="a")
        assert (changed.priority, changed.max_attempts, changed.ref) == (7, 4, "a")
        assert (post.weigh.priority, post.weigh.max_attempts, post.weigh.ref) == (0, None, None)

    def test_using_none_leaves_an_option_as_it_is(self):
        assert work.alone.using(dedup_key=None).dedup_key == "the one"

    def test_run_after_may_be_a_time_from_now(self):
        run_after = post.weigh.using(run_after=timedelta(hours=1)).run_after
        self.assertAlmostEqual((run_after - timezone.now()).total_seconds(), 3600, delta=30)


class EnqueueTests(TestCase):
    def test_the_result_of_a_new_task(self):
        result = post.frank.enqueue("letter", stamp="red")
        assert result.status == TaskResultStatus.READY
        assert result.task is post.frank
        assert (result.args, result.kwargs) == (["letter"], {"stamp": "red"})
        assert result.backend == "default"
        assert isinstance(result.id, str)
        assert len(result.id) < 64
        assert result.enqueued_at is not None
        assert result.started_at is result.last_attempted_at is result.finished_at is None
        assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
        assert not result.is_finished
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            _ = result.return_value

    def test_a_task_is_a_job_whose_kind_is_its_module_path(self):
        work.low.using(ref="library:42").enqueue("x")
        job = Job.objects.get()
        assert job.kind == "tests.tasks.work.low"
        assert (job.queue, job.priority, job.ref, job.max_attempts) == (
            "letters", -5, "library:42", 1,
        )  # fmt: skip
        assert job.payload["args"] == ["x"]
        assert job.payload["kwargs"] == {}

    def test_run_after_is_when_the_job_may_run(self):
        moment = timezone.now() + timedelta(days=1)
        post.weigh.using(run_after=moment).enqueue([1])
        self.assertAlmostEqual(
            Job.objects.get().run_at.timestamp(), moment.timestamp(), delta=0.001
        )

    def test_arguments_become_json(self):
        result = post.frank.enqueue((1, b"two"), stamp=range(2))
        assert result.args == [[1, "two"]]
        assert result.kwargs == {"stamp": [0, 1]}
        stored = post.frank.get_result(result.id)
        assert (stored.args, stored.kwargs) == (result.args, result.kwargs)

    def test_what_json_cannot_hold_is_refused_before_any_sql(self):
        for argument, error in (
            (datetime.now(), TypeError),  # noqa: DTZ005
            ({1}, TypeError),
            (b"\xff", ValueError),
            (float("nan"), ValueError),
            ("nul \x00", ValueError),
            ("\ud800", ValueError),
            ({1: "a"}, ValueError),
        ):
            with (
                self.subTest(argument=argument),
                self.assertNumQueries(0),
                self.assertRaises(error),
            ):
                post.weigh.enqueue(argument)

    def test_the_task_is_validated_again_when_it_is_enqueued(self):
        elsewhere = post.weigh.using(queue_name="letters")
        with override_settings(TASKS={"default": {**BACKEND, "QUEUES": ["default"]}}):
            with self.assertRaisesMessage(InvalidTask, "Queue 'letters' is not valid"):
                elsewhere.enqueue([])
            with self.assertRaisesMessage(InvalidTask, "Queue 'letters' is not valid"):
                async_to_sync(elsewhere.aenqueue)([])
        assert not Job.objects.exists()

    def test_a_task_that_no_worker_could_find_is_refused(self):
        for lost in (work.Body.in_a_class_body, work.renamed):
            with self.assertRaisesMessage(InvalidTask, "No worker could find this task"):
                lost.enqueue()
        assert not Job.objects.exists()

    def test_it_is_enqueued_from_an_event_loop_too(self):
        result = async_to_sync(post.weigh.aenqueue)([1])
        assert Job.objects.get().payload["args"] == [[1]]
        assert async_to_sync(post.weigh.aget_result)(result.id) == result

    def test_it_is_enqueued_in_the_callers_transaction(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            result = post.weigh.enqueue([1])
            assert post.weigh.get_result(result.id) == result
            _ = 1 / 0
        with self.assertRaises(TaskResultDoesNotExist):
            post.weigh.get_result(result.id)

    def test_task_enqueued_is_sent_with_the_ready_result(self):
        heard = []

        def hear(sender, task_result, **kwargs):
            heard.append((sender, task_result, Job.objects.count()))

        task_enqueued.connect(hear)
        self.addCleanup(task_enqueued.disconnect, hear)
        result = post.weigh.enqueue([1])
        assert heard == [(SqlQueueBackend, result, 1)]
        assert result.status == TaskResultStatus.READY


class GetResultTests(TestCase):
    def test_a_stored_result_is_the_one_that_enqueue_returned(self):
        moment = timezone.now() + timedelta(days=1)
        changed = work.succeed_on.using(
            priority=3, queue_name="letters", run_after=moment, max_attempts=7, dedup_key="k",
            deadline=timedelta(days=2), timeout=5, ref="r",
        )  # fmt: skip
        result = changed.enqueue(1)
        stored = task_backends["default"].get_result(result.id)
        assert stored == result
        assert stored.task == changed
        assert stored.task.func is work.succeed_on.func

    def test_an_absolute_deadline_comes_back_too(self):
        changed = post.weigh.using(deadline=timezone.now() + timedelta(days=1))
        assert post.weigh.get_result(changed.enqueue([]).id).task == changed

    def test_an_id_that_names_no_result_says_so(self):
        result = post.weigh.enqueue([1])
        plain = Job.objects.enqueue("testapp.noop")
        number = result.id.partition("-")[0]
        for unknown in (
            "123", "", "x", "-", number, f"{number}-", f"{number}-{'0' * 16}", f"{number}-é",
            "9" * 30, f"{'9' * 18}-abc", "٣-abc", " 1", f"{plain.pk}", f"{plain.pk}-None", 123,
            None, "nul \x00", "d0000000-0000-4000-8000-000000000000",
        ):  # fmt: skip
            with self.subTest(id=unknown), self.assertRaises(TaskResultDoesNotExist):
                task_backends["default"].get_result(unknown)
            with self.subTest(id=unknown), self.assertRaises(TaskResultDoesNotExist):
                async_to_sync(task_backends["default"].aget_result)(unknown)

    def test_a_pruned_result_is_gone(self):
        result = post.weigh.enqueue([1])
        Job.objects.all().remove()
        with self.assertRaises(TaskResultDoesNotExist):
            result.refresh()

    def test_the_result_of_another_task_is_a_mismatch(self):
        result = post.weigh.enqueue([1])
        with self.assertRaisesMessage(TaskResultMismatch, "tests.tasks.post.tasks.weigh"):
            post.frank.get_result(result.id)

    def test_a_result_whose_function_is_gone_does_not_exist(self):
        job = Job.objects.get(pk=post.weigh.enqueue([1]).id.partition("-")[0])
        Job.objects.enqueue("tests.tasks.post.tasks.gone", job.payload)
        gone = Job.objects.get(kind="tests.tasks.post.tasks.gone")
        with self.assertRaises(TaskResultDoesNotExist):
            task_backends["default"].get_result(f"{gone.pk}-{gone.payload['task']['id']}")

    def test_a_result_stays_readable_when_the_settings_change(self):
        result = post.weigh.using(queue_name="letters").enqueue([1])
        with override_settings(TASKS={"default": {**BACKEND, "QUEUES": ["default"]}}):
            assert post.weigh.get_result(result.id).task.queue_name == "letters"

    def test_a_result_of_an_alias_that_is_gone_belongs_to_the_one_that_is_asked(self):
        result = post.weigh.using(backend="any_queue").enqueue([1])
        with override_settings(TASKS={"default": BACKEND}):
            stored = post.weigh.get_result(result.id)
            assert stored.backend == stored.task.backend == "default"

    def test_results_and_tasks_are_copied_and_pickled(self):
        result = work.succeed_on.using(max_attempts=4).enqueue(1)
        assert pickle.loads(pickle.dumps(result)) == result
        assert copy.deepcopy(result) == result
        assert pickle.loads(pickle.dumps(result.task)).func is work.succeed_on.func

    def test_a_row_written_by_hand_has_a_result_under_its_plain_id(self):
        job = Job.objects.enqueue(post.weigh.module_path, {"args": [[1]]})
        result = post.weigh.get_result(str(job.pk))
        assert result.args == [[1]]

    def test_nothing_that_names_a_secret_is_needed_to_guess_an_id(self):
        ids = {post.weigh.enqueue([1]).id.partition("-")[2] for _ in range(20)}
        assert len(ids) == 20
        assert all(len(secret) == 16 for secret in ids)


class DedupTests(TestCase):
    def test_a_duplicate_is_answered_with_the_live_one(self):
        first = work.alone.enqueue(1)
        heard = []

        def hear(sender, **kwargs):
            heard.append(sender)

        task_enqueued.connect(hear)
        self.addCleanup(task_enqueued.disconnect, hear)
        second = work.alone.enqueue(2)
        assert second == first
        assert second.args == [1]
        assert heard == []
        assert Job.objects.count() == 1

    def test_another_key_is_another_job(self):
        assert work.alone.enqueue().id != work.alone.using(dedup_key="two").enqueue().id

    def test_a_settled_one_does_not_count(self):
        first = work.alone.enqueue(1)
        Job.objects.all().cancel()
        assert work.alone.enqueue(2).id != first.id


class EnqueueManyTests(TestCase):
    def test_many_calls_are_many_jobs_in_their_order(self):
        results = post.frank.enqueue_many([([n], {"stamp": str(n)}) for n in range(3)])
        assert [result.args for result in results] == [[0], [1], [2]]
        assert [result.kwargs["stamp"] for result in results] == ["0", "1", "2"]
        assert [post.frank.get_result(result.id) for result in results] == results
        assert Job.objects.count() == 3

    def test_no_call_is_no_job(self):
        assert post.frank.enqueue_many([]) == []

    def test_one_bad_call_refuses_all(self):
        with self.assertRaises(TypeError):
            post.frank.enqueue_many([([1], {}), ([{1}], {})])
        assert not Job.objects.exists()

    def test_of_equal_keys_one_is_enqueued(self):
        assert len(work.alone.enqueue_many([([1], {}), ([2], {})])) == 1
        assert work.alone.enqueue_many([([3], {})]) == []
        assert Job.objects.get().payload["args"] == [1]


class DecoratorTests(SimpleTestCase):
    def test_it_is_exported_by_the_package(self):
        import django_sqlqueue

        assert django_sqlqueue.task is queue_task

    def test_the_options_stand_on_the_task(self):
        assert work.succeed_on.max_attempts == 3
        assert work.succeed_on.backoff is work.soon
        assert work.succeed_on.takes_context

    def test_a_backoff_function_cannot_come_with_using(self):
        with self.assertRaisesMessage(InvalidTask, "using() takes a Backoff"):
            task_backends["default"].new_job(post.weigh.using(backoff=work.soon), [], {})

    def test_tasks_can_be_used_as_keys(self):
        assert len({work.succeed_on, work.succeed_on.using(), work.alone}) == 2


FRAMEWORK = "django" if VERSION >= (6, 0) else "django_tasks"


@pytest.mark.parametrize("name", ["immediate.Immediate", "dummy.Dummy"])
def test_the_decorator_works_under_the_frameworks_own_backends(name):
    path = f"{FRAMEWORK}.tasks.backends.{name}Backend".replace("django_tasks.tasks", "django_tasks")
    with override_settings(TASKS={"default": {"BACKEND": path}}):
        made = queue_task(max_attempts=3, backoff=work.soon, dedup_key="a")(post.weigh.func)
        result = made.using(timeout=3).enqueue([1, 2])
        assert result.args == [[1, 2]]
        with pytest.raises(InvalidTask, match="is not SqlQueueBackend"):
            made.enqueue_many([])


def test_a_payload_keeps_only_what_using_changed():
    job = task_backends["default"].new_job(post.weigh, [], {})
    assert sorted(job.payload) == ["args", "kwargs", "task"]
    assert sorted(job.payload["task"]) == ["backend", "id", "mark"]
    job = task_backends["default"].new_job(post.weigh.using(ref="a", timeout=2), [], {})
    assert json.loads(json.dumps(job.payload["task"]["using"])) == {"ref": "a", "timeout": 2.0}
