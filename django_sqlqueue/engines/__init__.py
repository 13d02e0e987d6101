"""The only place where databases differ: one engine for each, chosen by the connection."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from .base import Engine
from .mariadb import MariaDB
from .postgresql import PostgreSQL
from .sqlite import SQLite

ENGINES: dict[str, type[Engine]] = {"sqlite": SQLite, "postgresql": PostgreSQL, "mysql": MariaDB}


def engine_for(connection: Any) -> Engine:
    """Return the engine of a Django connection, one for each connection object."""
    # Django's `connection` stands for another object, and so has attributes but not its __dict__.
    engine: Engine | None = getattr(connection, "_sqlqueue_engine", None)
    if engine is None:
        if connection.vendor not in ENGINES:
            raise ImproperlyConfigured(
                f"django_sqlqueue runs on {', '.join(ENGINES)}; "
                f"the database {connection.alias!r} is {connection.vendor}."
            )
        engine = connection._sqlqueue_engine = ENGINES[connection.vendor](connection)
    return engine


__all__ = ["Engine", "engine_for"]
