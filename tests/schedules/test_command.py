"""`manage.py jobs schedules`."""

import io
import re
from datetime import UTC, datetime

from django.core.management import call_command
from django.test import TestCase, override_settings

from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome
from tests.schedules.base import HOUR, NOON


def rows() -> list[list[str]]:
    """Return the columns of each line that the command writes."""
    out = io.StringIO()
    call_command("jobs", "schedules", stdout=out)
    return [re.split(r"\s{2,}", line) for line in out.getvalue().splitlines()]


class SchedulesCommandTests(TestCase):
    def test_each_schedule_is_a_line(self):
        Job.objects.enqueue("testapp.noop")
        Job.objects.schedule(
            "report", "testapp.record", cron="30 2 * * mon-fri", timezone="Europe/Berlin",
            run_at=datetime(2031, 7, 1, 0, 30, tzinfo=UTC),
        )  # fmt: skip
        Job.objects.schedule("rescan", "testapp.noop", every=600, run_at=NOON)
        self.assertEqual(
            rows(),
            [
                ["NAME", "KIND", "RHYTHM", "NEXT DUE", "LAST OUTCOME"],
                ["report", "testapp.record", "on weekdays at 02:30 (Europe/Berlin)",
                 "2031-07-01 02:30:00 Europe/Berlin", "never ran"],
                ["rescan", "testapp.noop", "every 10 minutes", "2031-05-01 12:00:00 UTC",
                 "never ran"],
            ],
        )  # fmt: skip

    def test_an_interval_is_due_by_the_clock_of_the_project(self):
        Job.objects.schedule("rescan", "testapp.noop", every=600, run_at=NOON)
        with override_settings(TIME_ZONE="America/New_York"):
            self.assertEqual(rows()[1][3], "2031-05-01 08:00:00 America/New_York")

    def test_the_last_outcome_is_that_of_the_latest_attempt(self):
        Job.objects.schedule("rescan", "testapp.noop", every=HOUR, run_at=NOON)
        for hour, outcome, says in (
            (0, Outcome(move="complete"), "done"),
            (1, Outcome(move="retry", reason="file_missing", delay=0), "retried (file_missing)"),
            (1, Outcome(move="abandon", reason="timeout"), "failed (timeout)"),
            (2, Outcome(move="expire", reason="lease_expired"), "lost (lease_expired)"),
            (3, Outcome(move="complete"), "done"),
        ):
            (job,) = Job.objects.claim("runner", now=NOON + hour * HOUR)
            Job.objects.settle(job, outcome, NOON + hour * HOUR)
            self.assertEqual(rows()[1][4], says)
        self.assertEqual(rows()[1][3], "2031-05-01 16:00:00 UTC")

    def test_what_does_not_come_again_says_so(self):
        for name in ("ended", "paused"):
            Job.objects.schedule(name, "testapp.noop", every=HOUR, run_at=NOON)
        Job.objects.unschedule("ended")
        Job.objects.filter(name="paused").pause_schedules()
        self.assertEqual([row[3] for row in rows()[1:]], ["cancelled", "paused"])

    def test_a_row_that_cannot_be_read_hides_no_other(self):
        Job.objects.schedule("bad", "testapp.noop", every=HOUR, run_at=NOON)
        Job.objects.schedule("good", "testapp.noop", every=HOUR, run_at=NOON)
        Job.objects.filter(name="bad").update(cron="nonsense", timezone="Mars/Base")
        self.assertEqual([row[0] for row in rows()[1:]], ["bad", "good"])
        self.assertEqual(rows()[1][2:4], ["nonsense (Mars/Base)", "2031-05-01 12:00:00 UTC"])
