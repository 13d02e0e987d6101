"""How often a call speaks with the server, what it tells listeners, and what a failure leaves."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest import mock, skipUnless

from django.db import OperationalError, connection, connections, transaction
from django.db.models.signals import post_init
from django.test import TestCase, TransactionTestCase
from django.test.utils import override_settings

from django_sqlqueue import NewJob
from django_sqlqueue.engines import engine_for
from django_sqlqueue.engines import listening as listening_module
from django_sqlqueue.models import Job

KIND = "shop.send_receipt"
NOTIFIES = connection.vendor == "postgresql"


class ExchangeTests(TransactionTestCase):
    def test_a_job_is_enqueued_in_one_exchange_with_its_wake_up(self):
        with self.assertNumQueries(1):
            job = Job.objects.enqueue(KIND, {"n": 1}, delay=5, deadline=None)
        stored = Job.objects.get()
        for field in Job._meta.concrete_fields:
            with self.subTest(field=field.name):
                self.assertEqual(getattr(job, field.attname), getattr(stored, field.attname))
        self.assertEqual((job._state.adding, job._state.db), (False, "default"))

    def test_a_held_key_is_told_in_one_exchange(self):
        Job.objects.enqueue(KIND, dedup_key="7")
        with self.assertNumQueries(1):
            self.assertIsNone(Job.objects.enqueue(KIND, dedup_key="7"))

    @skipUnless(NOTIFIES, "the others have to look before they claim, or lock")
    def test_a_claim_takes_one_exchange_and_leaves_no_setting_behind(self):
        Job.objects.enqueue(KIND)
        before = planner_settings()
        with self.assertNumQueries(1):
            self.assertEqual(len(Job.objects.claim("me", kinds=[KIND])), 1)
        self.assertEqual(planner_settings(), before)


def planner_settings() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name LIKE 'enable%%'")
        return sorted(cursor.fetchall())


@skipUnless(NOTIFIES, "the engine has no notifications")
class NotificationTests(TransactionTestCase):
    def heard(self, session: Any) -> int:
        return sum(1 for _ in session.notifies(timeout=0.3))

    def test_each_commit_that_adds_jobs_is_heard_once(self):
        with listening() as session:
            Job.objects.enqueue(KIND)
            self.assertEqual(self.heard(session), 1)
            Job.objects.enqueue(KIND, dedup_key="7")
            self.assertEqual(self.heard(session), 1)
            with transaction.atomic():
                Job.objects.enqueue(KIND)
                Job.objects.enqueue(KIND)
                Job.objects.enqueue_many([NewJob(KIND), NewJob(KIND)])
                self.assertEqual(self.heard(session), 0)
            self.assertEqual(self.heard(session), 1)

    def test_what_adds_no_job_is_not_heard(self):
        Job.objects.enqueue(KIND, dedup_key="7")
        with listening() as session:
            Job.objects.enqueue(KIND, dedup_key="7")
            with override_settings(SQLQUEUE={"NOTIFY": False}):
                Job.objects.enqueue(KIND)
            self.assertEqual(self.heard(session), 0)

    def test_a_failed_enqueue_leaves_the_session_as_it_was_and_is_not_heard(self):
        with listening() as session, closing(another_session()) as other:
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = '50ms'")
            other.execute("BEGIN")
            other.execute("LOCK TABLE django_sqlqueue_job")
            try:
                with self.assertRaises(OperationalError):
                    Job.objects.enqueue(KIND)
            finally:
                other.execute("ROLLBACK")
                with connection.cursor() as cursor:
                    cursor.execute("RESET statement_timeout")
            self.assertTrue(connection.get_autocommit())
            self.assertIsNotNone(Job.objects.enqueue(KIND))
            self.assertEqual(Job.objects.count(), 1)
            self.assertEqual(self.heard(session), 1)

    def test_a_job_is_inserted_once_and_told_where_only_its_wake_up_fails(self):
        before = Job.objects.enqueue(KIND)
        with wake_up_failing("55P03"), self.assertLogs("django_sqlqueue", "WARNING"):
            job = Job.objects.enqueue(KIND, {"n": 1})
        self.assertEqual(job, Job.objects.exclude(pk=before.pk).get())
        self.assertEqual((job.payload, job.attempts), ({"n": 1}, 0))
        self.assertTrue(connection.get_autocommit())

    def test_behind_a_pooler_a_failed_wake_up_raises_and_is_not_taken_for_a_conflict(self):
        another = mock.patch.object(type(engine_for(connection)), "server_process", -1)
        with another, wake_up_failing("55P03"), self.assertRaises(OperationalError):
            Job.objects.enqueue(KIND)
        self.assertEqual(Job.objects.count(), 1)

    def test_a_commit_that_fails_inserts_nothing_and_is_done_again(self):
        with commits_failing_once("40001"):
            job = Job.objects.enqueue(KIND)
        self.assertEqual(list(Job.objects.all()), [job])

    def test_where_the_server_binds_parameters_statements_go_one_by_one(self):
        with bound_by_the_server(), listening() as session:
            first, second = Job.objects.enqueue(KIND), Job.objects.enqueue(KIND, dedup_key="7")
            self.assertEqual(self.heard(session), 2)
            claimed = Job.objects.claim("me", kinds=[KIND], limit=2)
            self.assertEqual([job.pk for job in claimed], [first.pk, second.pk])
            self.assertTrue(claimed[0].complete({"sent": True}))
            self.assertTrue(claimed[1].retry(second.run_at, "again"))


def wake_up_failing(code: str) -> Any:
    """Let the NOTIFY fail as where it waits too long for the lock of the whole server."""
    failing = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$"
    return mock.patch.object(listening_module, "NOTIFY", failing)


@contextmanager
def commits_failing_once(code: str) -> Iterator[None]:
    """Let a trigger that waits for the commit refuse the first one."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE commits")
        cursor.execute(
            "CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF nextval('commits') = 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '{code}';"
            " END IF; RETURN NULL; END $$"
        )
        cursor.execute(
            "CREATE CONSTRAINT TRIGGER refuse_once AFTER INSERT ON django_sqlqueue_job"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_once()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refuse_once CASCADE")
            cursor.execute("DROP SEQUENCE commits")


@contextmanager
def bound_by_the_server() -> Iterator[None]:
    before = connections["default"]
    connections["default"] = bound = before.copy()
    bound.settings_dict["OPTIONS"]["server_side_binding"] = True
    try:
        yield
    finally:
        bound.close()
        connections["default"] = before


def another_session() -> Any:
    session = connection.get_new_connection(connection.get_connection_params())
    session.autocommit = True
    return session


@contextmanager
def listening() -> Iterator[Any]:
    with closing(another_session()) as session:
        session.execute("LISTEN django_sqlqueue")
        yield session


class InstanceTests(TestCase):
    def test_who_listens_to_new_instances_hears_of_claimed_jobs_too(self):
        Job.objects.enqueue(KIND)
        heard = []

        def hear(instance: Job, **kwargs: Any) -> None:
            heard.append(instance)

        post_init.connect(hear, sender=Job)
        try:
            claimed = Job.objects.claim("me")
        finally:
            post_init.disconnect(hear, sender=Job)
        self.assertEqual(heard, claimed)

    def test_a_claimed_job_is_what_a_query_returns(self):
        Job.objects.enqueue(KIND, {"n": 1}, dedup_key="7", deadline=None)
        (claimed,) = Job.objects.claim("me")
        stored = Job.objects.get()
        for field in Job._meta.concrete_fields:
            with self.subTest(field=field.name):
                self.assertEqual(getattr(claimed, field.attname), getattr(stored, field.attname))
