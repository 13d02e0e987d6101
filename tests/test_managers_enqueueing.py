"""Putting jobs in: defaults, duplicates, the caller's transaction, and what it costs."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

from django.db import DatabaseError, connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.test.utils import CaptureQueriesContext

from django_sqlqueue import NewJob
from django_sqlqueue.engines import engine_for
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.managers.enqueueing import COLUMNS
from django_sqlqueue.models import Job
from tests.testapp.models import Effect

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
KIND = "shop.send_receipt"
A_MOMENT = timedelta(seconds=20)


class RollBack(Exception):
    pass


def bulk_statements(rows: int) -> int:
    size = engine_for(connection).rows_at_once(len(COLUMNS))
    return -(-rows // size)


class EnqueueTests(TestCase):
    def enqueue(self, *args: Any, **options: Any) -> Job:
        job = Job.objects.enqueue(*args, **options)
        assert job is not None
        return job

    def test_a_new_job_is_ready_and_due_now(self):
        before = engine_for(connection).now()
        job = self.enqueue(KIND, {"order": 7})
        self.assertEqual((job.kind, job.payload, job.status), (KIND, {"order": 7}, "ready"))
        self.assertEqual((job.attempts, job.claims, job.last_error), (0, 0, ""))
        self.assertIsNone(job.result)
        self.assertLess(abs(job.run_at - before), A_MOMENT)
        self.assertLess(abs(job.created_at - before), A_MOMENT)

    def test_the_job_returned_is_the_row_stored(self):
        options: list[dict[str, Any]] = [
            {},
            {"deadline": 60 * A_MOMENT},
            {
                "dedup_key": "7", "ref": "order:7", "queue": "mail", "priority": -3,
                "run_at": NOON, "deadline": NOON + timedelta(hours=1), "max_attempts": 2,
            },
        ]  # fmt: skip
        for given in options:
            job = self.enqueue(KIND, {"order": [1, None]}, **given)
            stored = Job.objects.get(pk=job.pk)
            for field in Job._meta.concrete_fields:
                with self.subTest(field=field.name, given=given):
                    self.assertEqual(getattr(job, field.attname), getattr(stored, field.attname))
            self.assertFalse(stored._state.adding)
            self.assertEqual(stored._state.db, job._state.db)

    def test_it_takes_one_statement(self):
        with CaptureQueriesContext(connection) as queries:
            Job.objects.enqueue(KIND, {"order": 7}, dedup_key="7", delay=5, deadline=NOON)
        self.assertEqual(len(queries), 1, queries.captured_queries)

    def test_a_duplicate_takes_one_statement_too(self):
        self.enqueue(KIND, dedup_key="7")
        with self.assertNumQueries(1):
            self.assertIsNone(Job.objects.enqueue(KIND, dedup_key="7"))

    def test_a_delay_counts_from_now(self):
        for delay in (90, timedelta(seconds=90)):
            with self.subTest(delay=delay):
                job = self.enqueue(KIND, delay=delay)
                waits = job.run_at - job.created_at
                self.assertLess(abs(waits - timedelta(seconds=90)), A_MOMENT)

    def test_a_deadline_is_an_instant_or_counts_from_now(self):
        self.assertEqual(self.enqueue(KIND, deadline=NOON).deadline, NOON)
        job = self.enqueue(KIND, deadline=timedelta(minutes=5))
        self.assertLess(abs(job.deadline - job.created_at - timedelta(minutes=5)), A_MOMENT)

    def test_instants_keep_their_microseconds_and_their_zone(self):
        instant = datetime(2026, 7, 1, 14, 0, 0, 123457, tzinfo=UTC)
        zone = ZoneInfo("Asia/Kathmandu")
        job = self.enqueue(KIND, run_at=instant.astimezone(zone))
        self.assertEqual(Job.objects.get(pk=job.pk).run_at, instant)

    def test_bad_input_is_refused_before_any_statement(self):
        bad: list[dict[str, Any]] = [
            {"kind": ""},
            {"kind": "k" * 201},
            {"dedup_key": ""},
            {"dedup_key": "a\x00b"},
            {"queue": "q" * 101},
            {"priority": 101},
            {"run_at": NOON, "delay": 5},
            {"run_at": datetime(2026, 7, 1)},  # noqa: DTZ001
            {"delay": -1},
            {"payload": {"at": NOON}},
            {"max_attempts": 0},
        ]
        for options in bad:
            field = next(iter(options))
            with self.subTest(field=field, **options), self.assertNumQueries(0):
                with self.assertRaises(InvalidJob) as caught:
                    Job.objects.enqueue(**{"kind": KIND, **options})
                self.assertTrue(str(caught.exception).startswith(field))


class DefaultsTests(TestCase):
    def test_options_left_out_come_from_the_handler(self):
        job = Job.objects.enqueue("testapp.options")
        self.assertEqual((job.queue, job.priority, job.max_attempts), ("mail", 7, 3))

    def test_given_options_win_over_the_handlers(self):
        job = Job.objects.enqueue("testapp.options", queue="own", priority=0, max_attempts=1)
        self.assertEqual((job.queue, job.priority, job.max_attempts), ("own", 0, 1))

    @override_settings(SQLQUEUE={"MAX_ATTEMPTS": 9})
    def test_what_the_handler_leaves_open_comes_from_the_settings(self):
        self.assertEqual(Job.objects.enqueue("testapp.noop").max_attempts, 9)
        self.assertEqual(Job.objects.enqueue("testapp.options").max_attempts, 3)

    def test_a_kind_without_a_handler_here_is_accepted(self):
        job = Job.objects.enqueue("of.another.process")
        self.assertEqual((job.queue, job.priority, job.max_attempts), ("default", 0, 5))

    def test_bulk_jobs_have_the_same_defaults(self):
        Job.objects.enqueue_many([("testapp.options", None), NewJob("testapp.options", queue="x")])
        rows = Job.objects.order_by("id").values_list("queue", "priority", "max_attempts")
        self.assertEqual(list(rows), [("mail", 7, 3), ("x", 7, 3)])

    @override_settings(SQLQUEUE={"QUEUES": ["default", "mail"]})
    def test_a_queue_outside_the_listed_ones_is_refused(self):
        self.assertIsNotNone(Job.objects.enqueue(KIND, queue="mail"))
        with self.assertRaisesMessage(InvalidJob, "queue 'post' is not listed"):
            Job.objects.enqueue(KIND, queue="post")
        with self.assertRaises(InvalidJob), self.assertNumQueries(0):
            Job.objects.enqueue_many([(KIND, None), NewJob(KIND, queue="post")])


class BulkTests(TestCase):
    def test_a_thousand_jobs_take_one_insert_a_chunk(self):
        with CaptureQueriesContext(connection) as queries:
            self.assertEqual(
                Job.objects.enqueue_many([(KIND, {"n": n}) for n in range(1000)]), 1000
            )
        inserts = [query for query in queries.captured_queries if "INSERT" in query["sql"]]
        self.assertEqual(len(inserts), bulk_statements(1000))
        self.assertEqual(len(queries), len(inserts))

    def test_only_the_duplicates_of_a_bulk_are_left_out(self):
        Job.objects.enqueue(KIND, {"n": "live"}, dedup_key="0")
        jobs = [NewJob(KIND, {"n": n}, dedup_key=str(n)) for n in range(999)]
        jobs.append(NewJob(KIND, {"n": 999}, dedup_key="500"))
        self.assertEqual(Job.objects.enqueue_many(jobs), 998)
        live = {job.dedup_key: job.payload["n"] for job in Job.objects.all()}
        self.assertEqual(live, {"0": "live"} | {str(n): n for n in range(1, 999)})

    def test_every_option_of_a_bulk_job_is_stored(self):
        deadline = NOON + timedelta(days=1)
        Job.objects.enqueue_many(
            [
                NewJob(
                    KIND, [1, {"a": None}], dedup_key="k", ref="order:7", queue="mail",
                    priority=5, run_at=NOON, deadline=deadline, max_attempts=2,
                ),
                NewJob(KIND, None, delay=60, deadline=timedelta(hours=1)),
            ]
        )  # fmt: skip
        plain, full = Job.objects.order_by("run_at").reverse()
        found = (full.payload, full.dedup_key, full.ref, full.queue, full.priority, full.run_at)
        self.assertEqual(found, ([1, {"a": None}], "k", "order:7", "mail", 5, NOON))
        self.assertEqual((full.deadline, full.max_attempts), (deadline, 2))
        self.assertEqual((plain.payload, plain.dedup_key, plain.ref), ({}, None, ""))
        self.assertLess(abs(plain.run_at - plain.created_at - timedelta(minutes=1)), A_MOMENT)
        self.assertLess(abs(plain.deadline - plain.created_at - timedelta(hours=1)), A_MOMENT)

    def test_an_empty_bulk_asks_the_database_nothing(self):
        with self.assertNumQueries(0):
            self.assertEqual(Job.objects.enqueue_many([]), 0)

    def test_a_bulk_takes_any_iterable(self):
        self.assertEqual(Job.objects.enqueue_many((KIND, {"n": n}) for n in range(3)), 3)

    def test_one_bad_job_refuses_the_bulk_before_any_statement(self):
        with self.assertRaises(InvalidJob), self.assertNumQueries(0):
            Job.objects.enqueue_many([(KIND, {"n": 1}), (KIND, {"n": float("nan")})])

    def test_jobs_without_a_key_go_in_as_given(self):
        Job.objects.enqueue_many([(KIND, n) for n in range(250)])
        payloads = Job.objects.order_by("id").values_list("payload", flat=True)
        self.assertEqual(list(payloads), list(range(250)))


class BulkOutsideATransactionTests(TransactionTestCase):
    def test_a_bulk_is_stored_as_a_whole_or_not_at_all(self):
        engine = engine_for(connection)
        insert = engine.insert
        with (
            mock.patch.object(engine, "rows_at_once", return_value=10),
            mock.patch.object(
                engine,
                "insert",
                side_effect=[mock.DEFAULT, DatabaseError("in between")],
                wraps=insert,
            ) as spy,
            self.assertRaisesMessage(DatabaseError, "in between"),
        ):
            Job.objects.enqueue_many([(KIND, {"n": n}) for n in range(20)])
        self.assertEqual(spy.call_count, 2)
        self.assertEqual(Job.objects.count(), 0)


class DjangosOwnVerbsTests(TestCase):
    def test_rows_can_be_made_by_djangos_own_verbs_too(self):
        Job.objects.bulk_create([Job(kind=KIND), Job(kind=KIND, dedup_key="7")])
        Job.objects.create(kind=KIND)
        Job(kind=KIND).save()
        self.assertEqual(len(Job.objects.claim("runner", limit=10)), 4)


class CallersTransactionTests(TransactionTestCase):
    def test_a_job_goes_with_the_transaction_that_is_rolled_back(self):
        with self.assertRaises(RollBack), transaction.atomic():
            Effect.objects.create(name="order")
            Job.objects.enqueue(KIND, dedup_key="7")
            Job.objects.enqueue_many([NewJob(KIND, dedup_key="8")])
            raise RollBack
        self.assertEqual((Job.objects.count(), Effect.objects.count()), (0, 0))
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))

    def test_a_job_goes_with_the_savepoint_that_is_rolled_back(self):
        with transaction.atomic():
            Effect.objects.create(name="order")
            with self.assertRaises(RollBack), transaction.atomic():
                Job.objects.enqueue(KIND, dedup_key="inner")
                raise RollBack
            Job.objects.enqueue(KIND, dedup_key="outer")
        self.assertEqual([job.dedup_key for job in Job.objects.all()], ["outer"])
        self.assertEqual(Effect.objects.count(), 1)

    def test_a_duplicate_leaves_the_transaction_usable(self):
        Job.objects.enqueue(KIND, dedup_key="7")
        with transaction.atomic():
            Effect.objects.create(name="before")
            self.assertIsNone(Job.objects.enqueue(KIND, dedup_key="7"))
            self.assertEqual(Job.objects.enqueue_many([NewJob(KIND, dedup_key="7")]), 0)
            Effect.objects.create(name="after")
        names = Effect.objects.order_by("id").values_list("name", flat=True)
        self.assertEqual(list(names), ["before", "after"])
        self.assertEqual(Job.objects.count(), 1)

    def test_a_refused_job_leaves_the_transaction_usable(self):
        with transaction.atomic():
            Effect.objects.create(name="before")
            with self.assertRaises(InvalidJob):
                Job.objects.enqueue(KIND, {"name": "a\x00b"})
            Effect.objects.create(name="after")
        self.assertEqual(Effect.objects.count(), 2)

    def test_a_transaction_that_read_first_may_enqueue(self):
        with transaction.atomic():
            self.assertFalse(Effect.objects.exists())
            self.assertIsNotNone(Job.objects.enqueue(KIND))
        self.assertEqual(Job.objects.count(), 1)
