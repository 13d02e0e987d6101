"""What an engine is asked about its connection, whatever is in the tables behind it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Advice(NamedTuple):
    """What a project would do well to change in its DATABASES."""

    id: str
    found: str
    """What is set, and what that does."""
    hint: str


class Link:
    """An engine's connection: how it is set, and when it is gone."""

    def __init__(self, connection: Any):
        self.connection = connection

    def is_connection_lost(self, error: BaseException) -> bool:
        """Say whether the connection is gone, so that only a new one can help."""
        raise NotImplementedError

    def advice_on_settings(self) -> list[Advice]:
        """Return what the project should set otherwise; the database is not asked."""
        return []

    def advice_on_database(self) -> list[Advice]:
        """Return what is not well in the database itself, which is asked."""
        return []
