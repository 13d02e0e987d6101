"""Claims and their ends find their jobs by an index, whatever else is in the table.

And whatever is analysed: the statistics of a queue are as a rule those of another hour.
"""

import re
import time

from django.db import connection, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome

WEEK = 7 * 24 * 3600
KINDS = ["worker.one", "worker.two"]


class PlanTests(TestCase):
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
            if connection.vendor == "postgresql" and "status = 'running'" in sql:
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


class ClaimPlanTests(PlanTests):
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


BY_ID = re.compile(r"_job_pkey|USING INTEGER PRIMARY KEY|PRIMARY PRIMARY|reading const tables")
"""How an engine says that it looks up the ids it was given."""


class EndPlanTests(PlanTests):
    """What ends claims finds them by their ids.

    By the index of leases it would wade through all that was settled since the last clean-up, and
    where a server locks what it reads, lock the claims of others.
    """

    def setUp(self):
        Job.objects.enqueue_many([NewJob("worker.two") for _ in range(600)])

    def analyse(self) -> None:
        if connection.vendor == "mysql":
            self.skipTest("It is told which index to use; to analyse would commit what is written.")
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")

    def check_calls(self) -> None:
        jobs = Job.objects.claim("me", kinds=KINDS, limit=300)
        self.assertEqual(len(jobs), 300)
        outcomes = [Outcome(move="complete", result=str(n)) for n in range(150)]
        various = list(zip(jobs[:150], outcomes, strict=True))
        alike = [(job, Outcome(move="complete")) for job in jobs[150:299]]
        for pairs in (various, alike, [(jobs[299], Outcome(move="complete"))]):
            plans = self.plans_of(
                lambda pairs=pairs: self.assertEqual(
                    len(Job.objects.settle_many(pairs)), len(pairs)
                )
            )
            self.assertTrue(plans)
            for plan in plans:
                self.check(plan)
                self.assertRegex(plan, BY_ID)
                self.assertNotRegex(plan, "BLOOM|using sqlqueue_lease_idx")

    def test_they_are_looked_up_while_statistics_know_of_nothing(self):
        self.check_calls()

    def test_they_are_looked_up_with_statistics_of_a_table_without_claims(self):
        self.analyse()
        self.check_calls()

    def test_they_are_looked_up_with_statistics_of_a_table_with_claims(self):
        Job.objects.claim("another", kinds=KINDS, limit=300)
        self.analyse()
        self.check_calls()

    def test_renewals_read_no_more_than_the_claims(self):
        jobs = Job.objects.claim("me", kinds=KINDS, limit=300)
        plans = self.plans_of(lambda: self.assertEqual(len(Job.objects.renew(jobs, 60)), 300))
        self.assertTrue(plans)
        for plan in plans:
            self.assertNotRegex(plan, "Seq Scan on django_sqlqueue_job|BLOOM")
            self.assertRegex(plan, f"{BY_ID.pattern}|INDEX sqlqueue_lease_idx")
