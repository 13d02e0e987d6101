"""Noticing that code has changed, while developing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.utils import autoreload


class Reloader(threading.Thread):
    """Watches the code as runserver does, and calls `then` once when it has changed."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__(name="sqlqueue-reloader", daemon=True)
        self._then = then
        self.has_seen_a_change = False

    def run(self) -> None:
        try:
            autoreload.get_reloader().run(threading.main_thread())
        except SystemExit:
            # This is how Django's reloaders tell it.
            self.has_seen_a_change = True
            self._then()
