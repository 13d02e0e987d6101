"""Pure decisions: the backoff, what a failure leads to, and what settling writes."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from django.test import SimpleTestCase
from hypothesis import given
from hypothesis import strategies as st

from django_sqlqueue import Backoff, policy
from django_sqlqueue.durations import LONGEST, clamp, to_seconds
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.lifecycle import MOVES
from django_sqlqueue.policy import Occurrence, Outcome

DUE = datetime(2026, 7, 1, 12, tzinfo=UTC)


@dataclass
class AJob:
    """What a decision needs to know of a claimed job."""

    id: int = 7
    claims: int = 3
    attempts: int = 1
    max_attempts: int = 5
    name: str | None = None
    last_error: str = "the last one"
    deadline: datetime | None = None
    lifetime: timedelta | None = None
    due_at: datetime | None = None


class BackoffTests(SimpleTestCase):
    def test_the_default_curve(self):
        curve = [Backoff().curve(attempt) for attempt in range(1, 10)]
        self.assertEqual(curve, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600])

    def test_curves(self):
        for backoff, attempt, seconds in (
            (Backoff(10, 3, 1000, 0), 1, 10),
            (Backoff(10, 3, 1000, 0), 4, 270),
            (Backoff(10, 3, 1000, 0), 6, 1000),
            (Backoff(10, 1, 1000, 0), 9, 10),
            (Backoff(0, 2, 1000, 0), 9, 0),
            (Backoff(10, 0.5, 1000, 0), 3, 2.5),
            (Backoff(10, 0, 1000, 0), 2, 0),
            (Backoff(5000, 2, 60, 0), 1, 60),
            (Backoff(), 0, 30),
            (Backoff(), -5, 30),
            (Backoff(-10), 3, 0),
        ):
            with self.subTest(backoff=backoff, attempt=attempt):
                self.assertEqual(backoff.curve(attempt), seconds)

    def test_it_never_overflows(self):
        for factor in (2, 5, 2.5, 1e300, 10**400):
            for attempt in (38, 47, 1_024, 2_000, 10**9):
                with self.subTest(factor=str(factor)[:8], attempt=attempt):
                    self.assertEqual(Backoff(30, factor, 3600).curve(attempt), 3600)
                    self.assertEqual(Backoff(0, factor, 3600).curve(attempt), 0)

    def test_without_a_cap_it_ends_at_a_century(self):
        self.assertEqual(Backoff(cap=math.inf).curve(5_000), LONGEST)

    def test_jitter_adds_at_most_its_share(self):
        for drawn, seconds in ((0.0, 100), (0.5, 105), (0.999999, 109.9999)):
            with patch("random.random", return_value=drawn):
                self.assertAlmostEqual(Backoff(100, 2, 3600, 0.1)(1), seconds, places=3)

    def test_jitter_is_not_always_the_same(self):
        self.assertGreater(len({Backoff()(1) for _ in range(20)}), 1)

    @given(
        base=st.floats(0, 1e9),
        factor=st.floats(0, 1e9),
        cap=st.floats(0, 1e9),
        jitter=st.floats(0, 1),
        attempt=st.integers(1, 10**12),
    )
    def test_it_is_always_a_wait_that_every_database_can_add(
        self, base, factor, cap, jitter, attempt
    ):
        delay = Backoff(base, factor, cap, jitter)(attempt)
        self.assertTrue(0 <= delay <= min(LONGEST, cap * (1 + jitter) + 1e-6))


class DurationTests(SimpleTestCase):
    def test_seconds_and_timedeltas_are_seconds(self):
        for value, seconds in (
            (0, 0.0),
            (5, 5.0),
            (0.25, 0.25),
            (timedelta(minutes=2), 120.0),
            (timedelta(microseconds=1), 0.000001),
            (LONGEST, LONGEST),
        ):
            self.assertEqual(to_seconds("delay", value), seconds)

    def test_the_refusal_names_the_field(self):
        with self.assertRaisesMessage(InvalidJob, "lease must be a timedelta or a number"):
            to_seconds("lease", "5")

    def test_clamp_keeps_a_wait_within_bounds(self):
        for value, seconds in ((-1.0, 0), (math.nan, 0), (math.inf, LONGEST), (7.5, 7.5)):
            self.assertEqual(clamp(value), seconds)


class FailureTests(SimpleTestCase):
    def test_it_is_a_retry_while_attempts_remain(self):
        outcome = policy.failure(AJob(attempts=4, max_attempts=5), "why", 30)
        self.assertEqual((outcome.move, outcome.reason, outcome.delay), ("retry", "why", 30))

    def test_it_is_the_end_when_they_are_spent(self):
        for attempts in (5, 6, 500):
            outcome = policy.failure(AJob(attempts=attempts, max_attempts=5), "why", 30)
            self.assertEqual((outcome.move, outcome.delay), ("abandon", None))

    def test_a_lost_job_is_reclaimed_or_expires(self):
        self.assertEqual(policy.lost(AJob(attempts=1, max_attempts=2)).move, "reclaim")
        self.assertEqual(policy.lost(AJob(attempts=2, max_attempts=2)).move, "expire")


class SettlementTests(SimpleTestCase):
    def test_what_each_move_writes(self):
        job = AJob(attempts=2)
        for outcome, status, attempts, reason in (
            (Outcome(move="complete"), "done", 2, ""),
            (Outcome(move="retry", reason="why"), "ready", 2, "why"),
            (Outcome(move="abandon", reason="why"), "failed", 2, "why"),
            (Outcome(move="defer", reason=None), "ready", 1, "the last one"),
            (Outcome(move="reschedule"), "ready", 0, ""),
            (Outcome(move="release", reason=None), "ready", 1, "the last one"),
            (Outcome(move="reclaim", reason="lease_expired"), "ready", 2, "lease_expired"),
            (Outcome(move="expire", reason="lease_expired"), "failed", 2, "lease_expired"),
            (Outcome(move="reset", reason="reset"), "ready", 2, "reset"),
        ):
            with self.subTest(outcome.move):
                found = policy.settlement(job, outcome)
                self.assertEqual((found.status, found.attempts), (status, attempts))
                self.assertEqual(found.reason, reason)
                self.assertEqual((found.job_id, found.claims), (7, 3))
                self.assertIn(found.status, MOVES[outcome.move].targets)

    def test_a_reset_fails_a_spent_job(self):
        job = AJob(attempts=5, max_attempts=5)
        self.assertEqual(policy.settlement(job, Outcome(move="reset")).status, "failed")

    def test_attempts_never_fall_below_zero(self):
        job = AJob(attempts=0)
        self.assertEqual(policy.settlement(job, Outcome(move="defer")).attempts, 0)

    def test_a_reason_is_one_line_that_fits(self):
        found = policy.settlement(AJob(), Outcome(move="abandon", reason="a\nb" + "x" * 300))
        self.assertEqual((len(found.reason), found.reason[:4]), (200, "a bx"))

    def test_what_would_end_a_schedule_takes_it_to_its_next_occurrence(self):
        following = Occurrence(DUE + timedelta(hours=1), missed=2)
        job = AJob(name="hourly", attempts=5, due_at=DUE)
        for outcome, reason in (
            (Outcome(move="complete"), ""),
            (Outcome(move="abandon", reason="why"), "why"),
            (Outcome(move="expire", reason="lease_expired"), "lease_expired"),
        ):
            with self.subTest(outcome.move):
                found = policy.settlement(job, outcome, following)
                self.assertEqual((found.move.name, found.status), ("advance", "ready"))
                self.assertEqual((found.attempts, found.reason), (0, reason))
                self.assertEqual((found.run_at, found.due_at), (following.due_at,) * 2)
                self.assertEqual(found.missed, 2)

    def test_a_retry_of_a_schedule_does_not_move_its_due_time(self):
        job = AJob(name="hourly", due_at=DUE)
        for move in ("retry", "defer", "reclaim", "release"):
            found = policy.settlement(job, Outcome(move=move, delay=5))
            self.assertEqual((found.move.name, found.due_at), (move, None))

    def test_the_deadline_of_a_schedule_moves_with_it(self):
        job = AJob(name="hourly", due_at=DUE, lifetime=timedelta(minutes=5))
        following = Occurrence(DUE + timedelta(hours=1))
        found: Any = policy.settlement(job, Outcome(move="complete"), following)
        self.assertEqual(found.deadline, DUE + timedelta(minutes=65))
