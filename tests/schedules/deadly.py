"""A worker that is killed at one point of an occurrence: the one that KILLED_AT names."""

import os
import signal

from django.db.backends.signals import connection_created

POINTS = {
    "before the claim": ("attempts = attempts + 1", "before"),
    "before the claim's commit": ("attempts = attempts + 1", "after"),
    "in the handler": ("", ""),
    "before the settlement": ("to_status", "before"),
    "before the settlement's commit": ("to_status", "after"),
    "before the history's commit": ("django_sqlqueue_attempt", "after"),
}
"""The part of a statement that tells it from all others, and when its worker dies."""

POINT = os.environ.get("KILLED_AT")
_handled = 0


def after_handler():
    """Die in the handler of the second occurrence; before it nothing else is deadly either."""
    global _handled
    _handled += 1
    if POINT == "in the handler" and _handled == 2:
        die()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def watch_statements(connection, **kwargs):
    connection.execute_wrappers.append(_around)


def _around(execute, sql, params, many, context):
    assert POINT is not None
    part, when = POINTS[POINT]
    deadly = bool(part) and part in sql and _handled > 0
    if deadly and when == "before":
        die()
    found = execute(sql, params, many, context)
    if deadly:
        die()
    return found


def arm():
    if POINT is not None:
        connection_created.connect(watch_statements)
