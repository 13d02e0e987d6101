"""Handlers that live as long as a test, and the shortest ways to enqueue, run and look."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.test import SimpleTestCase

from django_sqlqueue import handler
from django_sqlqueue.handlers import Handler, unregister
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs

KIND = "test.handled"

# What stands here is no test case of its own: it is mixed into one.
if TYPE_CHECKING:
    Base = SimpleTestCase
else:
    Base = object


class HandlingMixin(Base):
    """Adds `handle`, `enqueue` and `run_one` to a Django test case."""

    def handle(self, function: Callable[..., Any], kind: str = KIND, **options: Any) -> Handler:
        """Let the function handle jobs of the kind until the test ends."""
        unregister(kind)
        self.addCleanup(unregister, kind)
        return handler(kind, **options)(function)

    def enqueue(self, payload: Any = None, kind: str = KIND, **options: Any) -> Job:
        job = Job.objects.enqueue(kind, payload, **options)
        assert job is not None
        return job

    def run_one(
        self,
        function: Callable[..., Any] | None = None,
        now: datetime | None = None,
        **options: Any,
    ) -> Job:
        """Run the due job (a new one for a function) once, and return it as it is stored then."""
        if function is not None:
            self.handle(function, **options)
            self.enqueue()
        last = Job.objects.latest("id")
        self.assertEqual(run_jobs(limit=1, now=now), 1)
        return Job.objects.get(pk=last.pk)


def raiser(error: BaseException | type[BaseException]) -> Callable[[Job], None]:
    """Return a handler that raises this."""

    def raises(job: Job) -> None:
        raise error

    return raises


def looking(seen: list[Any], *names: str) -> Callable[[Job], None]:
    """Return a handler that notes these attributes of its job."""

    def looks(job: Job) -> None:
        seen.append(tuple(getattr(job, name) for name in names))

    return looks
