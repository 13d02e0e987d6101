"""Tasks at the edges: settings that change, rows that lie, arguments and options of every kind."""

import asyncio
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django import VERSION
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as HypothesisTestCase

from django_sqlqueue import Backoff, execution
from django_sqlqueue.backend import QueueTask, SqlQueueBackend
from django_sqlqueue.backend.marks import mark_of
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.processes import spawn_python
from tests.tasks import work
from tests.tasks.post import framework
from tests.tasks.post import tasks as post
from tests.tasks.post.framework import (
    TaskResultStatus,
    task_backends,
    task_finished,
    task_started,
)
from tests.testapp.models import Effect

BACKEND = {"BACKEND": "django_sqlqueue.backend.SqlQueueBackend"}
READY, FAILED = TaskResultStatus.READY, TaskResultStatus.FAILED
SUCCESSFUL = TaskResultStatus.SUCCESSFUL


def ran(result):
    run_jobs()
    result.refresh()
    return result


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.sampled_from([-100, 7, 100, None]),
        "queue_name": st.sampled_from(["letters", "default", None]),
        "backend": st.sampled_from(["any_queue", "default", None]),
        "run_after": st.sampled_from(
            [datetime(2030, 1, 1, tzinfo=UTC), timezone.now(), timedelta(hours=1), None]
        ),
        "dedup_key": st.sampled_from(["k", "é" * 255, " ", None]),
        "max_attempts": st.sampled_from([1, 32767, None]),
        "backoff": st.sampled_from([Backoff(), Backoff(0, 1, 0, 0), None]),
        "deadline": st.sampled_from(
            [datetime(2031, 1, 1, tzinfo=UTC), timedelta(days=2), timedelta(0), None]
        ),
        "timeout": st.sampled_from([1, 0.25, timedelta(minutes=1), None]),
        "ref": st.sampled_from(["", "library:42", None]),
    },
)


class UsingTests(HypothesisTestCase):
    @given(st.sampled_from([post.weigh, post.deliver, work.alone, work.low]), CHANGES, CHANGES)
    def test_whatever_using_says_is_in_the_result_and_its_copies(self, task, first, second):
        Job.objects.all().remove()
        changed = task.using(**first).using(**second)
        result = changed.enqueue()
        stored = changed.get_result(result.id)
        assert stored == result
        assert stored.task == changed
        assert stored.backend == changed.backend
        assert pickle.loads(pickle.dumps(stored)) == stored
        for name, value in {**first, **{k: v for k, v in second.items() if v is not None}}.items():
            if value is not None and not isinstance(value, timedelta):
                assert getattr(stored.task, name) == value

    def test_a_whole_priority_of_any_type_is_stored_as_a_number(self):
        for given_, stored in ((3.0, 3), (True, 1), (-0.0, 0)):
            result = post.weigh.using(priority=given_).enqueue([1])
            job = Job.objects.get(pk=result.id.partition("-")[0])
            assert (type(job.priority), job.priority) == (int, stored)
            assert post.weigh.get_result(result.id) == result

    @override_settings(
        TASKS={
            "default": {
                **BACKEND,
                "OPTIONS": {"dedup_key": "only one", "deadline": timedelta(hours=1), "timeout": 9},
            }
        }
    )
    def test_every_option_may_stand_in_the_settings(self):
        first, second = post.weigh.enqueue([1]), post.weigh.enqueue([2])
        assert second == first
        job = Job.objects.get()
        assert job.dedup_key == "only one"
        assert job.deadline - job.created_at > timedelta(minutes=59)
        assert execution.timeout_of(job) == 9
        assert post.weigh.using(dedup_key="another").enqueue([3]) != first


class ChangedSettingsTests(TestCase):
    def test_a_queue_that_is_taken_out_of_the_settings_is_still_served(self):
        result = post.number.using(queue_name="letters").enqueue(1)
        with override_settings(TASKS={"default": {**BACKEND, "QUEUES": ["default"]}}):
            assert ran(result).return_value == [result.id, 2]
            assert result.task.queue_name == "letters"

    def test_what_an_alias_enqueued_that_is_gone_runs_all_the_same(self):
        result = post.number.using(backend="any_queue").enqueue(1)
        failing = post.lose.using(backend="any_queue").enqueue("x")
        with override_settings(TASKS={"default": BACKEND}):
            run_jobs()
            assert post.number.get_result(result.id).return_value == [result.id, 2]
            assert post.lose.get_result(failing.id).errors[0].exception_class is LookupError

    def test_what_waits_runs_also_under_settings_that_name_another_backend(self):
        result, failing = post.number.enqueue(1), post.lose.enqueue("x")
        name = "django.tasks" if VERSION >= (6, 0) else "django_tasks"
        immediate = {"BACKEND": f"{name}.backends.immediate.ImmediateBackend"}
        with override_settings(TASKS={"default": immediate}):
            run_jobs()
        assert post.number.get_result(result.id).return_value == [result.id, 2]
        assert post.lose.get_result(failing.id).status == FAILED

    def test_two_backends_share_the_table_and_keep_apart(self):
        mine, other = post.weigh.enqueue([1]), post.weigh.using(backend="any_queue").enqueue([2])
        run_jobs()
        for alias in ("default", "any_queue"):
            backend = task_backends[alias]
            assert backend.get_result(mine.id).backend == "default"
            assert backend.get_result(other.id).backend == "any_queue"


class LyingRowTests(TestCase):
    def test_what_is_no_task_is_not_called_even_with_a_good_mark(self):
        kinds = (
            "os.mkdir", "tests.tasks.work.plain", "tests.tasks.work.Body.in_a_class_body",
            "tests.tasks.work.Effect.objects.create", "tests.tasks.post.tasks", "builtins.print",
            # A task, under another name than its own.
            "tests.tasks.test_hard_cases.imported",
        )  # fmt: skip
        for kind in kinds:
            label = {"mark": mark_of(kind), "backend": "default", "id": "0" * 16}
            Job.objects.enqueue(kind, {"args": ["x"], "task": label}, max_attempts=1)
        with self.assertNoLogs("django.dispatch", "ERROR"):
            run_jobs()
            Job.objects.all().cancel()
        assert not Job.objects.filter(status="done").exists()
        assert not Effect.objects.exists()

    def test_labels_that_hold_anything_do_no_harm(self):
        labels = (
            None, [], 5, {"backend": []}, {"backend": {"a": 1}}, {"using": 5}, {"mark": []},
            {"using": {"run_after": "x", "deadline": "y", "timeout": "z", "backoff": [1]}},
            {"using": {"func": "os.mkdir", "priority": 1000, "max_attempts": 10**9}}, {"id": []},
        )  # fmt: skip
        for label in labels:
            with self.subTest(label=label):
                payload = {"args": [[1]], "task": label}
                job = Job.objects.enqueue(post.weigh.module_path, payload, max_attempts=1)
                run_jobs()
                job.refresh_from_db()
                assert job.status == "done"

    def test_a_result_that_holds_anything_can_be_read(self):
        for stored in ("x", 5, [], {"attempts": 5}, {"attempts": [{"attempt": 1}]}):
            with self.subTest(result=stored):
                result = post.weigh.enqueue([1])
                job = Job.objects.claim_next("a worker", lease=60)
                job.set_result(stored)
                job.abandon("x")
                found = post.weigh.get_result(result.id)
                assert (found.status, found.attempts) == (FAILED, 1)

    def test_a_settled_job_whose_function_is_gone_is_announced_to_nobody(self):
        heard = []

        def hear(sender, **kwargs):
            heard.append(sender)

        task_finished.connect(hear)
        self.addCleanup(task_finished.disconnect, hear)
        kind = "tests.tasks.post.tasks.gone"
        Job.objects.enqueue(kind, {"args": [], "task": {"mark": mark_of(kind)}})
        with self.assertNoLogs("django.dispatch", "ERROR"):
            assert Job.objects.all().cancel() == 1
        assert heard == []


imported = post.weigh


class ArgumentTests(TestCase):
    def test_arguments_over_the_size_limit_are_refused_before_any_sql(self):
        with self.assertNumQueries(0), self.assertRaisesMessage(ValueError, "MAX_PAYLOAD_BYTES"):
            post.weigh.enqueue(["x" * 1000] * 5000)

    def test_a_return_value_over_the_limit_fails_the_task(self):
        result = work.repeat.enqueue(10_000_000)
        assert ran(result).status == FAILED
        assert result.errors[0].exception_class is ValueError

    def test_finished_results_are_pickled_too(self):
        for result in (ran(post.weigh.enqueue([1])), ran(post.lose.enqueue("x"))):
            again = pickle.loads(pickle.dumps(result))
            assert again == result
            assert again._return_value == result._return_value

    def test_each_result_names_the_worker_that_ran_it(self):
        results = [work.note.enqueue("x") for _ in range(3)]
        for worker in ("one", "two", "three"):
            execution.run(Job.objects.claim_next(worker, lease=60))
        for result, worker in zip(results, ("one", "two", "three"), strict=True):
            result.refresh()
            assert (result.status, result.worker_ids) == (SUCCESSFUL, [worker])
            assert result.return_value is None

    def test_a_task_that_returns_nothing_at_last_keeps_its_errors(self):
        result = post.lose.using(max_attempts=2).enqueue("x")
        run_jobs()
        moment = timezone.now() + timedelta(hours=1)
        job = Job.objects.claim_next("second", lease=60, now=moment)
        job.kind = work.forget.module_path
        execution.run(job, moment)
        result.refresh()
        assert (result.status, result.return_value) == (SUCCESSFUL, None)
        assert [error.exception_class for error in result.errors] == [LookupError]


class ReceiverTests(TestCase):
    def test_receivers_may_be_coroutines_or_broken_for_any_task(self):
        heard = []

        async def hear(sender, task_result, **kwargs):
            heard.append((task_result.task.name, str(task_result.status)))

        def break_down(sender, **kwargs):
            raise SystemError("a receiver broke")

        for signal in (task_started, task_finished):
            for receiver in (break_down, hear):
                signal.connect(receiver)
                self.addCleanup(signal.disconnect, receiver)
        results = [post.weigh.enqueue([1]), post.deliver.enqueue("x")]
        with self.assertLogs("django.dispatch", "ERROR"):
            run_jobs()
        for result in results:
            result.refresh()
            assert result.status == SUCCESSFUL
        assert heard == [
            ("weigh", "RUNNING"), ("weigh", "SUCCESSFUL"),
            ("deliver", "RUNNING"), ("deliver", "SUCCESSFUL"),
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LoudTask(QueueTask):
    """A project's own Task class."""

    volume: int = 2

    def call(self, *args, **kwargs):
        return QueueTask.call(self, *args, **kwargs) + "!" * self.volume


class LoudBackend(SqlQueueBackend):
    task_class = LoudTask


def loud(function):
    return LoudTask(
        func=function, priority=0, queue_name="default", backend="default", run_after=None
    )


@loud
def shout(word):
    return word.upper()


class OwnClassesTests(TestCase):
    @override_settings(TASKS={"default": {"BACKEND": f"{__name__}.LoudBackend"}})
    def test_a_project_may_have_a_task_class_and_a_backend_of_its_own(self):
        heard = []

        def hear(sender, **kwargs):
            heard.append(sender)

        task_finished.connect(hear)
        self.addCleanup(task_finished.disconnect, hear)
        result = ran(shout.using(ref="a").enqueue("hey"))
        assert result.return_value == "HEY!!"
        assert isinstance(shout.get_result(result.id).task, LoudTask)
        assert heard == [LoudBackend]


class LoopTests(TransactionTestCase):
    def test_many_are_enqueued_and_asked_for_side_by_side(self):
        async def all_at_once():
            results = await asyncio.gather(*(post.weigh.aenqueue([n]) for n in range(8)))
            backend = task_backends["default"]
            return results, await asyncio.gather(*(backend.aget_result(r.id) for r in results))

        results, found = async_to_sync(all_at_once)()
        assert results == found
        assert sorted(result.args[0][0] for result in results) == list(range(8))


class StartTests(SimpleTestCase):
    """In processes of their own, as they are about what is there when one starts."""

    def run_python(self, code, settings="tests.settings"):
        process = spawn_python("-c", code, settings=settings)
        process.wait(60)
        return process.output

    def test_a_task_of_the_script_that_was_started_is_refused(self):
        code = (
            "import django; django.setup()\n"
            "from django_sqlqueue import task\n"
            "@task\n"
            "def lost(): pass\n"
            "try: lost.enqueue()\n"
            "except Exception as error: print(error)\n"
        )
        assert "No worker could find this task: '__main__.lost'" in self.run_python(code)

    def test_tasks_are_made_before_the_apps_are_ready(self):
        code = (
            "from django.apps import apps\n"
            "from tests.tasks.post.tasks import weigh\n"
            "from django_sqlqueue import task\n"
            "print(weigh.using(priority=3).priority, apps.ready)\n"
        )
        assert self.run_python(code) == "3 False\n"

    def test_a_project_without_our_app_is_told_so(self):
        code = (
            "import django; from django.conf import settings\n"
            "apps = [] if django.VERSION >= (6, 0) else ['django_tasks']\n"
            "settings.configure(INSTALLED_APPS=apps, TASKS={'default': {'BACKEND': "
            "'django_sqlqueue.backend.SqlQueueBackend'}})\n"
            "django.setup()\n"
            "from django_sqlqueue import task\n"
            "from django.core.checks import run_checks\n"
            "print([problem.id for problem in run_checks()])\n"
        )
        assert self.run_python(code) == "['sqlqueue.E101']\n"


@pytest.mark.skipif((6, 0) <= VERSION < (6, 1), reason="6.0's decorator takes no options")
def test_the_frameworks_decorator_takes_our_options():
    made = framework.task(max_attempts=3, ref="a", dedup_key="k")(post.weigh.func)
    assert isinstance(made, QueueTask)
    assert (made.max_attempts, made.ref, made.dedup_key) == (3, "a", "k")


@pytest.mark.skipif(VERSION < (6, 0), reason="there it is the framework")
def test_a_library_that_uses_the_backport_makes_our_tasks_too():
    backport = pytest.importorskip("django_tasks")
    made = backport.task(post.weigh.func)
    assert isinstance(made, QueueTask)
    assert isinstance(made.get_backend(), SqlQueueBackend)
