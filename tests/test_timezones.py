"""Projects that treat time zones differently: USE_TZ = False, and a database with its own zone."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import SimpleTestCase, override_settings
from django.utils import timezone

from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.newjob import check_instant
from tests.processes import ProcessTestCase, spawn_python


@pytest.mark.processes
class ZonedProjectTests(ProcessTestCase):
    def assert_all_cases_pass(self, settings: str) -> None:
        process = spawn_python("-m", "tests.zoned", settings=settings)
        self.assertEqual(process.wait(120), 0, process.output)
        self.assertIn("8 cases passed", process.output)

    def test_a_project_without_time_zones(self):
        self.assert_all_cases_pass("tests.settings_naive")

    def test_a_database_with_a_time_zone_of_its_own(self):
        self.assert_all_cases_pass("tests.settings_zoned")

    def test_the_projects_usual_settings(self):
        self.assert_all_cases_pass("tests.settings")


class InstantTests(SimpleTestCase):
    """What enqueue makes of a time that it is given."""

    @override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
    def test_without_time_zones_a_naive_time_is_local_and_its_fold_counts(self):
        first = datetime(2026, 11, 1, 1, 30)  # noqa: DTZ001
        self.assertEqual(check_instant("run_at", first), datetime(2026, 11, 1, 5, 30, tzinfo=UTC))
        again = check_instant("run_at", first.replace(fold=1))
        self.assertEqual(again, datetime(2026, 11, 1, 6, 30, tzinfo=UTC))

    @override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
    def test_without_time_zones_an_aware_time_is_that_instant(self):
        instant = datetime(2026, 7, 1, 12, tzinfo=UTC)
        self.assertEqual(check_instant("run_at", instant), instant)

    def test_with_time_zones_a_naive_time_is_refused(self):
        with self.assertRaisesMessage(InvalidJob, "run_at is naive while USE_TZ is True"):
            check_instant("run_at", datetime(2026, 7, 1, 12))  # noqa: DTZ001

    def test_any_zone_gives_the_same_instant(self):
        given = datetime(2026, 7, 1, 14, tzinfo=timezone.get_fixed_timezone(timedelta(hours=2)))
        found = check_instant("run_at", given)
        self.assertEqual((found, found.tzinfo), (datetime(2026, 7, 1, 12, tzinfo=UTC), UTC))
