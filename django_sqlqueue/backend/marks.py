"""The mark by which a worker knows that this project enqueued a task of some module path.

A row names the function that is to run, and whoever can write a row can name any module. To
import whatever a row names would run that module's code before one can see that it holds no
task. So the payload carries a signature of the module path, made with SECRET_KEY: a worker
imports a module it does not know only where the signature holds. A plain marker would prove
nothing, as who writes the kind writes the payload too; a list of modules in the settings would
have to be kept up to date, and an app that is not told about it would silently not be served.

The signature covers the module path only, not the arguments: it can be used again for the same
task and for no other. Workers and web processes must share SECRET_KEY, or have it among
SECRET_KEY_FALLBACKS; otherwise a worker runs only tasks whose modules it has imported itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

SALT = "django_sqlqueue.backend"
LENGTH = 20


def mark_of(path: str) -> str:
    """Return the mark of a task's module path."""
    return _mark(path, settings.SECRET_KEY)


def holds(path: str, mark: Any) -> bool:
    """Say whether `mark` is this project's for that module path."""
    if not isinstance(mark, str):
        return False
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return any(constant_time_compare(mark, _mark(path, key)) for key in keys)


def token_of_schedule(name: str) -> str:
    """Return the secret part of the result id of a schedule, the same whenever it is named."""
    return salted_hmac(f"{SALT}.schedule", name, algorithm="sha256").hexdigest()[:16]


@lru_cache(maxsize=4096)
def _mark(path: str, key: Any) -> str:
    return salted_hmac(SALT, path, secret=key, algorithm="sha256").hexdigest()[:LENGTH]
