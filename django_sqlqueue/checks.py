"""System checks: a mistake is told at start-up, not at three in the morning."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, register

from . import conf


@register("sqlqueue")
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each key of settings.SQLQUEUE that cannot be used."""
    return [
        Error(str(problem), hint=problem.hint or None, id="sqlqueue.E001")
        for problem in conf.problems()
    ]
