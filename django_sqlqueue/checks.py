"""System checks: a mistake is told at start-up, not at three in the morning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from . import conf, discovery, schedules
from .engines import Engine, engine_for
from .engines.link import Advice
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


@register("sqlqueue")
def check_connection(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Return what to set for the database of the jobs, of which nothing is asked here."""
    engine = _engine_among(databases or connections)
    return [] if engine is None else _infos(engine, engine.advice_on_settings())


@register(Tags.database)
def check_database(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Return what the database of the jobs says of itself that should be otherwise."""
    engine = _engine_among(databases or ())
    return [] if engine is None else _infos(engine, engine.advice_on_database())


def _engine_among(databases: Iterable[str]) -> Engine | None:
    """Return the engine of the jobs' database, where that is meant and can be told."""
    if conf.problems() or (alias := Job.objects.all().db) not in databases:
        return None
    try:
        return engine_for(connections[alias])
    except ImproperlyConfigured:
        return None


def _infos(engine: Engine, advice: list[Advice]) -> list[CheckMessage]:
    """Word advice as information: nothing is lost where a project does not follow it."""
    return [
        Info(f"The database {engine.connection.alias!r} {each.found}.", hint=each.hint,
             id=f"sqlqueue.{each.id}")
        for each in advice
    ]  # fmt: skip
