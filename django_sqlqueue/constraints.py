"""Rules about what is unique, kept by every database, with partial indexes or without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models

from .engines import engine_for


class _OnEveryEngine(models.UniqueConstraint):
    """A condition that Django would leave out, with a warning, where no index can be partial."""

    def check(self, model: Any, connection: Any) -> list[Any]:
        """Return Django's findings, but for the one that is untrue of these classes."""
        return _without_warning(super().check(model, connection))

    def _check(self, model: Any, connection: Any) -> list[Any]:
        # Django 5.2 asks the same under this name.
        return _without_warning(super()._check(model, connection))  # type: ignore[misc]


class LiveKeyConstraint(_OnEveryEngine):
    """At most one live job holds a (kind, dedup_key)."""

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


class UniqueIfSet(_OnEveryEngine):
    """Unique where it is not NULL; the rows without a value take no place in the index.

    Without partial indexes they take one, side by side: NULL is like no other NULL.
    """

    def __init__(self, *, fields: Sequence[str], name: str) -> None:
        is_set = models.Q(**{f"{field}__isnull": False for field in fields})
        super().__init__(fields=fields, name=name, condition=is_set)

    def constraint_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._or_plain(schema_editor, "constraint_sql", model)

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._or_plain(schema_editor, "create_sql", model)

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._or_plain(schema_editor, "remove_sql", model)

    def validate(self, *args: Any, **kwargs: Any) -> None:
        """Look for another row; as of any unique field, the error tells which is taken."""
        self._plain.validate(*args, **kwargs)

    def _or_plain(self, schema_editor: Any, method: str, model: Any) -> Any:
        partial = schema_editor.connection.features.supports_partial_indexes
        return getattr(super() if partial else self._plain, method)(model, schema_editor)

    @property
    def _plain(self) -> models.UniqueConstraint:
        return models.UniqueConstraint(fields=self.fields, name=self.name)

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        del kwargs["condition"]
        return path, args, kwargs


def _without_warning(errors: list[Any]) -> list[Any]:
    return [error for error in errors if error.id != "models.W036"]
