"""The jobs of a uri and of what lies below it: exact, and nothing but the uri is compared."""

from typing import Any

from django.db import connection, transaction
from django.test import TestCase

from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.lifecycle import STATUSES
from django_sqlqueue.models import Attempt, Job

KIND = "library.embed"

URIS = [
    "s3://bucket",
    "s3://bucket/a",
    "s3://bucket/a/b",
    "s3://bucket/ab",
    "s3://bucket0",
    "s3://bucket.txt",
    "S3://Bucket/a",
    "s3://BUCKET",
    "s3://a_b/x",
    "s3://aXb/x",
    "s3://a_b",
    "100%",
    "100%/x",
    "100 percent/x",
    "%",
    "_",
    "_/x",
    "c:\\x",
    "c:\\x/y",
    "c:\\\\x/y",
    "it's",
    "it's/x",
    'say "hi"',
    'say "hi"/x',
    "café",
    "café/x",
    "cafe/x",
    "cafe\u0301/x",
    "\U0001f4e6",
    "\U0001f4e6/\U0001f4e7",
    "\U0001f4e7",
    "a ",
    "a /x",
    "a",
    "a/x",
    "a/",
    "a//x",
    "a\nb/x",
    "a\tb",
    "straße/x",
    "strasse/x",
    "/",
    "//x",
    "/x",
    "null",
    "5",
    "true",
    "*",
    "a?b",
    "[a]",
    "[a]/x",
    "{uri}",
    "$.uri",
    "\u2028/x",
    "\x7f/x",
]
FOREIGN: list[Any] = [
    {},
    {"uri": None},
    {"uri": 5},
    {"uri": True},
    {"uri": ["a"]},
    {"uri": ["a/x"]},
    {"uri": {"uri": "a"}},
    {"uri": ""},
    {"URI": "a"},
    {"path": "a/x"},
    {"inner": {"uri": "a"}},
    ["a"],
    [{"uri": "a"}],
    "a",
    "a/x",
    5,
    None,
]
"""Payloads without a text in the field uri."""


def below(uri: str) -> list[str]:
    return sorted(other for other in URIS if other == uri or other.startswith(uri + "/"))


class ForUriTests(TestCase):
    @classmethod
    def setUpTestData(cls):
        Job.objects.enqueue_many([(KIND, {"uri": uri, "note": "a"}) for uri in URIS])
        Job.objects.enqueue_many([(KIND, payload) for payload in FOREIGN])

    def test_a_uri_finds_itself_and_what_lies_below(self):
        for uri in URIS:
            with self.subTest(uri=uri):
                found = sorted(job.payload["uri"] for job in Job.objects.for_uri(uri))
                self.assertEqual(found, below(uri))
                self.assertEqual(Job.objects.count_for_uri(uri), len(found))

    def test_a_uri_that_no_job_has_finds_what_lies_below(self):
        for uri in ("s3:/", "s3:", "s3", "s3://buck", "no"):
            expected = [other for other in URIS if other.startswith(uri + "/")]
            with self.subTest(uri=uri):
                self.assertEqual(Job.objects.count_for_uri(uri), len(expected))

    def test_an_empty_uri_and_what_is_no_text_are_refused(self):
        for uri in ("", None, 5, b"a", "a\x00b", "\udcff"):
            for ask in (
                Job.objects.for_uri,
                Job.objects.count_for_uri,
                Job.objects.cancel_for_uri,
            ):
                with (
                    self.subTest(uri=uri, ask=ask.__name__),
                    self.assertNumQueries(0),
                    self.assertRaisesMessage(InvalidJob, "uri"),
                ):
                    ask(uri)

    def test_the_answer_is_a_queryset(self):
        self.assertEqual(Job.objects.for_uri("a").filter(status="done").count(), 0)
        self.assertEqual(Job.objects.filter(kind="other").for_uri("a").count(), 0)
        self.assertEqual(
            Job.objects.for_uri("100%").for_uri("100%/x").get().payload["uri"], "100%/x"
        )

    def test_a_row_with_a_damaged_payload_is_passed_over(self):
        if connection.vendor == "postgresql":
            self.skipTest("jsonb cannot be damaged")
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("PRAGMA ignore_check_constraints = 1")
            else:
                cursor.execute("SET check_constraint_checks = 0")
            try:
                cursor.execute(
                    "INSERT INTO django_sqlqueue_job (kind, payload) VALUES ('x', '{\"uri\": \"a')"
                )
            finally:
                if connection.vendor == "sqlite":
                    cursor.execute("PRAGMA ignore_check_constraints = 0")
                else:
                    cursor.execute("SET check_constraint_checks = 1")
        self.assertEqual(Job.objects.count_for_uri("a"), len(below("a")))


class CountForUriTests(TestCase):
    def test_only_the_statuses_named_are_counted(self):
        for _ in range(3):
            Job.objects.enqueue(KIND, {"uri": "a/x"})
        Job.objects.claim("runner")
        Job.objects.claim("runner")[0].complete()
        counts = {status: Job.objects.count_for_uri("a", [status]) for status in STATUSES}
        expected = {"ready": 1, "running": 1, "done": 1, "failed": 0, "cancelled": 0}
        self.assertEqual(counts, expected)
        self.assertEqual(Job.objects.count_for_uri("a"), 3)


class CancelForUriTests(TestCase):
    def setUp(self):
        for uri in ("a", "a/x", "a/x/y", "ab", "A/x"):
            Job.objects.enqueue(KIND, {"uri": uri}, dedup_key=uri)

    def left(self) -> list[str]:
        return sorted(job.payload["uri"] for job in Job.objects.all())

    def test_the_subtree_is_deleted_and_the_rest_stays(self):
        self.assertEqual(Job.objects.cancel_for_uri("a"), 3)
        self.assertEqual(self.left(), ["A/x", "ab"])
        self.assertIsNotNone(Job.objects.enqueue(KIND, dedup_key="a/x"))

    def test_it_goes_with_the_callers_transaction(self):
        with transaction.atomic():
            self.assertEqual(Job.objects.cancel_for_uri("a"), 3)
            transaction.set_rollback(True)
        self.assertEqual(len(self.left()), 5)

    def test_every_status_is_deleted_with_its_history(self):
        jobs = Job.objects.claim("runner", limit=4)
        self.assertTrue(jobs[0].complete())
        self.assertTrue(jobs[1].abandon("broken"))
        Job.objects.filter(pk=jobs[2].pk).cancel()
        self.assertEqual(Attempt.objects.count(), 1)
        self.assertEqual(Job.objects.cancel_for_uri("a"), 3)
        self.assertEqual(Attempt.objects.count(), 0)

    def test_a_running_job_loses_its_claim(self):
        (job,) = Job.objects.claim("runner")
        self.assertEqual(job.payload["uri"], "a")
        Job.objects.cancel_for_uri("a")
        self.assertTrue(job.cancel_requested())
        self.assertEqual(Job.objects.renew([job], 30), set())
        self.assertFalse(job.complete())
        self.assertFalse(Job.objects.filter(pk=job.pk).exists())

    def test_a_uri_without_jobs_deletes_nothing(self):
        self.assertEqual(Job.objects.cancel_for_uri("b"), 0)
        self.assertEqual(len(self.left()), 5)
