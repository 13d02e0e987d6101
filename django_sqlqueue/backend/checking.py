"""What can be wrong with a backend's settings; told by the framework's own system check."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core import checks
from django.core.checks import CheckMessage, Error

from ..conf import settings
from ..exceptions import InvalidSetting
from .compat import InvalidTask
from .options import BACKEND_OPTIONS, OPTIONS, normalized, option

KEYS = ("BACKEND", "QUEUES", "OPTIONS")


def problems(alias: str, queues: Collection[str], given: Any) -> list[CheckMessage]:
    """Return a message for each mistake in TASKS[alias]."""
    found: list[CheckMessage] = []
    if not apps.is_installed("django_sqlqueue"):
        found.append(
            Error(
                f"TASKS[{alias!r}] uses SqlQueueBackend, but its app is not installed.",
                hint="Add 'django_sqlqueue' to INSTALLED_APPS.",
                id="sqlqueue.E101",
            )
        )
    if unknown := sorted(set(_keys(alias)) - set(KEYS)):
        found.append(
            checks.Warning(
                f"TASKS[{alias!r}] has keys that nothing reads: {', '.join(unknown)}.",
                hint=f"Known keys: {', '.join(KEYS)}; the rest belongs into OPTIONS.",
                id="sqlqueue.W102",
            )
        )
    return [*found, *_of_options(alias, given), *_of_queues(alias, queues)]


def _keys(alias: str) -> list[str]:
    return list(getattr(django_settings, "TASKS", {}).get(alias, {}))


def _of_options(alias: str, given: Any) -> list[CheckMessage]:
    if not isinstance(given, dict):
        return [Error(f"TASKS[{alias!r}]['OPTIONS'] must be a dict.", id="sqlqueue.E103")]
    found: list[CheckMessage] = []
    for name, value in given.items():
        if problem := _problem(name, value):
            found.append(
                Error(
                    f"TASKS[{alias!r}]['OPTIONS']: {problem}",
                    hint=f"Known options: {', '.join(BACKEND_OPTIONS)}.",
                    id="sqlqueue.E103",
                )
            )
    return found


def _problem(name: Any, value: Any) -> str | None:
    if name == "store_messages":
        return None if isinstance(value, bool) else "store_messages must be True or False."
    if name not in OPTIONS:
        return f"{name!r} is not an option."
    try:
        normalized(name, option(None, {name: value}, name))
    except (InvalidTask, ImportError) as error:
        return str(error)
    return None


def _of_queues(alias: str, queues: Collection[str]) -> list[CheckMessage]:
    try:
        allowed = settings.QUEUES
    except InvalidSetting:
        return []
    if allowed is None or not (refused := sorted(set(queues) - set(allowed))):
        return []
    return [
        Error(
            f"TASKS[{alias!r}]['QUEUES'] names queues that the job queue refuses: "
            f"{', '.join(refused)}.",
            hint="List them in SQLQUEUE['QUEUES'] too, or leave that None.",
            id="sqlqueue.E104",
        )
    ]
