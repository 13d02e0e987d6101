"""Figures that look at a bounded number of rows, and say what they must when there are more."""

from datetime import timedelta

from django.test import TestCase

from django_sqlqueue.models import Job


def fail(reason, kind="testapp.noop", queue=None):
    Job.objects.enqueue(kind, queue=queue)
    Job.objects.claim_next("runner", kinds=[kind]).abandon(reason)


class Figures(TestCase):
    def test_counts_stop_at_the_limit(self):
        Job.objects.enqueue_many([("testapp.noop", None)] * 5)
        self.assertEqual(Job.objects.count_up_to(10), 5)
        self.assertEqual(Job.objects.count_up_to(3), 3)

    def test_the_numbers_by_status_are_those_of_stats(self):
        fail("A")
        Job.objects.enqueue_many([("testapp.noop", None)] * 5)
        Job.objects.claim_next("runner").complete()
        Job.objects.claim_next("runner")
        with self.assertNumQueries(1):
            counted = Job.objects.stats_up_to()
        self.assertEqual(counted, Job.objects.stats())
        self.assertEqual(Job.objects.stats_up_to(2)["ready"], 2)

    def test_groups_are_counted(self):
        for queue in ("a", "a", "B"):
            Job.objects.enqueue("testapp.noop", queue=queue)
        self.assertEqual(Job.objects.count_by("kind", "queue"), [
            ("testapp.noop", "a", 2), ("testapp.noop", "B", 1),
        ])  # fmt: skip

    def test_waiting_jobs_are_told_by_queue_with_their_oldest(self):
        first = Job.objects.enqueue("testapp.noop", queue="a", delay=60)
        Job.objects.enqueue("testapp.noop", queue="a", delay=120)
        (waiting,) = Job.objects.waiting()
        self.assertEqual((waiting.queue, waiting.count), ("a", 2))
        self.assertAlmostEqual(
            waiting.oldest, Job.objects.get(pk=first.pk).run_at, delta=timedelta(milliseconds=1)
        )

    def test_failures_are_grouped_by_reason_and_kind(self):
        for reason in ("A", "A", "B"):
            fail(reason)
        fail("A", kind="testapp.record")
        found = {(f.reason, f.kind): f for f in Job.objects.failures()}
        self.assertEqual({key: f.count for key, f in found.items()}, {
            ("A", "testapp.noop"): 2, ("B", "testapp.noop"): 1, ("A", "testapp.record"): 1,
        })  # fmt: skip
        both = found["A", "testapp.noop"]
        self.assertLessEqual(both.first, both.last)
        self.assertEqual(Job.objects.get(pk=both.newest_id).last_error, "A")

    def test_settled_jobs_are_counted_between_the_edges(self):
        for _ in range(3):
            fail("A")
        now = Job.objects.all().engine.now()
        hour = timedelta(hours=1)
        edges = [now - 2 * hour, now - hour, now + hour]
        self.assertEqual(Job.objects.settled_between("failed", edges), [0, 3])
        self.assertEqual(Job.objects.settled_between("done", edges), [0, 0])

    def test_a_crowded_span_is_estimated_from_its_beginning(self):
        now = Job.objects.all().engine.now()
        estimate = Job.objects.all()._estimate
        end = now + timedelta(seconds=60)
        at = Job.objects.all().engine.instant
        self.assertEqual(estimate(now, end, 1999, at(now)), 1999)
        self.assertEqual(estimate(now, end, 2000, at(now + timedelta(seconds=6))), 20_000)
        self.assertEqual(estimate(now, end, 2000, at(now)), 2000)
