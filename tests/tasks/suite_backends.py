"""What stands in for Django's dummy and immediate backends in Django's own tests: ours."""

from typing import Any

from django_sqlqueue.backend import SqlQueueBackend
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs


class Waiting(SqlQueueBackend):
    """Shows what is queued as the dummy backend does; nothing runs."""

    @property
    def results(self) -> list[Any]:
        return [self.get_result(f"{job.pk}-{job.payload['task']['id']}") for job in self._jobs()]

    def clear(self) -> None:
        self._jobs().remove()

    def _jobs(self) -> Any:
        return Job.objects.order_by("pk")


class AtOnce(SqlQueueBackend):
    """Runs each task when it is enqueued, by a claim and a settlement like any worker's."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        run_jobs()
        result.refresh()
        return result
