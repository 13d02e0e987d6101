"""Naming recurring jobs: schedule, unschedule."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from django.db import IntegrityError, transaction

from .. import occurrences
from ..durations import Seconds, to_seconds
from ..engines.base import CONFLICT_TRIES
from ..engines.instants import as_aware
from ..exceptions import InvalidJob
from ..fields import ServerClock
from ..lifecycle import LIVE, READY, SETTLED
from ..newjob import NewJob, check_instant, check_text
from ..rhythms import Cron
from .adjusting import is_paused
from .enqueueing import COLUMNS, Enqueueing, row_of

if TYPE_CHECKING:
    from ..models import Job

OPTIONS = ("queue", "priority", "ref", "max_attempts", "deadline")
RHYTHM = ("interval", "cron", "timezone")


class Scheduling(Enqueueing):
    def schedule(
        self,
        name: str,
        kind: str,
        *,
        every: Seconds | timedelta | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        payload: Any = None,
        run_at: datetime | None = None,
        missed: str = "once",
        **options: Any,
    ) -> Job:
        """Name a recurring job, or change the one of this name; return its row.

        Due `every` interval (seconds or timedelta) or when `cron` (five fields) matches the clock
        of `timezone` (the project's by default); first at `run_at`, else at once (`every`) or at
        the next match (`cron`). `missed` is "once", "all" or "skip". Options: queue, priority,
        ref, max_attempts, and deadline (a timedelta after each due time).

        A second call changes kind, rhythm and options. It keeps the state, and the next due time
        where the rhythm did not change; while an occurrence runs it takes effect at its end.
        Raises InvalidJob for bad input, before any SQL.
        """
        wanted = columns_of(
            name, kind, every=every, cron=cron, timezone=timezone, payload=payload, missed=missed,
            **options,
        )  # fmt: skip
        return self._store({**wanted, "declared": False}, run_at, options.get("deadline"))

    def declare(
        self,
        name: str,
        kind: str,
        *,
        run_at: datetime | None = None,
        deadline: timedelta | None = None,
        **options: Any,
    ) -> Job:
        """Name a schedule as schedule does, for as long as the project's code declares it."""
        wanted = columns_of(name, kind, deadline=deadline, **options)
        return self._store({**wanted, "declared": True}, run_at, deadline)

    def withdraw(self, names: Collection[str]) -> int:
        """Cancel the declared schedules that are not among `names`; return how many."""
        declared = self.model.objects.using(self.db).filter(declared=True)
        return declared.exclude(name__in=names).cancel()

    def _store(self, wanted: dict[str, Any], run_at: Any, deadline: Any) -> Job:
        lifetime = None if deadline is None else timedelta(seconds=to_seconds("deadline", deadline))
        first = None if run_at is None else check_instant("run_at", run_at)
        engine = self.engine

        def insert_or_change() -> int:
            with engine.unit():
                return self._change(wanted, first, lifetime) or self._add(wanted, first, lifetime)

        for left in reversed(range(CONFLICT_TRIES)):
            try:
                pk = engine.retrying(insert_or_change)
                break
            except IntegrityError:
                # Somebody else has named it first, and the next turn changes that. Where the
                # caller's transaction will never see it, only the caller can start again.
                if not left:
                    raise
        self.wake_workers()
        return self.model.objects.using(self.db).get(pk=pk)

    def unschedule(self, name: str) -> bool:
        """Cancel the schedule of this name; False where there is no live one."""
        named = self.model.objects.using(self.db).filter(name=check_text("name", name))
        return named.cancel() > 0

    def _add(self, wanted: dict[str, Any], first: datetime | None, lifetime: Any) -> int:
        due_at = first or _first_due(wanted, self.engine.now())
        row = {**wanted, **_due(due_at, lifetime)}
        with transaction.atomic(using=self.db):
            return self.model.objects.using(self.db).create(**row).pk

    def _change(self, wanted: dict[str, Any], first: datetime | None, lifetime: Any) -> int:
        named = self.model.objects.using(self.db).filter(name=wanted["name"])
        # A write first: it locks the row, so that what is read next stays true.
        if not named.update(updated_at=ServerClock()):
            return 0
        present = named.get()
        changes = {**wanted, "cancel_requested_at": None}
        if present.status in SETTLED:
            due_at = first or _first_due(wanted, self.engine.now())
            changes |= {"status": READY, "attempts": 0, "last_error": "", "finished_at": None}
            changes |= _due(due_at, lifetime)
        elif present.status == READY and any(getattr(present, k) != wanted[k] for k in RHYTHM):
            due_at = first or _next_due(present, wanted, self.engine.now())
            changes |= {"attempts": 0, **_due(due_at, lifetime)}
            if is_paused(present):
                # It stays so; due_at is where it will go on.
                del changes["run_at"]
        else:
            due_at = as_aware(present.due_at or present.run_at)
            changes["deadline"] = None if lifetime is None else due_at + lifetime
            changes["lifetime"] = lifetime
        named.filter(status__in=(*LIVE, *SETTLED)).update(**changes)
        return present.pk


def columns_of(
    name: str,
    kind: str,
    *,
    every: Any = None,
    cron: Any = None,
    timezone: Any = None,
    payload: Any = None,
    missed: str = "once",
    **options: Any,
) -> dict[str, Any]:
    """Return what a schedule's row holds, but for its times; raises InvalidJob for bad input."""
    if options.get("deadline") is not None:
        to_seconds("deadline", options["deadline"])
    if unknown := set(options) - set(OPTIONS):
        raise InvalidJob(min(unknown), f"is no option of a schedule; known: {', '.join(OPTIONS)}.")
    if (every is None) == (cron is None):
        raise InvalidJob("every", "or cron must be given, and not both.")
    plain = {key: value for key, value in options.items() if key != "deadline"}
    row = dict(zip(COLUMNS, row_of(NewJob(kind, payload, **plain)), strict=True))
    del row["dedup_key"], row["run_at"], row["deadline"]
    row["payload"] = {} if payload is None else payload
    row["name"] = check_text("name", name)
    row["missed"] = occurrences.check_missed(missed)
    row |= {"interval": None, "cron": "", "timezone": ""}
    if every is not None:
        if timezone is not None:
            occurrences.check_zone(timezone)
        return {**row, "interval": occurrences.check_every(every)}
    zone = occurrences.check_zone(django_settings.TIME_ZONE if timezone is None else timezone)
    return {**row, "cron": occurrences.check_cron(cron, zone).expression, "timezone": zone}


def _due(due_at: datetime, lifetime: timedelta | None) -> dict[str, Any]:
    return {
        "run_at": due_at,
        "due_at": due_at,
        "deadline": None if lifetime is None else due_at + lifetime,
        "lifetime": lifetime,
    }


def _first_due(wanted: dict[str, Any], now: datetime) -> datetime:
    if wanted["cron"]:
        return Cron(wanted["cron"], wanted["timezone"]).after(now, now)
    return now


def _next_due(present: Job, wanted: dict[str, Any], now: datetime) -> datetime:
    """Return when a schedule with a new rhythm is due: on the new grid, never in the past."""
    if wanted["cron"]:
        return _first_due(wanted, now)
    if present.interval:
        due_at = as_aware(present.due_at or present.run_at)
        last = due_at - present.interval
        return max(now, last + wanted["interval"] if present.claims else due_at)
    # A cron schedule's last due time is not known, but the latest run began right after it.
    ran_at = present.started_at
    return now if ran_at is None else max(now, as_aware(ran_at) + wanted["interval"])
