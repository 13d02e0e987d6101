"""Whoever lost its claim changes nothing, whatever it does later."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.forms.models import model_to_dict
from django.test import TestCase

from django_sqlqueue.exceptions import UnguardedSave
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.policy import Outcome

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
OVER = NOON + LEASE
KIND = "shop.send_receipt"

SETTLING: dict[str, Callable[[Job], bool]] = {
    "complete": lambda job: job.complete({"by": "the late one"}),
    "fail": lambda job: job.fail("late"),
    "fail, spent": lambda job: spent(job).fail("late"),
    "retry": lambda job: job.retry(OVER, "late"),
    "abandon": lambda job: job.abandon("late"),
    "defer": lambda job: job.defer(5),
    "reschedule": lambda job: job.reschedule(OVER),
    "renew": lambda job: job.renew(600),
    "report_progress": lambda job: job.report_progress(99, "late"),
}


def spent(job: Job) -> Job:
    job.attempts = job.max_attempts
    return job


def claim(owner: str, now: datetime = OVER) -> Job:
    (job,) = Job.objects.claim(owner, now=now, lease=LEASE)
    return job


def taken_back() -> None:
    assert Job.objects.reclaim_expired(OVER) == 1


def claimed_by_another() -> None:
    taken_back()
    claim("other")


def claimed_again_by_the_same() -> None:
    taken_back()
    claim("runner")


def done_by_another() -> None:
    taken_back()
    assert claim("other").complete({"by": "other"})


def failed_by_another() -> None:
    taken_back()
    assert claim("other").abandon("broken")


def deferred_and_claimed_again_by_the_same() -> None:
    """The deferral gives the attempt back: owner and attempt are those of the lost claim."""
    assert Job.objects.get().claims == 1
    fresh = Job.objects.get()
    assert fresh.defer(0)
    assert claim("runner", datetime.now(UTC) + LEASE).attempts == 1


def released() -> None:
    assert Job.objects.release_owned("runner") == 1


def reset() -> None:
    assert Job.objects.reset_running() == 1


def cancelled_and_taken_back() -> None:
    assert Job.objects.filter(kind=KIND).cancel() == 1
    taken_back()


def requeued_and_claimed() -> None:
    failed_by_another()
    assert Job.objects.filter(kind=KIND).requeue() == 1
    claim("runner", datetime.now(UTC) + LEASE)


LOSING = [
    taken_back,
    claimed_by_another,
    claimed_again_by_the_same,
    done_by_another,
    failed_by_another,
    deferred_and_claimed_again_by_the_same,
    released,
    reset,
    cancelled_and_taken_back,
    requeued_and_claimed,
]


class LostClaimTests(TestCase):
    def lost_claim(self, lose: Callable[[], None]) -> Job:
        Job.objects.all().delete()
        Job.objects.enqueue(KIND, run_at=NOON)
        job = claim("runner", NOON)
        lose()
        return job

    def test_every_settling_call_of_a_lost_claim_returns_false_and_writes_nothing(self):
        for lose in LOSING:
            for name, settle in SETTLING.items():
                with self.subTest(lost=lose.__name__, call=name):
                    job = self.lost_claim(lose)
                    before, history = stored(job), Attempt.objects.count()
                    self.assertIs(settle(job), False)
                    self.assertEqual(stored(job), before)
                    self.assertEqual(Attempt.objects.count(), history)

    def test_a_lost_claim_can_be_told(self):
        for lose in LOSING:
            with self.subTest(lost=lose.__name__):
                self.assertTrue(self.lost_claim(lose).cancel_requested())

    def test_a_claim_can_be_settled_once_only(self):
        for name, first in SETTLING.items():
            if name in ("renew", "report_progress"):
                continue
            for settle in SETTLING.values():
                job = self.lost_claim(lambda: None)
                self.assertTrue(first(job))
                before = stored(job)
                self.assertIs(settle(job), False)
                self.assertEqual(stored(job), before)

    def test_every_settling_call_of_a_deleted_job_returns_false(self):
        for name, settle in SETTLING.items():
            with self.subTest(call=name):
                job = self.lost_claim(lambda: None)
                Job.objects.filter(pk=job.pk).delete()
                self.assertIs(settle(job), False)

    def test_a_refreshed_object_settles_no_claim_but_its_own(self):
        for name, settle in SETTLING.items():
            with self.subTest(call=name):
                job = self.lost_claim(claimed_by_another)
                job.refresh_from_db()
                before = stored(job)
                self.assertIs(settle(job), False)
                self.assertTrue(job.cancel_requested())
                self.assertEqual(stored(job), before)

    def test_a_whole_job_is_not_saved_over_what_others_have_written(self):
        job = self.lost_claim(claimed_by_another)
        before = stored(job)
        with self.assertRaisesMessage(UnguardedSave, "name it in update_fields"):
            job.save()
        self.assertEqual(stored(job), before)
        job.ref = "order:7"
        job.save(update_fields=["ref"])
        self.assertEqual(stored(job), {**before, "ref": "order:7"})

    def test_what_a_handler_makes_of_its_object_is_not_settled_in_the_place_of_its_claim(self):
        for name, settle in SETTLING.items():
            with self.subTest(call=name):
                job = self.lost_claim(lambda: None)
                claimed = job.pk
                job.pk, job._state.adding = None, True
                job.save()
                copied = stored(job)
                self.assertTrue(settle(job))
                self.assertEqual(stored(Job.objects.latest("id")), copied)
                self.assertNotEqual(Job.objects.latest("id").pk, claimed)

    def test_a_job_that_its_handler_deletes_keeps_no_other_from_being_renewed(self):
        Job.objects.enqueue_many([(KIND, n) for n in range(2)])
        deleted, other = Job.objects.claim("runner", limit=2)
        deleted.delete()
        self.assertEqual(Job.objects.renew([deleted, other], 600), {other.id})
        self.assertIs(deleted.complete(), False)

    def test_one_lost_claim_in_a_group_does_not_keep_the_others_from_ending(self):
        Job.objects.enqueue_many([(KIND, n) for n in range(3)])
        jobs = Job.objects.claim("runner", limit=3)
        self.assertTrue(jobs[1].abandon("first"))
        ended = Job.objects.settle_many([(job, Outcome(move="complete")) for job in jobs])
        self.assertEqual(ended, {jobs[0].id: "done", jobs[2].id: "done"})
        self.assertEqual(Job.objects.get(pk=jobs[1].pk).status, "failed")

    def test_two_claims_of_one_job_in_a_group_end_the_later_one_once(self):
        for order in (1, -1):
            with self.subTest(order=order):
                old = self.lost_claim(taken_back)
                new = claim("runner")
                pairs = [(job, Outcome(move="abandon", reason="x")) for job in (old, new)]
                history = Attempt.objects.count()
                self.assertEqual(Job.objects.settle_many(pairs[::order]), {new.id: "failed"})
                self.assertEqual(Attempt.objects.count(), history + 1)

    def test_whole_and_broken_seconds_may_stand_in_one_group(self):
        Job.objects.enqueue_many([(KIND, n) for n in range(2)])
        jobs = Job.objects.claim("runner", limit=2)
        pairs = [
            (job, Outcome(move="defer", delay=s)) for job, s in zip(jobs, (5, 0.5), strict=True)
        ]
        self.assertEqual(len(Job.objects.settle_many(pairs)), 2)


def stored(job: Job) -> dict[str, object]:
    return model_to_dict(Job.objects.get(pk=job.pk))
