"""The settings: SQLQUEUE, every key with its default on this screen."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from .durations import to_seconds
from .exceptions import InvalidJob, InvalidSetting

DEFAULTS: dict[str, Any] = {
    "DATABASE": None,  # the alias that holds the jobs; None asks the routers where Job is written
    "QUEUES": None,  # the names that enqueue accepts; None accepts any
    "MAX_ATTEMPTS": 5,  # attempts of a job whose handler and enqueue say nothing else
    "BACKOFF": {"base": 30, "factor": 2, "cap": 3600, "jitter": 0.1},  # s, ratio, s, share
    "LEASE": 30,  # seconds that a claim holds without renewal
    "POLL": 1,  # seconds between two looks at the table while nothing wakes the worker
    "GRACE": 25,  # seconds that running jobs have to finish after the first SIGTERM
    "THREADS": 4,  # jobs that one worker process runs side by side
    "UNKNOWN_KINDS": "leave",  # or "fail": jobs of kinds that this worker has no handler for
    "MAX_PAYLOAD_BYTES": 1_048_576,  # of a payload or a result as JSON text
    "HISTORY": "failures",  # which attempts leave a row: "failures", "all" or "none"
    "STORE_MESSAGES": False,  # True stores exception messages; they may hold secrets
    "CLASSIFY": None,  # dotted path or callable: exception -> reason or None
    "REDACT": None,  # dotted path or callable: (field, value, job) -> what the admin shows
    "RETENTION": {  # how long settled jobs are kept; None keeps them
        "done": timedelta(days=7),
        "failed": timedelta(days=90),
        "cancelled": timedelta(days=7),
    },
    "SCHEDULES": {},  # name -> {"kind": ..., "every" or "cron": ..., and schedule's options}
    "NOTIFY": True,  # False: a commit wakes no idle worker; new work is seen within one POLL
}
CHOICES = {"UNKNOWN_KINDS": ("leave", "fail"), "HISTORY": ("failures", "all", "none")}
SECONDS = ("LEASE", "POLL", "GRACE")
CALLABLES = ("CLASSIFY", "REDACT")
COUNTS = ("MAX_ATTEMPTS", "THREADS", "MAX_PAYLOAD_BYTES")
_KNOWN_KEYS = f"The keys are {', '.join(DEFAULTS)}."


def problems() -> list[InvalidSetting]:
    """Return what is wrong with settings.SQLQUEUE, one error a key; no error means usable."""
    try:
        given = _given()
    except InvalidSetting as error:
        return [error]
    found = []
    for key, value in given.items():
        try:
            _check(key, value)
        except InvalidSetting as error:
            error.hint = error.hint or f"The default is {DEFAULTS[key]!r}."
            found.append(error)
    return found


def _given() -> dict[str, Any]:
    given = getattr(django_settings, "SQLQUEUE", {})
    if isinstance(given, dict):
        return given
    raise InvalidSetting(None, f"must be a dict, not {type(given).__name__}.", _KNOWN_KEYS)


def _check(key: Any, value: Any) -> None:
    if key not in DEFAULTS:
        raise InvalidSetting(key, "is not a setting.", _KNOWN_KEYS)
    if key in CHOICES and value not in CHOICES[key]:
        raise InvalidSetting(key, f"must be one of {CHOICES[key]}, not {value!r}.")
    if key in COUNTS and (type(value) is not int or value < 1):
        raise InvalidSetting(key, f"must be a whole number from 1 up, not {value!r}.")
    if key in SECONDS:
        _check_duration(key, value)
    elif key in ("NOTIFY", "STORE_MESSAGES") and not isinstance(value, bool):
        raise InvalidSetting(key, f"must be True or False, not {value!r}.")
    elif key == "DATABASE" and value not in (None, *django_settings.DATABASES):
        raise InvalidSetting(key, f"names no alias in DATABASES: {value!r}.")
    elif key == "QUEUES":
        _check_queues(value)
    elif key in CALLABLES:
        _check_callable(key, value)
    elif key in ("BACKOFF", "RETENTION"):
        _check_mapping(key, value)
    elif key == "SCHEDULES":
        _check_schedules(value)


def _check_duration(key: str, value: Any, place: str = "") -> None:
    try:
        seconds = to_seconds(key, value)
    except InvalidJob as error:
        raise InvalidSetting(key, f"{place}{error.problem}") from None
    if not seconds and key in ("LEASE", "POLL"):
        raise InvalidSetting(key, "must be more than 0 seconds.")


def _check_queues(value: Any) -> None:
    if value is None:
        return
    is_list = isinstance(value, (list, tuple, set, frozenset))
    if not is_list or not all(isinstance(name, str) and name for name in value):
        raise InvalidSetting("QUEUES", f"must be None or a list of queue names, not {value!r}.")


def _check_schedules(value: Any) -> None:
    is_dict = isinstance(value, dict)
    if not is_dict or not all(isinstance(options, dict) for options in value.values()):
        raise InvalidSetting(
            "SCHEDULES",
            "must be a dict of names, each with a dict of options.",
            'For example {"nightly": {"kind": "shop.report", "cron": "0 3 * * *"}}.',
        )


def _check_callable(key: str, value: Any) -> None:
    try:
        usable = value is None or callable(_load(value))
    except Exception:
        usable = False
    if not usable:
        raise InvalidSetting(key, f"must be a callable or its dotted path, not {value!r}.")


def _check_mapping(key: str, value: Any) -> None:
    known = DEFAULTS[key]
    if not isinstance(value, dict) or set(value) - set(known):
        raise InvalidSetting(key, f"must be a dict with keys among {', '.join(known)}.")
    for name, item in value.items():
        if key == "RETENTION":
            if item is not None:
                _check_duration(key, item, f"[{name!r}] ")
        elif isinstance(item, bool) or not isinstance(item, (int, float)) or not 0 <= item < 1e9:
            raise InvalidSetting(key, f"[{name!r}] must be a number from 0 up, not {item!r}.")


def _load(value: Any) -> Any:
    return import_string(value) if isinstance(value, str) else value


class _Settings(SimpleNamespace):
    """The values in force: DEFAULTS overlaid with settings.SQLQUEUE; raises InvalidSetting."""

    def __getattr__(self, key: str) -> Any:
        if key not in DEFAULTS:
            raise AttributeError(key)
        self.__dict__[key] = value = self._value(key)
        return value

    def _value(self, key: str) -> Any:
        given = _given()
        if key not in given:
            return DEFAULTS[key]
        _check(key, given[key])
        value = given[key]
        if isinstance(DEFAULTS[key], dict) and key != "SCHEDULES":
            return {**DEFAULTS[key], **value}
        if key in SECONDS and isinstance(value, timedelta):
            return value.total_seconds()
        return _load(value) if key in CALLABLES else value

    def reload(self, *, setting: str = "SQLQUEUE", **kwargs: Any) -> None:
        """Forget the values read so far; Django's setting_changed calls this in tests."""
        if setting == "SQLQUEUE":
            self.__dict__.clear()


settings = _Settings()
setting_changed.connect(settings.reload)
