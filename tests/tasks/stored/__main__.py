"""Write the rows anew: with Django 5.2 and django-tasks, `python -m tests.tasks.stored`.

Each is made by what a project and a worker call; nothing is written by hand. The tests want
them to be hours old: `faketime '5 days ago' python -m tests.tasks.stored`.
"""

import os
import sys
import tempfile
from datetime import UTC, datetime, timedelta

import django

# A moment after what is enqueued below.
MOMENT = datetime.now(UTC) + timedelta(minutes=1)
WORKER = "old-host:1:worker"


def main() -> int:
    if django.VERSION >= (6, 0):
        sys.exit("These rows are those of Django 5.2.")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/rows.sqlite3"
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        django.setup()
        from django.core.management import call_command

        call_command("migrate", run_syncdb=True, verbosity=0)
        make_rows()
    return 0


def make_rows():
    from django_sqlqueue import Backoff, execution
    from django_sqlqueue.models import Attempt, Job
    from django_sqlqueue.testing import run_jobs
    from tests.tasks import work
    from tests.tasks.post import tasks as post
    from tests.tasks.stored import rows

    names = {}

    def ended(name, result, *moments):
        """Let a task run at these minutes, and all others wait."""
        names[name] = result.id
        for minute in moments:
            assert run_jobs(now=MOMENT + timedelta(minutes=minute)) == 1

    def claimed(name, result):
        names[name] = result.id
        return Job.objects.claim_next(WORKER, lease=30, now=MOMENT)

    ended("successful", post.weigh.enqueue([3, 4]), 0)
    ended("coroutine", post.deliver.enqueue("x"), 0)
    ended("with context", post.number.enqueue(5), 0)
    ended("at last", work.succeed_on.enqueue(3), 0, 1, 2)
    ended("failed", post.lose.enqueue("letter"), 0)
    ended("of the framework", post.look_for.enqueue("none"), 0)
    ended("renamed", post.hurry.enqueue(101), 0)
    ended("unstorable", post.return_a_function.enqueue(), 0)
    ended("expired", post.weigh.using(deadline=MOMENT).enqueue([]), 1)
    ended("cancelled", post.weigh.enqueue([]))
    Job.objects.filter(status="ready").cancel()
    claimed("lost", post.weigh.enqueue([1]))
    Job.objects.reclaim_expired(now=MOMENT + timedelta(minutes=1))
    slow = claimed("timed out", work.sleep.enqueue(9))
    Job.objects.all().settle(slow, execution.timed_out(slow), now=MOMENT)
    ended("scheduled", work.note.schedule("stored", "scheduled", every=3600), 0)
    ended("to try again", work.fail_slowly.enqueue(), 0)
    claimed("running", work.sleep_first.enqueue(0))
    for name, waiting in (
        ("waiting", post.weigh.enqueue([5, 6])),
        ("waiting coroutine", post.number_on_loop.enqueue()),
        ("waiting for its time", post.frank.using(run_after=far_away()).enqueue("letter")),
        (
            "waiting with options",
            work.succeed_on.using(
                queue_name="letters", priority=3, max_attempts=7, dedup_key="k", ref="r", timeout=5,
                deadline=timedelta(days=30_000), backoff=Backoff(base=0, factor=1, cap=0),
            ).enqueue(1),
        ),
    ):  # fmt: skip
        names[name] = waiting.id
    rows.write(names, [*Job.objects.order_by("pk"), *Attempt.objects.order_by("pk")])


def far_away() -> datetime:
    return datetime(2090, 1, 1, tzinfo=UTC)


if __name__ == "__main__":
    sys.exit(main())
