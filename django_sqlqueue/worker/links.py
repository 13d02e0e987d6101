"""The links to the databases: one that is cut without a word may hold no thread for long."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.signals import connection_created

from ..engines import engine_for


@contextlib.contextmanager
def that_end_in_silence() -> Iterator[None]:
    """Let connections that open while the body runs, in any thread, end with their link."""
    with contextlib.ExitStack() as stack:
        for alias in connections:
            stack.enter_context(_options_unless_set(alias))
        connection_created.connect(_opened)
        stack.callback(connection_created.disconnect, _opened)
        yield


def _opened(connection: Any, **kwargs: Any) -> None:
    # Handlers may use databases of other kinds.
    with contextlib.suppress(ImproperlyConfigured):
        engine_for(connection).end_in_silence()


@contextlib.contextmanager
def _options_unless_set(alias: str) -> Iterator[None]:
    try:
        wanted = engine_for(connections[alias]).unless_set
    except ImproperlyConfigured:
        wanted = {}
    options = connections.settings[alias]["OPTIONS"]
    added = {name: value for name, value in wanted.items() if name not in options}
    options.update(added)
    try:
        yield
    finally:
        for name in added:
            options.pop(name, None)
