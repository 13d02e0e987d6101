"""Whether anybody notices a signal of the framework: what nobody hears need not be prepared.

The framework itself listens to write its log. In production its lines mostly reach no handler,
and yet they would cost a task more than its claim and its settlement.
"""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.dispatch import Signal
from django.utils.log import RequireDebugFalse, RequireDebugTrue

from .compat import LOGGER_NAME, log_task_finished, log_task_started

logger = logging.getLogger(LOGGER_NAME)

_OF_THE_FRAMEWORK = {id(log_task_started), id(log_task_finished)}


def has_receivers(signal: Signal) -> bool:
    """Say whether anybody but the framework's log listens."""
    return any(receiver not in _OF_THE_FRAMEWORK for (receiver, _sender), *_ in signal.receivers)


def is_logged(level: int) -> bool:
    """Say whether a line of the framework's log would reach anybody; True when in doubt."""
    if not logger.isEnabledFor(level):
        return False
    if _is_changed(logger):
        return True
    place: logging.Logger | None = logger
    while place is not None:
        if any(_takes(handler, level) for handler in place.handlers):
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


def _takes(handler: logging.Handler, level: int) -> bool:
    return level >= handler.level and not any(_blocks(one) for one in handler.filters)


def _blocks(rule: Any) -> bool:
    if type(rule) is RequireDebugTrue:
        return not settings.DEBUG
    return type(rule) is RequireDebugFalse and settings.DEBUG
