"""Connecting the receivers, and a broken one where OBSERVER is "broken"."""

import os
import sys

from django.apps import AppConfig


class ObserverConfig(AppConfig):
    name = "tests.tasks.observer"

    def ready(self):
        from tests.tasks.post.framework import task_enqueued, task_finished, task_started

        if os.environ.get("OBSERVER") == "broken":
            for signal in (task_started, task_finished):
                signal.connect(break_down)
        if os.environ.get("OBSERVER") == "asks":
            for signal in (task_enqueued, task_started, task_finished):
                signal.connect(ask_the_table)
        for name, signal in (
            ("enqueued", task_enqueued),
            ("started", task_started),
            ("finished", task_finished),
        ):
            signal.connect(write_down(name), weak=False)


def break_down(sender, **kwargs):
    raise RuntimeError("a receiver broke")


def ask_the_table(sender, task_result, **kwargs):
    """Write down what others see of the task while a signal is sent."""
    from tests.testapp.models import Effect

    seen = sender("default", {}).get_result(task_result.id)
    ended = seen.finished_at is not None
    Effect.objects.create(name=f"{task_result.task.name} is {seen.status}", n=ended)


def write_down(name):
    def receiver(sender, task_result, **kwargs):
        from tests.testapp.models import Effect

        error = sys.exc_info()[0]
        words = [name, task_result.task.name, task_result.status, sender.__name__]
        if name == "finished":
            words.append(error.__name__ if error else "-")
        Effect.objects.create(name=" ".join(words), n=task_result.attempts)

    return receiver
