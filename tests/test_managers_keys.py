"""At most one live job holds a key: the database decides, byte for byte."""

from typing import Any

from django.core import checks
from django.db import IntegrityError, connection, transaction
from django.test import TestCase

from django_sqlqueue import NewJob
from django_sqlqueue.lifecycle import SETTLED
from django_sqlqueue.models import Job

KIND = "shop.send_receipt"

LOOK_ALIKES = [
    "Invoice-1",
    "invoice-1",
    "invoice-1 ",
    " invoice-1",
    "invoice-1\t",
    "ínvoice-1",
    "i\u0301nvoice-1",
    "ınvoice-1",
    "straße",
    "strasse",
    "\U0001f4e6",
    "\U0001f4e7",
    "ｉnvoice-1",
    "invoice-\u20601",
]
"""Texts that some collation holds to be equal."""


class LiveKeyTests(TestCase):
    def settle(self, key: str, status: str) -> None:
        (job,) = Job.objects.claim("runner", limit=1)
        self.assertEqual(job.dedup_key, key)
        if status == "cancelled":
            Job.objects.filter(pk=job.pk).cancel()
        self.assertTrue(job.abandon("as asked") if status == "failed" else job.complete())
        job.refresh_from_db()
        self.assertEqual(job.status, status)

    def test_a_ready_job_holds_its_key(self):
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))
        self.assertIsNone(Job.objects.enqueue(KIND, dedup_key="7"))

    def test_a_running_job_holds_its_key(self):
        Job.objects.enqueue(KIND, dedup_key="7")
        Job.objects.claim("runner")
        self.assertIsNone(Job.objects.enqueue(KIND, dedup_key="7"))

    def test_a_settled_job_holds_no_key(self):
        for status in SETTLED:
            with self.subTest(status=status):
                self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))
                self.settle("7", status)
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="7"))
        self.assertEqual(Job.objects.filter(dedup_key="7").count(), len(SETTLED) + 1)

    def test_a_running_job_cannot_enqueue_its_own_key_until_it_is_settled(self):
        Job.objects.enqueue(KIND, dedup_key="7")
        (job,) = Job.objects.claim("runner")
        self.assertIsNone(Job.objects.enqueue(KIND, dedup_key=job.dedup_key))
        self.assertTrue(job.complete())
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key=job.dedup_key))

    def test_other_kinds_have_keys_of_their_own(self):
        self.assertIsNotNone(Job.objects.enqueue("one", dedup_key="7"))
        self.assertIsNotNone(Job.objects.enqueue("two", dedup_key="7"))

    def test_jobs_without_a_key_are_never_duplicates(self):
        self.assertIsNotNone(Job.objects.enqueue(KIND))
        self.assertIsNotNone(Job.objects.enqueue(KIND))

    def test_the_database_refuses_a_live_twin_that_sql_inserts(self):
        Job.objects.enqueue(KIND, dedup_key="7")
        with self.assertRaises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO django_sqlqueue_job (kind, dedup_key) VALUES (%s, %s)", [KIND, "7"]
            )

    def test_the_database_refuses_to_revive_a_twin(self):
        Job.objects.enqueue(KIND, dedup_key="7")
        self.settle("7", "done")
        Job.objects.enqueue(KIND, dedup_key="7")
        with self.assertRaises(IntegrityError), transaction.atomic():
            Job.objects.filter(status="done").update(status="ready", finished_at=None)

    def test_no_system_check_warns_of_a_rule_left_out(self):
        found = checks.run_checks(databases=["default"])
        self.assertEqual([each for each in found if not each.is_silenced()], [])


class ByteExactTests(TestCase):
    def test_keys_that_look_alike_are_different_keys(self):
        for key in LOOK_ALIKES:
            with self.subTest(key=key):
                self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key=key))
                self.assertIsNone(Job.objects.enqueue(KIND, dedup_key=key))
        self.assertEqual(
            sorted(Job.objects.values_list("dedup_key", flat=True)), sorted(LOOK_ALIKES)
        )

    def test_a_bulk_tells_such_keys_apart_too(self):
        jobs = [NewJob(KIND, dedup_key=key) for key in LOOK_ALIKES]
        self.assertEqual(Job.objects.enqueue_many(jobs), len(LOOK_ALIKES))
        self.assertEqual(Job.objects.enqueue_many(jobs), 0)

    def test_only_the_very_key_is_found(self):
        Job.objects.enqueue_many([NewJob(KIND, dedup_key=key) for key in LOOK_ALIKES])
        for key in LOOK_ALIKES:
            with self.subTest(key=key):
                self.assertEqual(Job.objects.find_live(KIND, key).dedup_key, key)

    def test_kinds_that_look_alike_are_different_kinds(self):
        for kind in LOOK_ALIKES:
            self.assertIsNotNone(Job.objects.enqueue(kind, dedup_key="7"), kind)
        for kind in LOOK_ALIKES:
            with self.subTest(kind=kind):
                self.assertEqual(Job.objects.count_for_kind(kind), 1)
                claimed = Job.objects.claim("runner", kinds=[kind], limit=100)
                self.assertEqual([job.kind for job in claimed], [kind])

    def test_queues_that_look_alike_are_different_queues(self):
        for queue in LOOK_ALIKES:
            Job.objects.enqueue(KIND, queue=queue)
        for queue in LOOK_ALIKES:
            with self.subTest(queue=queue):
                claimed = Job.objects.claim("runner", kinds=[KIND], queues=[queue], limit=100)
                self.assertEqual([job.queue for job in claimed], [queue])

    def test_queues_that_look_alike_are_told_apart_for_any_kind(self):
        for queue in LOOK_ALIKES:
            Job.objects.enqueue(KIND, queue=queue)
        for queue in LOOK_ALIKES:
            with self.subTest(queue=queue):
                claimed = Job.objects.claim("runner", queues=[queue], limit=100)
                self.assertEqual([job.queue for job in claimed], [queue])

    def test_owners_that_look_alike_are_different_runners(self):
        for owner in LOOK_ALIKES:
            Job.objects.enqueue(KIND)
            Job.objects.claim(owner)
        for owner in LOOK_ALIKES:
            with self.subTest(owner=owner):
                self.assertEqual(Job.objects.release_owned(owner), 1)

    def test_refs_that_look_alike_are_different_refs(self):
        for ref in LOOK_ALIKES:
            Job.objects.enqueue(KIND, ref=ref)
        for ref in LOOK_ALIKES:
            with self.subTest(ref=ref):
                self.assertEqual([job.ref for job in Job.objects.for_ref(ref)], [ref])

    def test_schedule_names_that_look_alike_are_different_schedules(self):
        rows: set[Any] = {Job.objects.schedule(name, KIND, every=60).pk for name in LOOK_ALIKES}
        self.assertEqual(len(rows), len(LOOK_ALIKES))

    def test_a_key_of_the_longest_length_is_compared_as_a_whole(self):
        for end in "ab":
            self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="é" * 254 + end))
        self.assertIsNone(Job.objects.enqueue(KIND, dedup_key="é" * 254 + "b"))
