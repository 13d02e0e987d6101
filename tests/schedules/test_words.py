"""The rhythm of a schedule in words, one wording for the admin and the shell."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import translation

from django_sqlqueue.rhythm_words import every, words


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (timedelta(seconds=1), "every second"),
        (timedelta(seconds=90), "every 90 seconds"),
        (timedelta(seconds=0.5), "every 0.5 seconds"),
        (timedelta(minutes=15), "every 15 minutes"),
        (timedelta(hours=1), "every hour"),
        (timedelta(days=1), "every day"),
        (timedelta(days=14), "every 2 weeks"),
    ],
)
def test_intervals_in_words(interval, expected):
    assert every(interval) == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "every seventh minute of every hour"),
        ("7 * * * *", "every hour at minute 7"),
        ("30 2 * * *", "every day at 02:30"),
        ("0 9 * * 1-5", "on weekdays at 09:00"),
        ("0 9 * * MON-FRI", "on weekdays at 09:00"),
        ("0 9 * * sun", "every Sunday at 09:00"),
        ("0 9 * * 0", "every Sunday at 09:00"),
        ("0 9 * * 1", "every Monday at 09:00"),
        ("0 0 1 * *", "on day 1 of every month at 00:00"),
        ("0 0 1 1 *", "every year on January 1 at 00:00"),
        ("0 0 1 1 1", "at 00:00 on the first day of month and on Monday in January"),
        ("5,35 8-17 * * *", "at minutes 5 and 35 past every hour from 8 through 17"),
        ("odd", "odd"),
        ("*/0 * * * *", "*/0 * * * *"),
        ("² * * * *", "² * * * *"),
    ],
)
def test_cron_expressions_in_words(cron, expected):
    assert words(SimpleNamespace(interval=None, cron=cron, timezone="")) == expected


def test_the_time_zone_of_an_expression_is_named():
    schedule = SimpleNamespace(interval=None, cron="0 3 * * *", timezone="Europe/Berlin")
    assert words(schedule) == "every day at 03:00 (Europe/Berlin)"


def test_an_odd_expression_stays_as_it_is_where_no_english_is_read():
    schedule = SimpleNamespace(interval=None, cron="5,35 8-17 * * *", timezone="")
    with translation.override("de"):
        assert words(schedule) == "5,35 8-17 * * *"
