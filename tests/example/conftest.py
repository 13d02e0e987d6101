"""Fixtures of the example project's tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection

from tests import processes
from tests.example.library import Library, sibling_url


@pytest.fixture
def empty_database(tmp_path: Path, django_db_blocker) -> Iterator[str]:
    """The url of a new database on the engine under test."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path / 'library.sqlite3'}"
        return
    name = f"example_{uuid4().hex[:12]}"
    with django_db_blocker.unblock():
        _on_server(f"CREATE DATABASE {name}")
        try:
            yield sibling_url(os.environ["DATABASE_URL"], name)
        finally:
            # A server drops no database that a worker left over from a failed test still uses.
            processes.kill_all()
            _on_server(f"DROP DATABASE {name}")


@pytest.fixture
def library(tmp_path: Path, empty_database: str) -> Library:
    """A library without documents, its tables made."""
    library = Library(tmp_path, empty_database)
    library.manage("migrate", "--verbosity=0")
    return library


def _on_server(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
