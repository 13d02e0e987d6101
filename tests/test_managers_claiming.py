"""Taking jobs: which, in which order, for how long, and what a look at the queue tells."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Job, PausedQueue

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
KIND = "shop.send_receipt"


def put(kind: str = KIND, **options: Any) -> Job:
    job = Job.objects.enqueue(kind, **{"run_at": NOON, **options})
    assert job is not None
    return job


def claimed(**options: Any) -> list[int]:
    jobs = Job.objects.claim("runner", **{"limit": 100, "now": NOON, **options})
    return [job.id for job in jobs]


class ClaimTests(TestCase):
    def test_a_row_whose_time_is_none_is_left_alone_and_keeps_no_other_from_being_claimed(self):
        if connection.vendor != "sqlite":
            self.skipTest("The column holds nothing but times.")
        with connection.cursor() as cursor:
            for broken in ("''", "1790000000"):
                cursor.execute(
                    f"INSERT INTO django_sqlqueue_job (kind, run_at) VALUES ('{KIND}', {broken})"
                )
        good = put()
        self.assertEqual(claimed(), [good.id])
        self.assertEqual(Job.objects.count_live(KIND), 3)

    def test_a_claim_takes_the_first_jobs_of_any_number_of_kinds_and_queues(self):
        lanes = range(1000)
        Job.objects.enqueue_many(
            [NewJob(f"k{n // 10}", queue=f"q{n % 10}", run_at=NOON - n * TICK) for n in lanes]
        )
        jobs = Job.objects.claim("runner", limit=3, now=NOON)
        self.assertEqual(
            [(job.kind, job.queue) for job in jobs], [("k99", "q9"), ("k99", "q8"), ("k99", "q7")]
        )

    def test_a_claim_writes_the_lease_and_counts_the_attempt(self):
        put()
        (job,) = Job.objects.claim("runner-1", lease=30, now=NOON)
        self.assertEqual((job.status, job.lease_owner), ("running", "runner-1"))
        self.assertEqual((job.attempts, job.claims), (1, 1))
        self.assertEqual((job.started_at, job.lease_until), (NOON, NOON + timedelta(seconds=30)))
        self.assertEqual(job.updated_at, NOON)
        self.assertIsNone(job.finished_at)

    def test_the_jobs_returned_are_the_rows_stored(self):
        put(payload={"a": [1, "ü"]}, dedup_key="k", ref="r", deadline=NOON + MINUTE)
        (job,) = Job.objects.claim("runner", now=NOON)
        stored = Job.objects.get(pk=job.pk)
        for field in Job._meta.concrete_fields:
            with self.subTest(field=field.name):
                self.assertEqual(getattr(job, field.attname), getattr(stored, field.attname))

    def test_without_now_the_databases_clock_is_used(self):
        due = Job.objects.enqueue(KIND)
        Job.objects.enqueue(KIND, delay=3600)
        (job,) = Job.objects.claim("runner", limit=10, lease=timedelta(minutes=5))
        self.assertEqual(job.id, due.id)
        self.assertEqual(job.lease_until - job.started_at, timedelta(minutes=5))
        self.assertLess(abs(job.started_at - datetime.now(UTC)), timedelta(seconds=20))

    def test_a_claim_starts_with_no_progress(self):
        put()
        (job,) = Job.objects.claim("runner", now=NOON)
        job.report_progress(50, "half")
        self.assertTrue(job.retry(NOON, "again"))
        (job,) = Job.objects.claim("runner", now=NOON)
        self.assertEqual((job.progress, job.progress_note), (None, ""))

    def test_a_running_job_is_not_claimed_again(self):
        put()
        self.assertEqual(len(claimed()), 1)
        self.assertEqual(claimed(now=NOON + MINUTE), [])

    def test_a_job_is_due_from_its_run_at_on(self):
        job = put(run_at=NOON + TICK)
        self.assertEqual(claimed(now=NOON), [])
        self.assertEqual(claimed(now=NOON + TICK), [job.id])

    def test_no_more_than_the_limit_is_taken(self):
        for _ in range(5):
            put()
        self.assertEqual(len(claimed(limit=3)), 3)
        self.assertEqual(Job.objects.filter(status="ready").count(), 2)

    def test_claim_next_takes_one_job_or_none(self):
        first, _ = put(), put()
        self.assertEqual(Job.objects.claim_next("runner", now=NOON), first)
        self.assertIsNotNone(Job.objects.claim_next("runner", now=NOON, kinds=[KIND]))
        self.assertIsNone(Job.objects.claim_next("runner", now=NOON))

    def test_bad_arguments_are_refused_before_any_statement(self):
        for options in (
            {"owner": ""},
            {"owner": "o" * 201},
            {"limit": 0},
            {"lease": -1},
            {"kinds": KIND},
            {"queues": "mail"},
            {"now": datetime(2026, 7, 1)},  # noqa: DTZ001
        ):
            field = next(iter(options))
            with self.subTest(**options), self.assertNumQueries(0):
                with self.assertRaises(InvalidJob) as caught:
                    Job.objects.claim(**{"owner": "runner", **options})
                self.assertTrue(str(caught.exception).startswith(field))

    def test_an_empty_claim_takes_no_lock_for_writing(self):
        put(run_at=NOON + MINUTE)
        with CaptureQueriesContext(connection) as queries:
            self.assertEqual(claimed(), [])
        writes = [query for query in queries.captured_queries if query["sql"].startswith("UPDATE")]
        self.assertEqual(writes, [])


class OrderTests(TestCase):
    def test_the_jobs_of_one_bulk_come_in_the_order_given(self):
        Job.objects.enqueue_many([NewJob(KIND, n, run_at=NOON) for n in range(200)])
        order: list[int] = []
        while jobs := Job.objects.claim("runner", limit=7, now=NOON):
            order += [job.payload for job in jobs]
        self.assertEqual(order, list(range(200)))

    def test_a_bulk_without_times_comes_in_the_order_given_too(self):
        Job.objects.enqueue_many([(KIND, n) for n in range(200)])
        order = [job.payload for job in Job.objects.claim("runner", limit=200)]
        self.assertEqual(order, list(range(200)))

    def test_priority_goes_before_run_at_and_run_at_before_id(self):
        late = put(priority=1)
        early = put(priority=1, run_at=NOON - TICK)
        urgent = put(priority=100)
        lowest = put(priority=-100, run_at=NOON - MINUTE)
        middle, twin = put(), put()
        expected = [urgent.id, early.id, late.id, middle.id, twin.id, lowest.id]
        self.assertEqual(claimed(), expected)

    def test_the_order_runs_across_kinds_and_queues(self):
        dice = random.Random(7)
        for _ in range(120):
            put(
                dice.choice(["a", "b", "c"]),
                queue=dice.choice(["x", "y"]),
                priority=dice.choice([-100, -1, 0, 1, 100]),
                run_at=NOON - dice.randrange(4) * MINUTE,
            )
        jobs = sorted(Job.objects.all(), key=lambda job: (-job.priority, job.run_at, job.id))
        order: list[int] = []
        while some := claimed(limit=11):
            order += some
        self.assertEqual(order, [job.id for job in jobs])

    def test_a_retried_job_goes_back_behind_those_due_before_it(self):
        first, second = put(), put()
        self.assertEqual(claimed(limit=1), [first.id])
        job = Job.objects.get(pk=first.pk)
        job.retry(NOON + TICK, "again")
        self.assertEqual(claimed(now=NOON + MINUTE), [second.id, first.id])


class FilterTests(TestCase):
    def setUp(self):
        self.jobs = {
            (kind, queue): put(kind, queue=queue).id for kind in "abc" for queue in ("x", "y")
        }

    def expect(self, found: list[int], *names: tuple[str, str]) -> None:
        self.assertEqual(sorted(found), sorted(self.jobs[name] for name in names))

    def test_none_means_any(self):
        self.expect(claimed(), *self.jobs)

    def test_only_the_kinds_named_are_claimed(self):
        self.expect(claimed(kinds=["a", "c", "none"]), *[(k, q) for k in "ac" for q in "xy"])

    def test_only_the_queues_named_are_claimed(self):
        self.expect(claimed(queues=["y", "none"]), ("a", "y"), ("b", "y"), ("c", "y"))

    def test_kinds_and_queues_narrow_each_other(self):
        self.expect(claimed(kinds=["a", "b"], queues=["x"]), ("a", "x"), ("b", "x"))

    def test_a_name_given_twice_counts_once(self):
        self.expect(claimed(kinds=["a", "a"], queues=iter(["x", "x"])), ("a", "x"))

    def test_no_kinds_and_no_queues_claim_nothing(self):
        self.assertEqual(claimed(kinds=[]), [])
        self.assertEqual(claimed(queues=[]), [])
        self.assertIsNone(Job.objects.next_due(kinds=[]))

    def test_jobs_of_foreign_kinds_hide_no_own_ones(self):
        for _ in range(30):
            put("foreign", priority=100, run_at=NOON - MINUTE)
        self.expect(claimed(kinds=["b"], limit=2), ("b", "x"), ("b", "y"))

    def test_hundreds_of_kinds_can_be_served(self):
        names = [f"kind {number}" for number in range(250)]
        Job.objects.enqueue_many([NewJob(name, run_at=NOON) for name in names])
        jobs = Job.objects.claim("runner", kinds=names, limit=1000, now=NOON)
        self.assertEqual([job.kind for job in jobs], names)

    def test_hundreds_of_lanes_are_found_without_naming_them(self):
        Job.objects.all().cancel()
        names = [(f"kind {n}", f"queue {n % 7}", n % 5) for n in range(250)]
        Job.objects.enqueue_many(
            [NewJob(kind, queue=queue, priority=p, run_at=NOON) for kind, queue, p in names]
        )
        jobs = Job.objects.claim("runner", limit=1000, now=NOON)
        self.assertEqual({(job.kind, job.queue, job.priority) for job in jobs}, set(names))


class PausedQueueTests(TestCase):
    def setUp(self):
        self.paused = put(queue="mail")
        self.open = put(queue="default", run_at=NOON + MINUTE)
        PausedQueue.objects.create(name="mail")

    def test_nothing_is_claimed_from_a_paused_queue(self):
        later = NOON + MINUTE
        for options in ({}, {"queues": ["mail"]}, {"kinds": [KIND], "queues": ["mail"]}):
            with self.subTest(**options):
                self.assertNotIn(self.paused.id, claimed(now=later, **options))

    def test_the_other_queues_are_served(self):
        self.assertEqual(claimed(now=NOON + MINUTE), [self.open.id])

    def test_a_paused_queue_is_never_due(self):
        self.assertEqual(Job.objects.next_due(), self.open.run_at)
        self.assertIsNone(Job.objects.next_due(queues=["mail"]))

    def test_a_resumed_queue_is_served_again(self):
        PausedQueue.objects.all().delete()
        self.assertEqual(claimed(), [self.paused.id])


class NextDueTests(TestCase):
    def test_an_empty_queue_is_never_due(self):
        self.assertIsNone(Job.objects.next_due())

    def test_the_earliest_ready_job_counts_due_or_not(self):
        put(run_at=NOON + 2 * MINUTE, priority=100)
        put("other", run_at=NOON + MINUTE)
        self.assertEqual(Job.objects.next_due(), NOON + MINUTE)
        self.assertEqual(Job.objects.next_due(kinds=[KIND]), NOON + 2 * MINUTE)

    def test_the_first_end_of_a_lease_counts(self):
        put(), put()
        Job.objects.claim("runner", now=NOON, lease=50)
        Job.objects.claim("runner", now=NOON, lease=40)
        put(run_at=NOON + MINUTE)
        self.assertEqual(Job.objects.next_due(), NOON + timedelta(seconds=40))
        self.assertEqual(Job.objects.next_due(kinds=["none"]), NOON + timedelta(seconds=40))

    def test_settled_jobs_do_not_count(self):
        put()
        (job,) = Job.objects.claim("runner", now=NOON)
        job.complete()
        self.assertIsNone(Job.objects.next_due())


class RenewTests(TestCase):
    def test_a_renewed_lease_counts_from_the_renewal(self):
        put()
        (job,) = Job.objects.claim("runner", now=NOON, lease=30)
        later = NOON + timedelta(seconds=20)
        self.assertEqual(Job.objects.renew([job], 30, now=later), {job.id})
        job.refresh_from_db()
        self.assertEqual(job.lease_until, later + timedelta(seconds=30))
        self.assertEqual((job.status, job.attempts, job.claims), ("running", 1, 1))

    def test_one_job_renews_itself_from_now(self):
        Job.objects.enqueue(KIND)
        (job,) = Job.objects.claim("runner", lease=5)
        self.assertTrue(job.renew(timedelta(hours=1)))
        stored = Job.objects.get(pk=job.pk)
        self.assertGreater(stored.lease_until - job.lease_until, timedelta(minutes=50))

    def test_only_the_claims_that_hold_are_renewed(self):
        for _ in range(4):
            put()
        held, settled, reclaimed, deleted = Job.objects.claim("runner", limit=4, now=NOON, lease=5)
        settled.complete()
        Job.objects.filter(pk=deleted.pk).delete()
        Job.objects.renew([held], 600, now=NOON)
        self.assertEqual(Job.objects.reclaim_expired(NOON + MINUTE), 1)
        self.assertEqual(claimed(now=NOON + MINUTE, lease=5), [reclaimed.id])
        ids = Job.objects.renew([held, settled, reclaimed, deleted], 900, now=NOON)
        self.assertEqual(ids, {held.id})
        reclaimed.refresh_from_db()
        self.assertEqual(reclaimed.lease_until, NOON + MINUTE + timedelta(seconds=5))

    def test_a_job_that_was_asked_to_stop_keeps_its_lease(self):
        put()
        (job,) = Job.objects.claim("runner", now=NOON)
        Job.objects.filter(pk=job.pk).cancel()
        self.assertTrue(job.renew(30))

    def test_hundreds_of_leases_are_renewed_in_one_call(self):
        Job.objects.enqueue_many([NewJob(KIND, run_at=NOON)] * 450)
        jobs = Job.objects.claim("runner", limit=450, now=NOON)
        self.assertEqual(Job.objects.renew(jobs, 600, now=NOON), {job.id for job in jobs})
        until = set(Job.objects.values_list("lease_until", flat=True))
        self.assertEqual(until, {NOON + timedelta(seconds=600)})

    def test_no_jobs_need_no_statement(self):
        with self.assertNumQueries(0):
            self.assertEqual(Job.objects.renew([], 30), set())


class CallersTransactionTests(TransactionTestCase):
    def test_a_claim_that_is_rolled_back_was_none(self):
        put()
        with transaction.atomic():
            self.assertEqual(len(claimed()), 1)
            transaction.set_rollback(True)
        (job,) = Job.objects.claim("runner", now=NOON)
        self.assertEqual((job.attempts, job.claims), (1, 1))
