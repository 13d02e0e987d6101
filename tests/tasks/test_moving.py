"""Coming from django-tasks-db: what waits there is moved, each result once."""

import uuid
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import TransactionTestCase, modify_settings, override_settings
from django.utils import timezone

from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.tasks.post import tasks as post
from tests.tasks.post.framework import TaskResultDoesNotExist, TaskResultStatus, task_backends

pytest.importorskip("django_tasks_db")

AT_ONCE = datetime(9999, 1, 1, tzinfo=UTC)


@modify_settings(INSTALLED_APPS={"append": "django_tasks_db"})
class MovingTests(TransactionTestCase):
    def setUp(self):
        super().setUp()
        from django_tasks_db.models import DBTaskResult

        self.results = DBTaskResult.objects
        with connection.schema_editor() as editor:
            editor.create_model(DBTaskResult)
        self.addCleanup(self._drop, DBTaskResult)

    def _drop(self, model):
        with connection.schema_editor() as editor:
            editor.delete_model(model)

    def add(self, task=post.weigh, args=([1],), status="READY", **values):
        row = {
            "task_path": getattr(task, "module_path", task),
            "args_kwargs": {"args": list(args), "kwargs": {}},
            "backend_name": "default",
            "run_after": AT_ONCE,
            "status": status,
            "exception_class_path": "",
            "traceback": "",
        }
        return self.results.create(**{**row, **values})

    def move(self, **options):
        out = StringIO()
        call_command("jobs", "import_tasks_db", stdout=out, **options)
        return out.getvalue()

    def test_a_waiting_result_becomes_a_job_under_its_old_id(self):
        row = self.add(post.weigh, ([3, 4],), priority=7, queue_name="letters")
        assert "Moved 1;" in self.move()
        assert not self.results.exists()
        job = Job.objects.get()
        assert (job.kind, job.queue, job.priority) == (post.weigh.module_path, "letters", 7)

        result = task_backends["default"].get_result(str(row.pk))
        assert result.id == str(row.pk)
        assert result.status == TaskResultStatus.READY
        assert result.enqueued_at == row.enqueued_at
        run_jobs()
        result.refresh()
        assert result.return_value == {"parcels": 2, "grams": 7}

    def test_what_waits_for_its_time_goes_on_waiting(self):
        moment = timezone.now() + timedelta(days=1)
        row = self.add(run_after=moment)
        self.move()
        assert Job.objects.get().run_at == moment
        assert task_backends["default"].get_result(str(row.pk)).task.run_after == moment

    def test_what_runs_or_has_ended_stays(self):
        for status in ("RUNNING", "FAILED", "SUCCESSFUL"):
            self.add(status=status)
        assert "Moved 0; 3 that run or have ended stay there." in self.move()
        assert self.results.count() == 3
        assert not Job.objects.exists()

    def test_it_may_be_run_again(self):
        self.add()
        self.move()
        self.add()
        assert "Moved 1;" in self.move()
        assert "Moved 0;" in self.move()
        assert Job.objects.count() == 2

    def test_a_row_that_became_a_job_before_is_not_moved_twice(self):
        row = self.add()
        self.move()
        # As if that run had broken off before it deleted the row.
        self.add(pk=row.pk)
        self.move()
        assert Job.objects.count() == 1
        assert not self.results.exists()

    def test_what_no_task_stands_behind_stays_and_is_named(self):
        good = self.add()
        for name in ("post.tasks.gone", "nowhere.x", "work.plain"):
            self.add(f"tests.tasks.{name}")
        self.add(queue_name="nowhere")
        with pytest.raises(CommandError) as refused:
            self.move()
        assert refused.value.returncode == 1
        assert "4 cannot be moved" in str(refused.value)
        assert "tests.tasks.nowhere.x" in str(refused.value)
        assert "Queue 'nowhere' is not valid" in str(refused.value)
        assert self.results.count() == 4
        assert task_backends["default"].get_result(str(good.pk)).args == [[1]]

    def test_an_alias_that_is_gone_is_replaced_by_the_one_named(self):
        row = self.add(backend_name="gone")
        self.move(backend="any_queue")
        assert task_backends["default"].get_result(str(row.pk)).backend == "any_queue"

    @override_settings(
        TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": []}}
    )
    def test_without_our_backend_nothing_is_moved(self):
        self.add()
        with pytest.raises(CommandError, match="in TASKS is SqlQueueBackend"):
            self.move()
        assert self.results.count() == 1


class WithoutTasksDbTests(TransactionTestCase):
    def test_the_command_says_what_it_needs(self):
        with pytest.raises(CommandError, match="Keep 'django_tasks_db' in INSTALLED_APPS"):
            call_command("jobs", "import_tasks_db")

    def test_an_unknown_old_id_names_no_result(self):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(str(uuid.uuid4()))
