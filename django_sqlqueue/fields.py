"""Columns that mean the same on every engine: byte-exact text, UTC instants, tolerant JSON."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.db import models

from .engines import engine_for


class ExactCharField(models.CharField):
    """Text that compares byte for byte: case, accents and trailing blanks count."""

    def db_parameters(self, connection: Any) -> dict[str, Any]:
        parameters = super().db_parameters(connection)
        parameters["collation"] = engine_for(connection).text_collation
        return parameters


class InstantField(models.DateTimeField):
    """A point in time, stored in UTC also where USE_TZ is False.

    Django stores local time there, in which an hour of the autumn repeats. Attributes are what
    Django's are: aware under USE_TZ, naive local time (with its fold) without.
    """

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        if isinstance(value, datetime):
            return engine_for(connection).instant(value)
        return super().get_db_prep_value(value, connection, prepared=True)

    def get_db_converters(self, connection: Any) -> list[Any]:
        return [self._from_db, *super().get_db_converters(connection)]

    @staticmethod
    def _from_db(value: Any, expression: Any, connection: Any) -> Any:
        if not isinstance(value, datetime | str):
            return value
        return engine_for(connection).read_instant(value)


class DamagedJSON(str):
    """The text of a JSON column that no longer parses, as someone's SQL left it."""


class StoredJSONField(models.JSONField):
    """JSON that is read back even where the stored text is damaged, so that no row blocks others.

    Text given for writing is taken as JSON made by payloads.dump, anything else as a value.
    """

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is not None and not isinstance(value, str):
            return super().from_db_value(value, expression, connection)
        return self.read(value)

    @staticmethod
    def read(text: str | None) -> Any:
        """Return the value of a stored text."""
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            return DamagedJSON(text)


class ServerClock(models.Func):
    """The clock of the database server, in UTC, also in the middle of a transaction."""

    arity = 0
    output_field = models.DateTimeField()

    def as_sql(self, compiler: Any, connection: Any, *args: Any, **extra: Any) -> Any:
        return engine_for(connection).clock, []
