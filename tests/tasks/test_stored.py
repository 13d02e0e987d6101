"""Results that Django 5.2 and the backport stored, read and run by the Django that is here.

The rows are in stored/django_5_2.json; `python -m tests.tasks.stored` wrote them, with
Django 5.2.19 and django-tasks 0.12.0, by enqueueing and running the tasks of the other tests.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.test import TestCase
from django.utils import timezone

from django_sqlqueue import Backoff
from django_sqlqueue.backend import exceptions as reasons
from django_sqlqueue.exceptions import JobTimeout
from django_sqlqueue.models import Job
from tests.processes import ProcessTestCase, spawn, wait_until
from tests.tasks import work
from tests.tasks.post import framework
from tests.tasks.post import tasks as post
from tests.tasks.post.framework import TaskResultStatus, task_backends
from tests.tasks.stored import rows
from tests.tasks.stored.__main__ import WORKER, far_away
from tests.testapp.models import Effect

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


class StoredResults:
    """The stored rows are in the database; found() asks for a result by its name."""

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        self.ids = rows.load()

    def found(self, name: str) -> Any:
        return task_backends["default"].get_result(self.ids[name])


class ReadingTests(StoredResults, TestCase):
    def test_every_result_is_found_under_the_id_that_enqueue_gave_it(self):
        assert len(self.ids) == Job.objects.count()
        for name, result_id in self.ids.items():
            assert self.found(name).id == result_id

    def test_values_are_those_that_the_tasks_returned(self):
        values = {
            "successful": {"parcels": 2, "grams": 7},
            "coroutine": "delivered to x",
            "with context": [self.ids["with context"], 6],
            "at last": 3,
        }
        for name, value in values.items():
            result = self.found(name)
            assert (result.status, result.return_value) == (SUCCESSFUL, value)
            assert result.enqueued_at < result.started_at <= result.finished_at
            assert timezone.is_aware(result.finished_at)

    def test_failures_name_classes_that_are_here(self):
        classes = {
            "failed": LookupError,
            "of the framework": framework.TaskResultDoesNotExist,
            "renamed": framework.InvalidTask,
            "unstorable": TypeError,
            "expired": reasons.TaskExpired,
            "cancelled": reasons.TaskCancelled,
            "lost": reasons.TaskLost,
            "timed out": JobTimeout,
        }
        for name, cls in classes.items():
            result = self.found(name)
            assert result.status == FAILED, name
            assert [error.exception_class for error in result.errors] == [cls]
            assert result.errors[0].traceback

    def test_each_attempt_has_its_worker_and_its_error(self):
        result = self.found("at last")
        assert (result.attempts, len(set(result.worker_ids))) == (3, 3)
        assert [error.exception_class for error in result.errors] == [LookupError] * 2
        assert "in succeed_on" in result.errors[0].traceback
        assert result.started_at < result.last_attempted_at <= result.finished_at
        assert self.found("lost").worker_ids == [WORKER]

    def test_what_had_not_ended_has_its_status(self):
        result = self.found("to try again")
        assert (result.status, result.attempts, len(result.errors)) == (READY, 1, 1)
        result = self.found("running")
        assert (result.status, result.worker_ids) == (RUNNING, [WORKER])
        for name in ("waiting", "waiting for its time", "waiting with options", "scheduled"):
            result = self.found(name)
            assert (result.status, result.attempts) == (READY, 0), name

    def test_tasks_are_those_that_were_enqueued(self):
        assert self.found("successful").task is post.weigh
        assert self.found("waiting for its time").task == post.frank.using(run_after=far_away())
        assert self.found("waiting with options").task == work.succeed_on.using(
            queue_name="letters", priority=3, max_attempts=7, dedup_key="k", ref="r", timeout=5,
            deadline=timedelta(days=30_000), backoff=Backoff(base=0, factor=1, cap=0),
        )  # fmt: skip

    def test_a_key_is_still_held(self):
        result = work.succeed_on.using(dedup_key="k").enqueue(1)
        assert result.id == self.ids["waiting with options"]


class RunningTests(StoredResults, ProcessTestCase):
    @pytest.mark.processes
    def test_a_worker_runs_what_waited(self):
        spawn("runjobs", settings="tests.tasks.observed")
        values = {
            "waiting": {"parcels": 2, "grams": 11},
            "waiting coroutine": [self.ids["waiting coroutine"], 1],
            "waiting with options": 1,
            "running": "awake",
        }
        for name, value in values.items():
            wait_until(lambda name=name: self.found(name).is_finished, 30)
            result = self.found(name)
            assert (result.status, result.return_value) == (SUCCESSFUL, value)
        lost = self.found("running")
        assert lost.worker_ids[0] == WORKER
        assert (lost.attempts, len(set(lost.worker_ids))) == (2, 2)
        assert [error.exception_class for error in lost.errors] == [reasons.TaskLost]
        wait_until(lambda: len(self.found("to try again").errors) == 2)
        wait_until(lambda: Effect.objects.filter(name="scheduled").count() == 1)
        assert self.found("waiting for its time").status == READY
