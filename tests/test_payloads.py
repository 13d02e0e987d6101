"""What a payload may hold, and that every database gives it back as json.loads would."""

import json
import math
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from django.db import connection
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings
from django.utils.safestring import SafeString

from django_sqlqueue import NewJob, payloads
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Job


class Level(IntEnum):
    HIGH = 3


def nested(levels: int, kind: type = list) -> Any:
    value: Any = [] if kind is list else {}
    for _ in range(levels - 1):
        value = [value] if kind is list else {"a": value}
    return value


ROUND_TRIPS = {
    "nothing": {},
    "a list": [],
    "a text": "just text",
    "an empty text": "",
    "a number": 7,
    "true": True,
    "false": False,
    "zero": 0,
    "nulls": {"a": None, "b": [None]},
    "empty containers": {"a": {}, "b": [], "c": [[], {}], "": ""},
    "big integers": [2**53 + 1, 2**63, -(2**63) - 1, 2**64, 2**70, 10**300],
    "floats": [0.1, 1.0, -1.5, 1e15, 1e16, 1e22, 1.5e300, 1e308, -1e308, 5e-324, 1e-7, 1 / 3],
    "floats beside integers": [1e16, 10**16, 1e22, 10**22, 1.0, 1],
    "largest and smallest": [1.7976931348623157e308, 2.2250738585072014e-308],
    "tuples become lists": {"pair": (1, (2, 3))},
    "unicode": {"ключ": "Grüße 🐘 \u2028 \ufeff \U0010ffff \x7f \x01", "é": "e\u0301"},
    "escapes": 'quote " backslash \\ slash / newline \n tab \t \\u0000 \\n %s %% {}',
    "odd keys": {'"': 1, "$.a": 2, "a.b": 3, "a[0]": 4, "'": 5, "\\": 6, " ": 7, "%s": 8, "$": 9},
    "keys in their order": {"b": 1, "a": 2, "aa": 3},
    "thirty levels": nested(30),
    "thirty levels of objects": nested(30, dict),
    "subclasses": [SafeString("<b>"), Level.HIGH],
    "looks like a marked number": ["\\u00001.0\\u0000", "1e400"],
}  # fmt: skip

REFUSED = {
    "not a number": (math.nan, "payload"),
    "infinity": ({"a": [1, math.inf]}, "payload['a'][1]"),
    "minus infinity": ([-math.inf], "payload[0]"),
    "overflowed": ({"a": float("1e400")}, "payload['a']"),
    "NUL in a value": ({"name": "a\x00b"}, "payload['name']"),
    "NUL in a key": ({"a\x00b": 1}, "payload"),
    "NUL in a nested list": ({"a": [["\x00"]]}, "payload['a'][0][0]"),
    "a lone surrogate": ({"file": b"\xff".decode("utf-8", "surrogateescape")}, "payload['file']"),
    "a lone surrogate in a key": ({"\ud800": 1}, "payload"),
    "a set": ({"ids": {1, 2}}, "payload['ids']"),
    "a datetime": ({"at": datetime(2026, 1, 1)}, "payload['at']"),  # noqa: DTZ001
    "a decimal": ([Decimal("1.5")], "payload[0]"),
    "bytes": (b"raw", "payload"),
    "an object": ({"job": object()}, "payload['job']"),
    "a number as a key": ({1: "a", "1": "b"}, "payload"),
    "None as a key": ({"a": {None: 1}}, "payload['a']"),
    "thirty-one levels": (nested(31), "payload"),
    "a hundred thousand levels": (nested(100_000), "payload"),
    "an integer of 5,000 digits": ({"n": 10**5000}, "payload"),
}  # fmt: skip


def normalised(value: Any) -> str:
    """Return what json.loads makes of a value, told apart to the last type and sign."""
    return repr(_sorted(json.loads(json.dumps(value))))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class DumpTests(SimpleTestCase):
    def test_what_json_cannot_hold_is_refused_and_its_place_named(self):
        for name, (value, place) in REFUSED.items():
            with self.subTest(name):
                with self.assertRaises(InvalidJob) as caught:
                    payloads.dump(value, "payload")
                self.assertEqual(caught.exception.field, place)
                self.assertTrue(str(caught.exception).startswith(f"{place} "))

    def test_a_value_that_holds_itself_is_refused(self):
        value: list[Any] = []
        value.append(value)
        with self.assertRaisesMessage(InvalidJob, "payload is nested over 30 levels"):
            payloads.dump(value, "payload")

    def test_a_refusal_does_not_quote_the_content(self):
        for value in ({"secret-value\x00": 1}, ["secret-value\ud800"], "secret-value\x00"):
            with self.assertRaises(InvalidJob) as caught:
                payloads.dump(value, "payload")
            self.assertNotIn("secret-value", str(caught.exception))

    def test_the_text_is_plain_ascii_so_its_length_is_its_bytes(self):
        self.assertTrue(payloads.dump({"ключ": "🐘"}, "payload").isascii())

    def test_negative_zero_is_zero_as_one_database_would_make_it(self):
        self.assertEqual(
            payloads.dump([-0.0, {"a": -0.0}, -0.5], "payload"), '[0.0,{"a":0.0},-0.5]'
        )


class RoundTripTests(TestCase):
    def test_an_enqueued_payload_comes_back_the_same(self):
        for name, value in ROUND_TRIPS.items():
            with self.subTest(name):
                job = Job.objects.enqueue("test.payload", value)
                assert job is not None
                self.assertEqual(normalised(job.payload), normalised(value))
                stored = Job.objects.get(pk=job.pk)
                self.assertEqual(repr(_sorted(stored.payload)), normalised(value))

    def test_a_payload_enqueued_in_bulk_comes_back_the_same(self):
        Job.objects.enqueue_many(NewJob("test.bulk", value) for value in ROUND_TRIPS.values())
        stored = Job.objects.order_by("id").values_list("payload", flat=True)
        for (name, value), found in zip(ROUND_TRIPS.items(), stored, strict=True):
            with self.subTest(name):
                self.assertEqual(repr(_sorted(found)), normalised(value))

    def test_a_claimed_job_has_the_payload_that_was_enqueued(self):
        for name, value in ROUND_TRIPS.items():
            with self.subTest(name):
                Job.objects.enqueue("test.claim", value)
                job = Job.objects.claim_next("runner", kinds=["test.claim"])
                assert job is not None
                self.assertEqual(repr(_sorted(job.payload)), normalised(value))

    def test_a_result_comes_back_the_same(self):
        for name, value in ROUND_TRIPS.items():
            with self.subTest(name):
                Job.objects.enqueue("test.result")
                job = Job.objects.claim_next("runner", kinds=["test.result"])
                assert job is not None
                self.assertTrue(job.complete(value))
                job.refresh_from_db()
                self.assertEqual(repr(_sorted(job.result)), normalised(value))

    def test_no_payload_is_an_empty_object(self):
        job = Job.objects.enqueue("test.payload", None)
        assert job is not None
        self.assertEqual(job.payload, {})

    def test_a_result_that_json_cannot_hold_is_dropped_with_a_log_line(self):
        for name, (value, _) in REFUSED.items():
            with self.subTest(name):
                Job.objects.enqueue("test.result")
                job = Job.objects.claim_next("runner", kinds=["test.result"])
                assert job is not None
                with self.assertLogs("django_sqlqueue", "WARNING") as logs:
                    self.assertTrue(job.complete(value))
                self.assertIn("result", logs.output[0])
                job.refresh_from_db()
                self.assertEqual((job.status, job.result), ("done", None))

    def test_a_result_over_the_limit_is_dropped_with_a_log_line(self):
        Job.objects.enqueue("test.result")
        job = Job.objects.claim_next("runner")
        assert job is not None
        with (
            override_settings(SQLQUEUE={"MAX_PAYLOAD_BYTES": 100}),
            self.assertLogs("django_sqlqueue", "WARNING"),
        ):
            self.assertTrue(job.complete("x" * 99))
        job.refresh_from_db()
        self.assertEqual((job.status, job.result), ("done", None))


class SizeTests(TestCase):
    def test_a_payload_of_exactly_the_limit_is_stored_whole(self):
        value = {"text": "x" * (1_048_576 - len('{"text":""}'))}
        job = Job.objects.enqueue("test.size", value)
        assert job is not None
        self.assertEqual(Job.objects.get(pk=job.pk).payload, value)
        claimed = Job.objects.claim_next("runner")
        assert claimed is not None
        self.assertEqual(claimed.payload, value)

    def test_a_payload_one_byte_over_the_limit_is_refused_before_any_sql(self):
        value = {"text": "x" * (1_048_577 - len('{"text":""}'))}
        with self.assertNumQueries(0), self.assertRaises(InvalidJob) as caught:
            Job.objects.enqueue("test.size", value)
        self.assertIn("1,048,577 bytes", str(caught.exception))
        self.assertIn("MAX_PAYLOAD_BYTES", str(caught.exception))

    def test_the_limit_counts_the_bytes_of_the_json_text(self):
        with override_settings(SQLQUEUE={"MAX_PAYLOAD_BYTES": 14}):
            job = Job.objects.enqueue("test.size", "🐘")
            assert job is not None
            self.assertEqual(job.payload, "🐘")
            with self.assertRaises(InvalidJob):
                Job.objects.enqueue("test.size", "🐘1")

    def test_many_large_payloads_are_enqueued_at_once(self):
        large = '"' * 500_000
        jobs = [NewJob("test.size", [number, large]) for number in range(40)]
        self.assertEqual(Job.objects.enqueue_many(jobs), 40)
        claimed = Job.objects.claim("runner", limit=40)
        self.assertEqual([job.payload[0] for job in claimed], list(range(40)))
        self.assertEqual({len(job.payload[1]) for job in claimed}, {500_000})

    def test_many_large_results_are_settled_at_once(self):
        from django_sqlqueue.policy import Outcome

        Job.objects.enqueue_many(NewJob("test.size") for _ in range(12))
        jobs = Job.objects.claim("runner", limit=12)
        large = json.dumps('"' * 500_000)
        outcomes = [(job, Outcome(move="complete", result=large)) for job in jobs]
        settled = Job.objects.settle_many(outcomes)
        self.assertEqual(set(settled.values()), {"done"})
        self.assertEqual(len(settled), 12)
        self.assertEqual(len(Job.objects.latest("id").result), 500_000)


class PacketTests(TransactionTestCase):
    """A limit raised beyond what the server takes: stored whole, or a clear error."""

    def test_a_payload_beyond_the_servers_own_limit_is_whole_or_refused(self):
        size = largest_packet() + 1000
        with override_settings(SQLQUEUE={"MAX_PAYLOAD_BYTES": 2 * size}):
            try:
                job = Job.objects.enqueue("test.size", "x" * size)
            except InvalidJob as error:
                self.assertTrue(str(error).startswith("payload "))
                self.assertEqual(Job.objects.count(), 0)
            else:
                assert job is not None
                self.assertEqual(len(Job.objects.get().payload), size)
            self.assertIsNotNone(Job.objects.enqueue("test.size", "the next one"))

    def test_the_callers_transaction_does_not_pretend_to_commit(self):
        from django.db import DatabaseError, transaction

        size = largest_packet() + 1000
        with override_settings(SQLQUEUE={"MAX_PAYLOAD_BYTES": 2 * size}):
            refused = False
            try:
                with transaction.atomic():
                    Job.objects.enqueue("test.before")
                    try:
                        Job.objects.enqueue("test.size", "x" * size)
                    except InvalidJob:
                        refused = True
                    Job.objects.enqueue("test.after")
            except DatabaseError:
                self.assertEqual(Job.objects.count(), 0)
            else:
                self.assertEqual(Job.objects.count(), 2 if refused else 3)


def largest_packet() -> int:
    """Return the bytes that the server takes at once; some number where it has no such limit."""
    if connection.vendor != "mysql":
        return 17_000_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("length", [1, 255])
@pytest.mark.parametrize("sign", ["a", "ß", "🐘", "%", "'", " "])
@pytest.mark.django_db
def test_texts_of_the_largest_length_are_stored_whole(sign, length):
    def text(limit: int) -> str:
        return sign * min(length, limit)

    kind, key, ref, queue, owner = text(200), text(255), text(255), text(100), text(200)
    job = Job.objects.enqueue(kind, dedup_key=key, ref=ref, queue=queue)
    assert job is not None
    found = Job.objects.get(pk=job.pk)
    assert (found.kind, found.dedup_key, found.ref, found.queue) == (kind, key, ref, queue)
    assert Job.objects.find_live(kind, key) == job
    assert Job.objects.enqueue(kind, dedup_key=key) is None
    claimed = Job.objects.claim_next(owner, kinds=[kind], queues=[queue])
    assert claimed == job
    assert claimed.lease_owner == owner
