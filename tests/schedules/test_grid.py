"""When cron expressions come: the calendar's odd days, what an expression may say, and odd ones."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.test import SimpleTestCase

from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Job
from django_sqlqueue.occurrences import check_cron, following
from django_sqlqueue.rhythms import Cron, Every
from tests.schedules.base import ScheduleTestCase

# zone, expression, the moment before the first, and what is due from then on; local times.
CALENDAR = (
    # the 31st, in the months that have one
    ("UTC", "0 6 31 * *", "2026-01-31T06:00", "03-31 06:00, 05-31 06:00, 07-31 06:00, 08-31 06:00"),
    # the last day of the month
    ("UTC", "0 6 L * *", "2028-01-31T06:00", "02-29 06:00, 03-31 06:00, 04-30 06:00"),
    # 29 February
    ("Europe/Berlin", "0 0 29 2 *", "2026-07-01T00:00", "2028-02-29 00:00, 2032-02-29 00:00"),
    ("UTC", "0 0 29 2 *", "2096-03-01T00:00", "2104-02-29 00:00"),
    # a step that does not divide the hour begins anew with each hour
    ("UTC", "*/7 * * * *", "2026-07-01T10:43", "07-01 10:49, 07-01 10:56, 07-01 11:00"),
    ("UTC", "*/45 * * * *", "2026-07-01T10:45", "07-01 11:00, 07-01 11:45, 07-01 12:00"),
    ("UTC", "0 */5 * * *", "2026-07-01T15:00", "07-01 20:00, 07-02 00:00, 07-02 05:00"),
    # names, ranges, steps, lists
    ("UTC", "0 9 * * mon-fri", "2026-07-03T09:00", "07-06 09:00, 07-07 09:00"),
    ("UTC", "0 9 * JAN,Jul sun", "2026-07-26T09:00", "2027-01-03 09:00, 2027-01-10 09:00"),
    ("UTC", "10-30/10,55 8 * * *", "2026-07-01T08:10",
     "07-01 08:20, 07-01 08:30, 07-01 08:55, 07-02 08:10"),
    ("UTC", "0 0 * * 0", "2026-07-01T00:00", "07-05 00:00, 07-12 00:00"),
    ("UTC", "0 0 * * 7", "2026-07-01T00:00", "07-05 00:00, 07-12 00:00"),
    # a day of the month and a day of the week: either
    ("UTC", "0 0 13 * fri", "2026-07-01T00:00", "07-03 00:00, 07-10 00:00, 07-13 00:00"),
    # names for common rhythms
    ("UTC", "@hourly", "2026-07-01T10:00", "07-01 11:00, 07-01 12:00"),
    ("UTC", "@daily", "2026-07-01T10:00", "07-02 00:00, 07-03 00:00"),
    ("UTC", "@midnight", "2026-07-01T10:00", "07-02 00:00, 07-03 00:00"),
    ("UTC", "@weekly", "2026-07-01T10:00", "07-05 00:00, 07-12 00:00"),
    ("UTC", "@monthly", "2026-07-01T10:00", "08-01 00:00, 09-01 00:00"),
    ("UTC", "@yearly", "2026-07-01T10:00", "2027-01-01 00:00, 2028-01-01 00:00"),
    ("UTC", " @Annually ", "2026-07-01T10:00", "2027-01-01 00:00"),
)  # fmt: skip

REFUSED = (
    "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 * ", "* * * * 8", "-1 * * * *",
    "*/0 * * * *", "* * * * fri-mon", "5-1 * * * *", "1,,2 * * * *", "? * * * *", "* * * foo *",
    "@reboot", "@every 5m", "* * * *", "* * * * * *", "1.5 * * * *", "* * * * mon#6",
)  # fmt: skip

NEVER = (
    "0 0 30 2 *",
    "0 0 31 2,4,6,9,11 *",
    # these take a search through the calendar
    "0 0 */31 * mon#2",
    "* * */31 * 1#5",
    "0 0 */31 2-11/3 6#2",
)


class CalendarTests(SimpleTestCase):
    def test_when_an_expression_comes(self):
        for zone, expression, start, wanted in CALENDAR:
            with self.subTest(expression):
                rhythm = check_cron(expression, zone)
                due = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
                for expected in wanted.split(", "):
                    due = rhythm.after(due, due)
                    local = due.astimezone(ZoneInfo(zone))
                    self.assertEqual(f"{local:%Y-%m-%d %H:%M}"[-len(expected) :], expected)

    def test_what_no_expression_may_say(self):
        for expression in REFUSED:
            with self.subTest(expression), self.assertRaises(InvalidJob) as caught:
                check_cron(expression, "UTC")
            self.assertEqual(caught.exception.field, "cron")

    def test_what_never_comes_is_refused_within_a_second(self):
        for expression in NEVER:
            began = time.process_time()
            with self.subTest(expression), self.assertRaises(InvalidJob):
                check_cron(expression, "Europe/Berlin")
            self.assertLess(time.process_time() - began, 1)


class LongDowntimeTests(SimpleTestCase):
    """After a year it takes no more than a moment to find the next time."""

    def test_a_year_is_passed_over_in_a_moment(self):
        due = datetime(2026, 1, 1, tzinfo=UTC)
        now = due + timedelta(days=365, seconds=30)
        for rhythm, passed in (
            (Every(timedelta(milliseconds=1)), 365 * 86_400_000 + 30_000),
            (Cron("* * * * *", "Europe/Berlin"), 365 * 1440),
            (Cron("*/7 * * * *", "America/New_York"), 365 * 24 * 9),
            (Cron("0 0 * * *", "Europe/Berlin"), 365),
            (Cron("30 2 * * mon-fri", "Europe/Berlin"), 261),
        ):
            with self.subTest(rhythm=rhythm):
                began = time.process_time()
                found = following(rhythm, due, now, now, "once")
                self.assertLess(time.process_time() - began, 1)
                self.assertEqual(found.missed, passed)
                self.assertEqual(found.due_at, rhythm.after(now, due))


class ClockChangeOnTheTableTests(ScheduleTestCase):
    """A whole night of each change, as a worker would live through it."""

    NIGHTS = (
        # zone, the evening, and, for "30 2 * * *" and "30 * * * *", local times that night
        ("Europe/Berlin", "2031-03-29T23:00", ["03:00"], "23:30 00:30 01:30 03:30"),
        ("Europe/Berlin", "2031-10-25T23:00", ["02:30"], "23:30 00:30 01:30 02:30 02:30 03:30"),
        ("America/New_York", "2031-03-08T23:00", ["03:00"], "23:30 00:30 01:30 03:30"),
        ("America/New_York", "2031-11-01T23:00", ["02:30"], "23:30 00:30 01:30 01:30 02:30 03:30"),
        ("Australia/Lord_Howe", "2031-10-04T23:00", ["02:30"], "23:30 00:30 01:30 02:30 03:30"),
        ("Australia/Lord_Howe", "2031-04-05T23:00", ["02:30"],
         "23:30 00:30 01:30 01:30 02:30 03:30"),
        ("America/Sao_Paulo", "2018-11-03T23:00", ["02:30"], "23:30 01:30 02:30 03:30"),
        ("America/Sao_Paulo", "2018-02-17T22:00", ["02:30"],
         "22:30 23:30 23:30 00:30 01:30 02:30 03:30"),
    )  # fmt: skip

    def test_each_is_run_when_it_is_due(self):
        for zone, evening, daily, hourly in self.NIGHTS:
            for cron, expected in (("30 2 * * *", daily), ("30 * * * *", hourly.split())):
                with self.subTest(zone=zone, evening=evening, cron=cron):
                    self.assertEqual(self.night(zone, evening, cron), expected)

    def night(self, zone: str, evening: str, cron: str) -> list[str]:
        """Return when it ran until 04:00, as the wall showed it; it looks every half hour."""
        Job.objects.all().delete()
        self.seen.clear()
        now = datetime.fromisoformat(evening).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        first = Cron(cron, zone).after(now, now)
        self.schedule(cron=cron, timezone=zone, run_at=first)
        while (local := now.astimezone(ZoneInfo(zone))).hour != 4:
            ran = len(self.seen)
            job = self.run_at(now)
            self.assertEqual(len(self.seen) - ran, job.claims - ran)
            if len(self.seen) > ran:
                self.assertEqual(f"{self.seen[-1]}", f"{now}", f"it was late at {local}")
            now += timedelta(minutes=30)
        self.assertEqual(job.missed_count, 0)
        return [f"{due.astimezone(ZoneInfo(zone)):%H:%M}" for due in self.seen]
