"""Indexes over the few rows of some status, on engines with partial indexes and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models


class PartialIndex(models.Index):
    """An index of the rows that meet `where`; without partial indexes, one led by `instead`.

    Django leaves an index with a condition out, with a warning, where an engine has none.
    """

    def __init__(
        self, *, where: models.Q, instead: Sequence[str] = (), fields: Sequence[str], name: str
    ):
        self.where, self.instead = where, tuple(instead)
        super().__init__(fields=fields, name=name)

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if schema_editor.connection.features.supports_partial_indexes:
            index = models.Index(fields=self.fields, name=self.name, condition=self.where)
        else:
            index = models.Index(fields=[*self.instead, *self.fields], name=self.name)
        return index.create_sql(model, schema_editor, using=using, **kwargs)

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "where": self.where, "instead": self.instead}
