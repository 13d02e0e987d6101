"""What an engine is asked about its connection, whatever is in the tables behind it."""

from __future__ import annotations

import os
import socket
from typing import Any, ClassVar, NamedTuple

SILENCE = 30
"""Seconds after which a server whose machine does not answer any more counts as gone; also how
long a handler may leave half of a long result unread, for which the kernel has the same limit."""
KEEPALIVES = {"TCP_KEEPIDLE": SILENCE // 3, "TCP_KEEPINTVL": SILENCE // 3, "TCP_KEEPCNT": 2}
"""While a statement runs the connection is silent: only these tell that the machine is there."""


class Advice(NamedTuple):
    """What a project would do well to change in its DATABASES."""

    id: str
    found: str
    """What is set, and what that does."""
    hint: str


class Link:
    """An engine's connection: how it is set, and when it is gone."""

    unless_set: ClassVar[dict[str, Any]] = {}
    """The OPTIONS by which an attempt to connect ends, where the project has not set them."""

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

    def end_in_silence(self) -> None:
        """Let the kernel end this connection SILENCE seconds after its server was last heard of.

        A link that is cut says nothing, and would keep a thread waiting for many minutes. How
        long a statement takes does not matter, and what the project has set for itself is kept.
        """
        descriptor = getattr(self.connection.connection, "fileno", None)
        if descriptor is None:
            return
        with socket.socket(fileno=os.dup(descriptor())) as link:
            if link.family in (socket.AF_INET, socket.AF_INET6):
                _end_in_silence(link)


def _end_in_silence(link: socket.socket) -> None:
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every system has each of them.
    for name, value in KEEPALIVES.items():
        if number := getattr(socket, name, None):
            set_value = link.getsockopt(socket.IPPROTO_TCP, number)
            link.setsockopt(socket.IPPROTO_TCP, number, min(value, set_value))
    timeout = getattr(socket, "TCP_USER_TIMEOUT", None)
    if timeout and not link.getsockopt(socket.IPPROTO_TCP, timeout):
        link.setsockopt(socket.IPPROTO_TCP, timeout, SILENCE * 1000)
