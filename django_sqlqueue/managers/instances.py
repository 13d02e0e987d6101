"""Rows as an engine's statements return them, made into model instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from django.db import models
from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init

from ..engines import Engine
from ..fields import InstantField, StoredJSONField

Convert = Callable[[Any], Any]
Converters = list[tuple[int, Convert]]
"""What to do with the values at these positions of a row."""


def instances(model: Any, engine: Engine, rows: Iterable[Sequence[Any]]) -> list[Any]:
    """Return the instances of rows that hold all columns of the model, in their order."""
    alias, names, converters = engine.connection.alias, _names(model), _converters(model, engine)
    make = _maker(model)
    made = []
    for row in rows:
        values = list(row)
        for position, convert in converters:
            if values[position] is not None:
                values[position] = convert(values[position])
        made.append(make(model, alias, dict(zip(names, values, strict=True))))
    return made


def instance(model: Any, alias: str, values: dict[str, Any]) -> Any:
    """Return the instance whose attributes are these, one for each column, in their order."""
    return _maker(model)(model, alias, values)


def _maker(model: Any) -> Callable[[Any, str, dict[str, Any]], Any]:
    # Django sets the columns one by one and sends two signals for each instance, which takes a
    # tenth of what a short job costs; where nobody could notice, they are set at once.
    is_plain = model.from_db.__func__ is models.Model.from_db.__func__  # type: ignore[attr-defined]
    is_plain = is_plain and model.__init__ is models.Model.__init__
    return _at_once if is_plain and not _are_told_of(model) else _by_django


def _are_told_of(model: Any) -> bool:
    """Does anybody listen to the making of this model's instances?"""
    # Most projects have no receiver at all, which is quicker to see than that none is for us.
    return any(signal.receivers and signal.has_listeners(model) for signal in (pre_init, post_init))


def _at_once(model: Any, alias: str, values: dict[str, Any]) -> Any:
    made = model.__new__(model)
    state = ModelState()
    state.adding, state.db = False, alias
    made.__dict__.update(values, _state=state)
    return made


def _by_django(model: Any, alias: str, values: dict[str, Any]) -> Any:
    return model.from_db(alias, tuple(values), list(values.values()))


@cache
def _names(model: Any) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields)


def _converters(model: Any, engine: Engine) -> Converters:
    read = engine.instant_reader()
    cached = engine.__dict__.setdefault("_converters", {})
    found: Converters | None = cached.get((model, read))
    if found is None:
        found = cached[model, read] = list(_converters_of(model, engine.connection, read))
    return found


def _converters_of(
    model: Any, connection: Any, read: Convert | None
) -> Iterator[tuple[int, Convert]]:
    for position, field in enumerate(model._meta.concrete_fields):
        if isinstance(field, InstantField):
            convert = read
        elif isinstance(field, StoredJSONField):
            convert = field.read
        else:
            convert = _by_backend(field, connection)
        if convert is not None:
            yield position, convert


def _by_backend(field: Any, connection: Any) -> Convert | None:
    column = field.get_col(field.model._meta.db_table)
    found = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
    if not found:
        return None

    def convert(value: Any) -> Any:
        for one in found:
            value = one(value, column, connection)
        return value

    return convert
