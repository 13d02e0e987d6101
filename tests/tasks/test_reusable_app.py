"""An app that knows only the framework behaves alike on its immediate backend and on ours."""

from typing import Any

from django import VERSION
from django.test import TestCase, override_settings

from django_sqlqueue.testing import run_jobs
from tests.tasks.post import tasks as post

FRAMEWORK = "django.tasks" if VERSION >= (6, 0) else "django_tasks"
IMMEDIATE = {"BACKEND": f"{FRAMEWORK}.backends.immediate.ImmediateBackend"}
OURS = {
    "BACKEND": "django_sqlqueue.backend.SqlQueueBackend",
    "OPTIONS": {"max_attempts": 1, "store_messages": True},
}

CALLS: tuple[Any, ...] = (
    (post.weigh, ([1, 2],), {}),
    (post.weigh, (), {"parcels": (3, 4)}),
    (post.weigh, (1, 2, 3), {}),
    (post.frank, (b"letter",), {"stamp": range(2)}),
    (post.deliver, ("x",), {}),
    (post.lose, ("letter",), {}),
    (post.resign, (), {}),
    (post.return_a_function, (), {}),
    (post.return_odd_things, (), {}),
)


def seen(result):
    """What an app can see of a finished result, save for times and names."""
    return {
        "status": result.status,
        "is_finished": result.is_finished,
        "value": result._return_value,
        "arguments": (result.args, result.kwargs),
        "attempts": result.attempts,
        "workers": len(result.worker_ids),
        "errors": [error.exception_class_path for error in result.errors],
        "messages": [error.traceback.splitlines()[-1] for error in result.errors],
        "begun": result.enqueued_at <= result.started_at == result.last_attempted_at,
        "ended": result.started_at <= result.finished_at,
        "task": result.task.func,
        "backend": result.backend,
    }


class ReusableAppTests(TestCase):
    def call_all(self, backend):
        with override_settings(TASKS={"default": backend}):
            results = [task.enqueue(*args, **kwargs) for task, args, kwargs in CALLS]
            if backend is OURS:
                run_jobs()
                for result in results:
                    result.refresh()
            return [seen(result) for result in results]

    def test_it_sees_the_same_results(self):
        for call, immediate, ours in zip(
            CALLS, self.call_all(IMMEDIATE), self.call_all(OURS), strict=True
        ):
            with self.subTest(task=call[0].name, args=call[1]):
                assert ours == immediate

    def test_it_sees_its_own_id_and_attempt(self):
        for task, args in ((post.number, (1,)), (post.number_on_loop, ())):
            with override_settings(TASKS={"default": IMMEDIATE}):
                immediate = task.enqueue(*args)
            with override_settings(TASKS={"default": OURS}):
                ours = task.enqueue(*args)
                run_jobs()
                ours.refresh()
            assert immediate.return_value == [immediate.id, 1 + sum(args)]
            assert ours.return_value == [ours.id, 1 + sum(args)]
