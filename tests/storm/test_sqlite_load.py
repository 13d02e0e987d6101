"""A SQLite file serves workers, producers and the web at once, however Django opens it."""

import os
from itertools import product

import pytest
from django.db import connection

from tests.storm.sqlite_load import JOURNALS, MODES, load, share

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

LONGEST = 0.2
"""Seconds that 99 of 100 writes of others may wait."""


@pytest.fixture(autouse=True)
def _only_on_a_file(transactional_db):
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has one writer a file")


def test_no_outcome_is_lost_with_the_defaults_of_django():
    figures = load("rollback", "deferred", 3, workers=2, producers=2)
    assert figures.jobs
    assert not figures.breaches, "\n".join(figures.breaches)


@pytest.mark.slow
@pytest.mark.parametrize(("journal", "mode"), [*product(JOURNALS, MODES)])
def test_a_minute_loses_no_outcome_and_lets_others_write_in_time(journal, mode):
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("waits are measured where no other test runs beside: make storm")
    figures = load(journal, mode, 60)
    print(f"{journal}, {mode}: {figures.line()}")
    assert not figures.breaches, "\n".join(figures.breaches)
    assert share(figures.writer, 0.99) < LONGEST, figures.line()
