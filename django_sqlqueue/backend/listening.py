"""Whether anybody notices a signal of the framework: what nobody hears need not be prepared.

The framework itself listens to write its log. In production its lines mostly reach no handler,
and yet they would cost a task more than its claim and its settlement.
"""

from __future__ import annotations

import logging

from django.conf import settings
from django.dispatch import Signal
from django.utils.log import RequireDebugFalse, RequireDebugTrue

from .compat import LOGGER_NAME, log_task_finished, log_task_started

logger = logging.getLogger(LOGGER_NAME)

_OF_THE_FRAMEWORK = {id(log_task_started), id(log_task_finished)}


def has_receivers(signal: Signal) -> bool:
    """Say whether anybody but the framework's log listens."""
    return not {entry[0][0] for entry in signal.receivers} <= _OF_THE_FRAMEWORK


def is_logged(level: int) -> bool:
    """Say whether a line of the framework's log would reach anybody; True when in doubt."""
    if not logger.isEnabledFor(level):
        return False
    if _is_changed(logger):
        return True
    place: logging.Logger | None = logger
    while place is not None:
        for handler in place.handlers:
            if level >= handler.level and not _blocks(handler):
                return True
        place = place.parent if place.propagate else None
    return level >= logging.WARNING


def _is_changed(logger: logging.Logger) -> bool:
    """Say whether records may be seen before they reach a handler, as error monitors see them."""
    return (
        type(logger) is not logging.Logger
        or bool(logger.filters)
        or logging.Logger.callHandlers.__module__ != logging.__name__
        or logging.Logger.handle.__module__ != logging.__name__
        or logging.getLogRecordFactory() is not logging.LogRecord
    )


def _blocks(handler: logging.Handler) -> bool:
    """Say whether a filter of Django's keeps all records from the handler."""
    for rule in handler.filters:
        if type(rule) is (RequireDebugFalse if settings.DEBUG else RequireDebugTrue):
            return True
    return False
