"""What is known of the kinds in this process: the options that their handlers declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .policy import Backoff, BackoffLike
from .reasons import Classify


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How jobs of a kind run; None leaves it to the settings."""

    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    backoff: BackoffLike | None = None
    timeout: float | Callable[[Any], float | None] | None = None
    """Seconds that one attempt may take, or a function of the job; None is without limit."""
    atomic: bool = False
    """Do the handler's database effects commit together with the job's completion?"""
    classify: Classify = None


UNKNOWN = Options()
_declared: dict[str, Options] = {}


def declare(kind: str, options: Options) -> None:
    _declared[kind] = options


def forget(kind: str) -> None:
    _declared.pop(kind, None)


def options_of(kind: str) -> Options:
    """Return what the kind's handler declared, or nothing where it is not known here."""
    return _declared.get(kind, UNKNOWN)


def backoff_of(kind: str, default: dict[str, float]) -> BackoffLike:
    """Return the kind's backoff, or the one of the settings."""
    own = options_of(kind).backoff
    return Backoff(**default) if own is None else own
