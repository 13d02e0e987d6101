"""A claim finds its jobs by the index, whatever else is in the table and whatever is analysed."""

import re
import time

from django.db import connection, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job

WEEK = 7 * 24 * 3600
KINDS = ["worker.one", "worker.two"]


class ClaimPlanTests(TestCase):
    """Ten thousand settled jobs and as many of the future, fresh in, never analysed."""

    @classmethod
    def setUpTestData(cls):
        Job.objects.enqueue_many([NewJob("worker.one") for _ in range(10_000)])
        now = Job.objects.all().engine.now()
        Job.objects.update(status="done", finished_at=now)
        Job.objects.enqueue_many(
            [NewJob("worker.one", priority=100, delay=WEEK + n) for n in range(10_000)]
        )
        Job.objects.enqueue_many([NewJob("worker.foreign") for _ in range(5_000)])

    def plans_of(self, call) -> list[str]:
        """Return how the statements of a call on jobs would be carried out, as one text each."""
        with CaptureQueriesContext(connection) as captured:
            call()
        statements = [each["sql"] for each in captured.captured_queries]
        return [self._plan(sql) for sql in statements if "django_sqlqueue_job" in sql]

    def _plan(self, sql: str) -> str:
        how = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql" and "UPDATE" in sql:
                # As a claim of its own transaction does; a test's is never its own.
                from django_sqlqueue.engines.postgresql import PLAIN_PLANS

                cursor.execute(PLAIN_PLANS)
            cursor.execute(how + sql.replace("%", "%%"))
            return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())

    def check(self, plan: str) -> None:
        self.assertNotRegex(plan, r"Seq Scan on django_sqlqueue_job")
        self.assertNotRegex(plan, r"SCAN django_sqlqueue_job(?! USING)")
        self.assertNotRegex(plan, r"django_sqlqueue_job \S*\s*ALL")
        self.assertNotRegex(plan, r"Bitmap Heap Scan on django_sqlqueue_job")

    def test_one_ready_job_behind_ten_thousand_of_the_future_is_found_at_once(self):
        job = Job.objects.enqueue("worker.two")
        started = time.monotonic()
        claimed = Job.objects.claim("me", kinds=KINDS, limit=10)
        self.assertLess(time.monotonic() - started, 0.5)
        self.assertEqual([each.pk for each in claimed], [job.pk])

    def test_a_claim_walks_the_index_and_sorts_no_backlog(self):
        Job.objects.enqueue_many([NewJob("worker.two") for _ in range(50)])
        plans = self.plans_of(lambda: Job.objects.claim("me", kinds=KINDS, limit=10))
        self.assertTrue(plans)
        self.assertTrue(any("sqlqueue_claim_idx" in plan for plan in plans))
        for plan in plans:
            self.check(plan)
            self.assertNotRegex(plan, "(?i)filesort")

    def test_looking_at_an_empty_queue_walks_the_index(self):
        for call in (
            lambda: Job.objects.claim("me", kinds=KINDS, limit=10),
            lambda: Job.objects.next_due(kinds=KINDS),
            lambda: Job.objects.is_due(kinds=KINDS),
        ):
            plans = self.plans_of(call)
            self.assertTrue(plans)
            for plan in plans:
                self.check(plan)

    def test_the_sweep_walks_the_index_of_leases(self):
        Job.objects.enqueue("worker.two")
        Job.objects.claim("lost", kinds=KINDS, lease=0.001)
        time.sleep(0.01)
        plans = self.plans_of(lambda: self.assertEqual(Job.objects.reclaim_expired(), 1))
        self.assertGreater(len(plans), 1)
        # One engine looks into its indexes while it still plans.
        known = re.compile(r"sqlqueue_\w+_idx|PRIMARY|_pkey|optimized away|min/max|const tables")
        for plan in plans:
            self.check(plan)
            self.assertRegex(plan, known)

    def test_empty_claims_cost_the_same_beside_a_backlog_and_without(self):
        def median() -> float:
            times = []
            for _ in range(31):
                started = time.perf_counter()
                self.assertEqual(Job.objects.claim("me", kinds=KINDS, limit=10), [])
                times.append(time.perf_counter() - started)
            return sorted(times)[15]

        beside = median()
        Job.objects.all()._raw_delete(connection.alias)
        empty = median()
        self.assertLess(beside, 5 * empty + 0.01)
