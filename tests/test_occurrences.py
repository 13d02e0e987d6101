"""When schedules are due: grids, missed occurrences, and the days on which the clocks change."""

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import patch
from zoneinfo import ZoneInfo

from django.test import SimpleTestCase
from hypothesis import given
from hypothesis import strategies as st

from django_sqlqueue import occurrences
from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.occurrences import following, is_missed, latest_due
from django_sqlqueue.policy import Occurrence
from django_sqlqueue.rhythms import MOST_COUNTED, Cron, Every, Rhythm

HOUR = timedelta(hours=1)
HOURLY = Every(HOUR)
CRON_HOURLY = Cron("0 * * * *", "UTC")


def at(text: str) -> datetime:
    """Return an instant of 1 July 2026, or, with a date, of that day, in UTC."""
    return datetime.fromisoformat(text if "T" in text else f"2026-07-01T{text}").replace(tzinfo=UTC)


class GridTests(SimpleTestCase):
    def test_after_is_the_first_grid_time_that_comes_later(self):
        for rhythm in (HOURLY, CRON_HOURLY):
            for instant, due in (
                ("12:00", "13:00"),
                ("12:00:00.000001", "13:00"),
                ("12:59:59.999999", "13:00"),
                ("13:00", "14:00"),
                ("11:00", "13:00"),  # not before the anchor
            ):
                with self.subTest(rhythm=rhythm, instant=instant):
                    self.assertEqual(rhythm.after(at(instant), at("12:00")), at(due))

    def test_latest_is_the_last_grid_time_that_has_come(self):
        for rhythm in (HOURLY, CRON_HOURLY):
            for instant, due in (
                ("12:00", "12:00"),
                ("12:59:59.999999", "12:00"),
                ("13:00", "13:00"),
                ("13:00:00.000001", "13:00"),
                ("11:00", "12:00"),  # not before the anchor
            ):
                with self.subTest(rhythm=rhythm, instant=instant):
                    self.assertEqual(rhythm.latest(at(instant), at("12:00")), at(due))

    def test_count_is_how_many_lie_between(self):
        for rhythm in (HOURLY, CRON_HOURLY):
            self.assertEqual(rhythm.count(at("12:00"), at("12:00")), 0)
            self.assertEqual(rhythm.count(at("12:00"), at("15:00")), 3)

    def test_an_interval_keeps_its_grid_however_odd(self):
        rhythm = Every(timedelta(minutes=7, microseconds=3))
        anchor = at("2001-01-01T00:00")
        due = rhythm.latest(at("12:00"), anchor)
        self.assertEqual((due - anchor) % rhythm.interval, timedelta())
        self.assertEqual(rhythm.after(due, anchor), due + rhythm.interval)

    def test_an_interval_is_real_time_whatever_the_clocks_on_the_wall_do(self):
        anchor = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
        self.assertEqual(Every(24 * HOUR).after(anchor, anchor) - anchor, 24 * HOUR)

    def test_counting_is_bounded(self):
        noon = Cron("0 12 * * *", "UTC")
        counted = noon.count(at("1726-01-01T12:00"), at("2026-01-01T12:00"))
        self.assertEqual(counted, MOST_COUNTED.days)

    def test_a_day_that_hardly_ever_comes_is_found(self):
        rhythm = Cron("0 0 29 2 1", "UTC")
        found = rhythm.after(at("12:00"), at("12:00"))
        self.assertTrue(found.weekday() == 0 or (found.month, found.day) == (2, 29))
        self.assertEqual(rhythm.latest(found, at("12:00")), found)

    def test_the_rhythm_of_a_row(self):
        row = SimpleNamespace(cron="", interval=HOUR, timezone="")
        self.assertEqual(occurrences.rhythm_of(row), HOURLY)
        row = SimpleNamespace(cron="0 * * * *", interval=None, timezone="UTC")
        self.assertEqual(occurrences.rhythm_of(row), CRON_HOURLY)


class FollowingTests(SimpleTestCase):
    """due, started and ended, by the policy for what was missed: the next due time, and missed."""

    CASES = (
        # in time: the next grid time
        ("once", "12:00", "12:00", "12:01", "13:00", 0),
        ("skip", "12:00", "12:00", "12:01", "13:00", 0),
        ("all", "12:00", "12:00", "12:01", "13:00", 0),
        # late, but within its hour
        ("once", "12:00", "12:50", "12:59", "13:00", 0),
        # late, and the next one came while it ran
        ("once", "12:00", "12:50", "13:10", "13:00", 0),
        ("skip", "12:00", "12:50", "13:10", "13:00", 0),
        # started hours late: that run stands for all up to its start
        ("once", "12:00", "15:20", "15:30", "16:00", 3),
        ("all", "12:00", "15:20", "15:30", "13:00", 0),
        # ran for hours: one more run stands for those that came meanwhile
        ("once", "12:00", "12:00", "15:30", "15:00", 2),
        ("skip", "12:00", "12:00", "15:30", "15:00", 2),
        ("all", "12:00", "12:00", "15:30", "13:00", 0),
        # both
        ("once", "12:00", "14:10", "17:30", "17:00", 4),
        # exactly on the grid
        ("once", "12:00", "13:00", "13:00", "14:00", 1),
        ("once", "12:00", "12:00", "13:00", "13:00", 0),
        # a clock that was put back
        ("once", "12:00", "11:00", "11:30", "13:00", 0),
        ("all", "12:00", "11:00", "11:30", "13:00", 0),
    )

    def test_the_next_occurrence_and_how_many_were_passed_over(self):
        for rhythm in (HOURLY, CRON_HOURLY):
            for missed, due, started, ended, next_due, passed in self.CASES:
                with self.subTest(rhythm=type(rhythm).__name__, missed=missed, ended=ended):
                    found = following(rhythm, at(due), at(started), at(ended), missed)
                    self.assertEqual(found, Occurrence(at(next_due), passed))

    def test_four_days_of_downtime_are_one_run_and_not_thousands(self):
        minutely = Every(timedelta(minutes=1))
        late = at("12:00") + timedelta(days=4, seconds=30)
        found = following(minutely, at("12:00"), late, late, "once")
        self.assertEqual(found.due_at, at("12:01") + timedelta(days=4))
        self.assertEqual(found.missed, 5_760)

    def test_an_occurrence_is_missed_when_the_next_one_is_due_too(self):
        for rhythm in (HOURLY, CRON_HOURLY):
            for now, missed in (("12:00", False), ("12:59", False), ("13:00", True)):
                self.assertEqual(is_missed(rhythm, at("12:00"), at(now)), missed)

    def test_the_latest_due_passes_over_all_before_it(self):
        for now, due, passed in (
            ("12:10", "12:00", 0),
            ("13:00", "13:00", 1),
            ("17:59", "17:00", 5),
        ):
            self.assertEqual(latest_due(HOURLY, at("12:00"), at(now)), Occurrence(at(due), passed))


# The days on which clocks change: zone, the day before, what is due from that noon for two days.
# Each due time as the wall shows it, with the hours that the wall is ahead of UTC.
CHANGES: tuple[tuple[str, str, str, list[str]], ...] = (
    # Berlin 2027-03-28: 02:00 becomes 03:00
    ("Europe/Berlin", "2027-03-27", "30 2 * * *", ["28 03:00+2", "29 02:30+2"]),
    ("Europe/Berlin", "2027-03-27", "0 3 * * *", ["28 03:00+2", "29 03:00+2"]),
    ("Europe/Berlin", "2027-03-27", "0,30 2,3 * * *",
     ["28 03:00+2", "28 03:30+2", "29 02:00+2", "29 02:30+2", "29 03:00+2", "29 03:30+2"]),
    ("Europe/Berlin", "2027-03-27", "*/15 2 28 * *", ["28 03:00+2"]),
    ("Europe/Berlin", "2027-03-27", "30 */2 28 3 *",
     ["28 00:30+1", *(f"28 {hour:02}:30+2" for hour in range(4, 24, 2))]),
    ("Europe/Berlin", "2027-03-27", "0 * 28 3 *",
     ["28 00:00+1", "28 01:00+1", *(f"28 {hour:02}:00+2" for hour in range(3, 24))]),
    # Berlin 2026-10-25: 03:00 becomes 02:00
    ("Europe/Berlin", "2026-10-24", "30 2 * * *", ["25 02:30+2", "26 02:30+1"]),
    ("Europe/Berlin", "2026-10-24", "0 3 * * *", ["25 03:00+1", "26 03:00+1"]),
    ("Europe/Berlin", "2026-10-24", "*/20 2 25 * *", ["25 02:00+2", "25 02:20+2", "25 02:40+2"]),
    ("Europe/Berlin", "2026-10-24", "30 * 25 10 *",
     ["25 00:30+2", "25 01:30+2", "25 02:30+2", "25 02:30+1",
      *(f"25 {hour:02}:30+1" for hour in range(3, 24))]),
    # New York 2027-03-14 and 2026-11-01
    ("America/New_York", "2027-03-13", "0 9 * * *", ["14 09:00-4", "15 09:00-4"]),
    ("America/New_York", "2027-03-13", "30 2 * * *", ["14 03:00-4", "15 02:30-4"]),
    ("America/New_York", "2026-10-31", "30 1 * * *", ["01 01:30-4", "02 01:30-5"]),
    ("America/New_York", "2026-10-31", "0 9 * * *", ["01 09:00-5", "02 09:00-5"]),
    # Lord Howe changes by half an hour: 2026-10-04 forward, 2027-04-04 back
    ("Australia/Lord_Howe", "2026-10-03", "15 2 * * *", ["04 02:30+11", "05 02:15+11"]),
    ("Australia/Lord_Howe", "2026-10-03", "0 9 * * *", ["04 09:00+11", "05 09:00+11"]),
    ("Australia/Lord_Howe", "2027-04-03", "45 1 * * *", ["04 01:45+11", "05 01:45+10.5"]),
    ("Australia/Lord_Howe", "2027-04-03", "45 * 4 4 *",
     ["04 00:45+11", "04 01:45+11", "04 01:45+10.5",
      *(f"04 {hour:02}:45+10.5" for hour in range(2, 24))]),
    # Sao Paulo changed at midnight: 2018-11-04 forward, 2018-02-18 back
    ("America/Sao_Paulo", "2018-11-03", "0 0 * * *", ["04 01:00-2", "05 00:00-2"]),
    ("America/Sao_Paulo", "2018-11-03", "30 23 * * *", ["03 23:30-3", "04 23:30-2"]),
    ("America/Sao_Paulo", "2018-02-17", "30 23 * * *", ["17 23:30-2", "18 23:30-3"]),
    ("America/Sao_Paulo", "2018-02-17", "0 0 * * *", ["18 00:00-3", "19 00:00-3"]),
    # Apia had no 30 December 2011 at all
    ("Pacific/Apia", "2011-12-29", "0 12 * * *", ["31 00:00+14", "31 12:00+14", "01 12:00+14"]),
)  # fmt: skip


def due_times(rhythm: Rhythm, start: datetime, end: datetime) -> Iterator[datetime]:
    due = rhythm.after(start, start)
    while due <= end:
        yield due
        due = rhythm.after(due, due)


def as_shown(due: datetime, zone: str) -> str:
    local = due.astimezone(ZoneInfo(zone))
    offset = local.utcoffset()
    assert offset is not None
    return f"{local:%d %H:%M}{offset / HOUR:+g}"


class ClockChangeTests(SimpleTestCase):
    def test_what_is_due_on_the_days_that_clocks_change(self):
        for zone, day, expression, expected in CHANGES:
            with self.subTest(zone=zone, day=day, cron=expression):
                noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone))
                start = noon.astimezone(UTC)
                found = due_times(Cron(expression, zone), start, start + 48 * HOUR)
                self.assertEqual([as_shown(due, zone) for due in found], expected)

    def test_a_daily_run_comes_once_on_every_day_of_every_year(self):
        for zone in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe"):
            for clock in ("0 0", "30 1", "15 2", "30 2", "0 3"):
                with self.subTest(zone=zone, clock=clock):
                    rhythm = Cron(f"{clock} * * *", zone)
                    start = datetime(2025, 12, 31, 12, tzinfo=UTC)
                    days = [
                        due.astimezone(ZoneInfo(zone)).date()
                        for due in due_times(rhythm, start, start + timedelta(days=365))
                    ]
                    first = days[0]
                    self.assertIn(first, (date(2025, 12, 31), date(2026, 1, 1)))
                    self.assertEqual(days, [first + timedelta(days=n) for n in range(365)])

    def test_every_five_minutes_is_every_five_minutes_also_then(self):
        for zone, day, _, _ in CHANGES:
            start = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC)
            found = list(due_times(Cron("*/5 * * * *", zone), start, start + 36 * HOUR))
            gaps = {later - due for due, later in pairwise(found)}
            self.assertEqual(gaps, {timedelta(minutes=5)})

    def test_from_any_moment_the_same_due_times_are_seen(self):
        for zone, day, expression, _ in CHANGES:
            rhythm = Cron(expression, zone)
            start = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC)
            found = list(due_times(rhythm, start, start + 48 * HOUR))
            for minutes in range(0, 40 * 60, 20):
                moment = start + timedelta(minutes=minutes)
                later = [due for due in found if due > moment]
                earlier = [due for due in found if due <= moment]
                with self.subTest(zone=zone, cron=expression, moment=moment):
                    if later:
                        self.assertEqual(rhythm.after(moment, start), later[0])
                    expected = earlier[-1] if earlier else start
                    self.assertEqual(rhythm.latest(moment, start), expected)

    def test_counting_by_the_day_is_counting_one_by_one(self):
        rhythms = {
            (zone, expression)
            for zone, _, expression, _ in CHANGES
            if zone != "Pacific/Apia"  # where a day is missing
        }
        for zone, expression in sorted(rhythms):
            rhythm = Cron(expression, zone)
            # The first begins in the first hour of a day that has 25.
            starts = (
                datetime(2026, 10, 24, 22, 30, tzinfo=UTC),
                datetime(2017, 12, 31, 17, tzinfo=UTC),
            )
            for start, days in itertools.product(starts, (1, 2, 200)):
                end = start + timedelta(days=days, hours=5)
                found = sum(1 for _ in due_times(rhythm, start, end))
                with self.subTest(zone=zone, cron=expression, days=days):
                    self.assertEqual(rhythm.count(start, end), found)

    def test_two_changes_of_the_clocks_before_the_next_time_are_both_passed(self):
        rhythm = Cron("45 * 4 4 *", "Pacific/Apia")  # which left out a day, then summer time ended
        start = datetime(2011, 10, 24, tzinfo=UTC)
        self.assertEqual(rhythm.after(start, start), datetime(2012, 4, 3, 11, 45, tzinfo=UTC))
        before = datetime(2012, 4, 3, 11, 44, tzinfo=UTC)
        self.assertEqual(
            rhythm.latest(before, datetime(2010, 1, 1, tzinfo=UTC)),
            datetime(2011, 4, 5, 10, 45, tzinfo=UTC),
        )

    @given(
        zone=st.sampled_from(sorted({zone for zone, _, _, _ in CHANGES})),
        cron=st.sampled_from(sorted({cron for _, _, cron, _ in CHANGES} | {"*/7 1-3 * * *"})),
        seconds=st.integers(1_262_304_000, 1_900_000_000),
    )
    def test_the_next_time_is_later_and_the_latest_is_not(self, zone, cron, seconds):
        rhythm = Cron(cron, zone)
        moment = datetime.fromtimestamp(seconds, UTC)
        due = rhythm.after(moment, moment)
        self.assertGreater(due, moment)
        self.assertEqual(rhythm.latest(due, moment), due)
        self.assertEqual(rhythm.latest(due - timedelta(microseconds=1), moment), moment)
        self.assertEqual(rhythm.count(moment, due), 1)


class CheckTests(SimpleTestCase):
    def test_names_for_common_rhythms(self):
        for alias, expression in (("@hourly", "0 * * * *"), ("@DAILY", "0 0 * * *")):
            self.assertEqual(occurrences.check_cron(alias, "UTC").expression, expression)

    def test_a_zone_may_be_given_as_its_object(self):
        self.assertEqual(occurrences.check_zone(ZoneInfo("Europe/Berlin")), "Europe/Berlin")

    def test_an_expression_that_never_comes_is_refused_soon(self):
        for expression in ("0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"):
            with self.assertRaises(InvalidJob) as caught:
                occurrences.check_cron(expression, "UTC")
            self.assertEqual(caught.exception.field, "cron")

    def test_without_its_library_cron_is_refused_and_says_what_to_install(self):
        with (
            patch.dict("sys.modules", {"cronsim": None}),
            self.assertRaisesMessage(InvalidJob, "install django-sqlqueue[cron]"),
        ):
            occurrences.check_cron("0 0 * * *", "UTC")
