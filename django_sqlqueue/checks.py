"""System checks: a mistake is told at start-up, not at three in the morning."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004

from . import conf, discovery, schedules
from .exceptions import SqlQueueError
from .managers.scheduling import columns_of
from .models import Job
from .newjob import check_instant


@register("sqlqueue")
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each key of settings.SQLQUEUE that cannot be used."""
    return [
        Error(str(problem), hint=problem.hint or None, id="sqlqueue.E001")
        for problem in conf.problems()
    ]


@register("sqlqueue")
def check_schedules(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each declared schedule that can never run, a warning for a doubtful."""
    if conf.problems():
        return []
    found: list[CheckMessage] = []
    for name, options in schedules.declared().items():
        try:
            given = dict(options)
            if given.get("run_at") is not None:
                check_instant("run_at", given["run_at"])
            given.pop("run_at", None)
            columns_of(name, **given)
        except (SqlQueueError, TypeError, ValueError) as error:
            hint = "Give it kind, every or cron, and only the options of Job.objects.schedule."
            found.append(Error(f"The schedule {name!r}: {error}", hint=hint, id="sqlqueue.E002"))
            continue
        if discovery.resolve(Job(kind=options["kind"], payload={}), trusted=True) is None:
            found.append(
                Warning(
                    f"No handler serves the kind {options['kind']!r} of the schedule {name!r}.",
                    hint="Register one in a jobs module of an installed app, or fix the name.",
                    id="sqlqueue.W001",
                )
            )
    return found
