"""The rule that at most one live job holds a (kind, dedup_key), kept by every database."""

from __future__ import annotations

from typing import Any

from django.db import models

from .engines import engine_for


class LiveKeyConstraint(models.UniqueConstraint):
    """A partial unique index, or what the engine needs in its place.

    Where an engine has no partial index, Django would only warn and leave the rule out.
    """

    def check(self, model: Any, connection: Any) -> list[Any]:
        """Return Django's findings, but for the one that this class makes untrue."""
        return _without_warning(super().check(model, connection))

    def _check(self, model: Any, connection: Any) -> list[Any]:
        # Django 5.2 asks the same under this name.
        return _without_warning(super()._check(model, connection))  # type: ignore[misc]

    def constraint_sql(self, model: Any, schema_editor: Any) -> Any:
        own = self._own_sql(model, schema_editor)
        if own is None:
            return super().constraint_sql(model, schema_editor)
        schema_editor.deferred_sql.append(own)
        return None

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        own = self._own_sql(model, schema_editor)
        return super().create_sql(model, schema_editor) if own is None else own

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        engine = engine_for(schema_editor.connection)
        own = engine.drop_live_key_sql(model._meta.db_table, self.name)
        return super().remove_sql(model, schema_editor) if own is None else own

    def _own_sql(self, model: Any, schema_editor: Any) -> str | None:
        kind, key = (model._meta.get_field(name).column for name in self.fields)
        engine = engine_for(schema_editor.connection)
        return engine.live_key_sql(model._meta.db_table, self.name, (kind, key))


def _without_warning(errors: list[Any]) -> list[Any]:
    return [error for error in errors if error.id != "models.W036"]
