"""Looking for jobs by key or ref walks an index, on every engine: the table may be large."""

import pytest
from django.db import connection

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job

# In real transactions: gathering statistics ends one on some engines.
pytestmark = pytest.mark.django_db(transaction=True)
ROWS = 3000


@pytest.fixture
def many_jobs():
    Job.objects.enqueue_many(
        [NewJob("testapp.noop", dedup_key=f"k{n:05}", ref=f"r{n}") for n in range(ROWS)]
    )
    Job.objects.filter(dedup_key__gt="k00009").update(
        status="done", finished_at=Job.objects.all().engine.now()
    )
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("ANALYZE TABLE django_sqlqueue_job")
            cursor.fetchall()
        else:
            cursor.execute("ANALYZE")


@pytest.mark.parametrize(
    ("jobs", "index"),
    [
        (lambda: Job.objects.live_by_key().filter(kind="testapp.noop", live_key="k00003"), "live"),
        (lambda: Job.objects.for_ref("r2000"), "ref"),
        (
            lambda: Job.objects.filter(dedup_key="k02000", finished_at__isnull=False).order_by(
                "-pk"
            )[:51],
            "key",
        ),
    ],
)
def test_the_index_is_used(many_jobs, jobs, index):
    assert len(jobs()) == 1
    names = {"live": "sqlqueue_live_key", "ref": "sqlqueue_ref_idx", "key": "sqlqueue_key_idx"}
    assert names[index] in jobs().explain()


def test_a_settled_job_of_the_key_is_not_found(many_jobs):
    assert Job.objects.find_live("testapp.noop", "k00003") is not None
    assert Job.objects.find_live("testapp.noop", "k00010") is None
    assert Job.objects.find_live("other", "k00003") is None
