"""What every test gets: no process and no connection outlives what it belongs to."""

from collections.abc import Generator, Iterator
from contextlib import suppress

import pytest
from django.db import OperationalError, connections
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests import emptying, processes

# A database takes its time, and more of it on a busy machine. The same examples at each run: a
# change is judged by what it changed. The slow tests draw new ones.
hypothesis_settings.register_profile(
    "tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
hypothesis_settings.load_profile("tests")

# How to find and end every other session on the current database: a stray one would keep it from
# being dropped.
FIND_SESSIONS = {
    "postgresql": (
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ),
    "mysql": (
        "SELECT id FROM information_schema.processlist "
        "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    ),
}
END_SESSION = {"postgresql": "SELECT pg_terminate_backend(%s)", "mysql": "KILL %s"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed:
        report.sections.extend(processes.outputs())
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    processes.forget_all()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker) -> Iterator[None]:
    emptying.install()
    yield
    processes.forget_all()
    with django_db_blocker.unblock():
        for connection in connections.all():
            end_other_sessions(connection)


def end_other_sessions(connection) -> None:
    if connection.vendor not in FIND_SESSIONS:
        return
    with connection.cursor() as cursor:
        cursor.execute(FIND_SESSIONS[connection.vendor])
        for session in cursor.fetchall():
            # One may have ended by itself meanwhile.
            with suppress(OperationalError):
                cursor.execute(END_SESSION[connection.vendor], session)
