"""The history of a schedule: one row for each occurrence, the newest hundred."""

from datetime import timedelta
from unittest import mock

from django.test import override_settings

from django_sqlqueue import Defer
from django_sqlqueue.managers import settling
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.policy import Outcome
from tests.handling import raiser
from tests.schedules.base import HOUR, MINUTE, NOON, SECOND, ScheduleTestCase


class HistoryTests(ScheduleTestCase):
    def test_each_occurrence_leaves_a_row_with_its_outcome_and_duration(self):
        self.schedule(max_attempts=1)
        for hour, outcome in enumerate(
            (Outcome(move="complete"), Outcome(move="abandon", reason="no_paper"))
        ):
            (job,) = Job.objects.claim("runner", now=NOON + hour * HOUR)
            Job.objects.settle(job, outcome, NOON + hour * HOUR + 90 * SECOND)
        rows = [
            (row.outcome, row.reason, row.started_at, row.ended_at - row.started_at)
            for row in Attempt.objects.all()
        ]
        lasted = timedelta(seconds=90)
        self.assertEqual(
            rows, [("done", "", NOON, lasted), ("failed", "no_paper", NOON + HOUR, lasted)]
        )

    def test_an_atomic_handler_s_occurrence_leaves_one_too(self):
        self.handle(self.note, atomic=True)
        self.schedule()
        self.assertEqual(self.run_at(NOON).history.get().outcome, "done")

    def test_a_deferral_leaves_none(self):
        self.handle(raiser(Defer(60)))
        self.schedule()
        self.assertEqual(self.run_at(NOON).history.count(), 0)

    def test_a_hundred_are_kept(self):
        self.assertEqual(settling.KEPT_ATTEMPTS, 100)

    @mock.patch.object(settling, "KEPT_ATTEMPTS", 5)
    def test_only_the_newest_are_kept_and_those_of_others_are_left_alone(self):
        other = self.schedule(name="other")
        Job.objects.claim_next("runner", now=NOON)
        other.refresh_from_db()
        Job.objects.settle(other, Outcome(move="abandon", reason="theirs"), NOON)
        Job.objects.unschedule("other")
        job = self.schedule(every=MINUTE)
        for number in range(12):
            self.run_at_minute(number)
        started = list(job.history.values_list("started_at", flat=True))
        self.assertEqual(started, [NOON + number * MINUTE for number in range(7, 12)])
        self.assertEqual(other.history.get().reason, "theirs")

    def run_at_minute(self, number: int) -> None:
        (job,) = Job.objects.claim("runner", now=NOON + number * MINUTE)
        assert Job.objects.settle(job, Outcome(move="complete"), NOON + number * MINUTE)

    @override_settings(SQLQUEUE={"HISTORY": "none"})
    def test_none_is_kept_where_the_settings_say_so(self):
        self.schedule()
        job = self.run_at(NOON)
        self.assertEqual((job.history.count(), job.due_at), (0, NOON + HOUR))
