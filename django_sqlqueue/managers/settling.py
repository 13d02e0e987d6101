"""Ending claims: what an outcome does to the row, and the history it leaves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import occurrences, payloads, policy
from ..conf import settings
from ..durations import Seconds, clamp, to_seconds
from ..engines.base import TEXT_AT_ONCE
from ..engines.instants import as_aware
from ..exceptions import InvalidJob
from ..fields import ServerClock
from ..kinds import backoff_of
from ..lifecycle import CANCELLED, MOVES, RUNNING
from ..newjob import check_instant
from ..policy import Outcome, Settlement, claim_of
from ..reasons import class_path, one_line, storable
from .announcing import announce, somebody_listens
from .base import PinnedQuerySet, in_batches

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")

FAILURES = ("retried", "failed", "lost")
KEPT_ATTEMPTS = 100
"""So many attempts of one job are kept, the newest."""

Ended = tuple["Job", Outcome, Settlement]


class Settling(PinnedQuerySet):
    def settle(self, job: Job, outcome: Outcome, now: datetime | None = None) -> bool:
        """End a claim with an outcome; False, and nothing written, where the claim was lost."""
        ended = claim_of(job)[0] in self.settle_many([(job, outcome)], now)
        if ended:
            job.__dict__["_ended_by"] = outcome.move
        return ended

    def settle_many(
        self,
        pairs: Sequence[tuple[Job, Outcome]],
        now: datetime | None = None,
        *,
        lease_over: bool = False,
    ) -> dict[int, str]:
        """End many claims; return the new status of those that still held.

        It is one statement, unless their results and tracebacks are too long for that.
        """
        pairs = _newest_claims(pairs)
        for job, outcome in pairs:
            job.id, job.claims = claim_of(job)
            if outcome.run_at is not None:
                check_instant("run_at", outcome.run_at)
        statuses: dict[int, str] = {}
        for batch in in_batches(pairs, len(pairs), _texts_of):
            statuses |= self.engine.retrying(partial(self._settle, batch, now, lease_over))
        if somebody_listens(self.model):
            announce(pairs, statuses, self.db)
        return statuses

    def _settle(
        self, pairs: list[tuple[Job, Outcome]], now: datetime | None, lease_over: bool
    ) -> dict[int, str]:
        engine = self.engine
        recurring = [job for job, outcome in pairs if _goes_on(job, outcome)]
        endings = [] if recurring else [self._ending(*pair, None, now) for pair in pairs]
        if not recurring and not any(self._is_kept(*ending) for ending in endings):
            return engine.settle([item for _, _, item in endings], now, lease_over)
        with engine.unit():
            if recurring:
                present = self._as_they_are_now(recurring)
                endings = [
                    self._ending(job, outcome, present.get(job.id), now) for job, outcome in pairs
                ]
            statuses = engine.settle([item for _, _, item in endings], now, lease_over)
            self._keep_history(endings, statuses, now)
        for job, _, item in endings:
            if item.missed and job.id in statuses:
                log.warning("Schedule %r passed over %d occurrences.", job.name, item.missed)
        return statuses

    def _as_they_are_now(self, jobs: list[Job]) -> dict[int, Job]:
        """Return the rhythms of schedules, which may have been changed while their jobs ran.

        Their rows stay locked until the claims are ended: a change comes before or after.
        """
        table = self.model.objects.using(self.db).filter(pk__in=[job.pk for job in jobs])
        rhythms = table.only("interval", "cron", "timezone", "missed", "lifetime")
        return {schedule.pk: schedule for schedule in rhythms.order_by("pk").select_for_update()}

    def _ending(
        self, job: Job, outcome: Outcome, schedule: Job | None, now: datetime | None
    ) -> Ended:
        following = None
        if schedule is not None:
            job.lifetime = schedule.lifetime
            if outcome.move != "reschedule":
                following = self._following(job, outcome, schedule, now)
        return job, outcome, policy.settlement(job, outcome, following)

    def _following(
        self, job: Job, outcome: Outcome, schedule: Job, now: datetime | None
    ) -> policy.Occurrence | None:
        """Return the next occurrence by the rhythm that the schedule has now.

        None, where it has none, lets the outcome end the schedule itself.
        """
        if not schedule.cron and schedule.interval is None:
            return None
        present = self.engine.now() if now is None else as_aware(now)
        due_at = as_aware(job.due_at or job.run_at)
        # A run that came too late was none: it stands for no other occurrence.
        unrun = outcome.reason == policy.DEADLINE_PASSED
        started_at = due_at if unrun else as_aware(job.started_at or due_at)
        try:
            rhythm = occurrences.rhythm_of(schedule)
            if outcome.skipped:
                return occurrences.latest_due(rhythm, due_at, started_at)
            return occurrences.following(rhythm, due_at, started_at, present, schedule.missed)
        except Exception as error:
            log.error(
                "The rhythm of schedule %r cannot be read here (%s); it is put off.",
                job.name, class_path(type(error)),
            )  # fmt: skip
            return policy.Occurrence(present + occurrences.PUT_OFF)

    # Outcomes that need the settings or the handler's options

    def failure(self, job: Job, reason: str, traceback: str = "") -> Outcome:
        """Return what a failed attempt leads to, by the job's budget and its kind's backoff."""
        return policy.failure(job, reason, self.backoff(job), traceback)

    def backoff(self, job: Job) -> float:
        """Return the seconds until the next attempt; a broken backoff falls back to the default."""
        try:
            delay = clamp(float(backoff_of(job.kind, settings.BACKOFF)(job.attempts)))
        except Exception as error:
            log.error(
                "The backoff of kind %r raised %s; the default is used.",
                job.kind,
                type(error).__name__,
            )
            delay = policy.Backoff(**settings.BACKOFF)(job.attempts)
        return delay

    def deferral(self, delay: Seconds | timedelta) -> Outcome:
        return Outcome(move="defer", delay=to_seconds("delay", delay), reason=None)

    def kept(self, job: Job, result: Any) -> str | None:
        """Return a result as JSON text; what JSON cannot hold is dropped with a log line."""
        if result is None:
            return None
        try:
            text = payloads.dump(result, "result", settings.MAX_PAYLOAD_BYTES)
        except InvalidJob as error:
            # Not where in the result: a key is content.
            log.warning(
                "The result of job %d (%s) is dropped, as something in it %s",
                job.id, job.kind, error.problem,
            )  # fmt: skip
            return None
        if len(text) > TEXT_AT_ONCE and not self.engine.takes(text):
            log.warning(
                "The result of job %d (%s) is dropped, as the server does not take it at once.",
                job.id,
                job.kind,
            )
            return None
        return text

    # While running

    def report_progress(self, job: Job, percent: float, note: str) -> bool:
        if isinstance(percent, bool) or not isinstance(percent, (int, float)):
            raise InvalidJob("percent", f"must be a number, not {type(percent).__name__}.")
        if not 0 <= percent <= 100:
            raise InvalidJob("percent", f"must be from 0 to 100, not {percent!r}.")
        job.progress, job.progress_note = int(percent), storable(note)[:200]
        if job.__dict__.get("_in_atomic_handler"):
            # Nobody could see it before the handler's commit, and it would lock the row for the
            # thread that renews the lease.
            return True
        return bool(
            self.claimed(job).update(
                progress=job.progress, progress_note=job.progress_note, updated_at=ServerClock()
            )
        )

    def cancel_requested(self, job: Job) -> bool:
        return not self.claimed(job).filter(cancel_requested_at__isnull=True).exists()

    def claimed(self, job: Job) -> Any:
        """Return the row of this claim, or nothing where the claim was lost."""
        table, (job_id, claims) = self.model.objects.using(self.db), claim_of(job)
        return table.filter(pk=job_id, claims=claims, status=RUNNING)

    # History

    def _is_kept(self, job: Job, outcome: Outcome, item: Settlement) -> bool:
        """Say whether the attempt leaves a row, unless the job turns out to be cancelled."""
        if outcome.skipped or settings.HISTORY == "none":
            return False
        name = _outcome_name(outcome, item)
        is_occurrence = job.name is not None and name == "done"
        return settings.HISTORY == "all" or name in FAILURES or is_occurrence

    def _keep_history(
        self, endings: list[Ended], statuses: dict[int, str], now: datetime | None
    ) -> None:
        attempt: Any = self.model._meta.get_field("history").related_model
        rows = []
        for job, outcome, item in endings:
            if job.id in statuses and self._is_kept(job, outcome, item):
                cancelled = statuses[job.id] == CANCELLED
                name = "cancelled" if cancelled else _outcome_name(outcome, item)
                rows.append(_attempt(attempt, job, outcome, name, now))
        attempts = attempt.objects.using(self.db)
        attempts.bulk_create(rows)
        for row in rows:
            if row.number >= KEPT_ATTEMPTS or row.job.name is not None:
                _trim(attempts.filter(job_id=row.job_id))


def _goes_on(job: Job, outcome: Outcome) -> bool:
    """Say whether the outcome takes a schedule to another occurrence, which needs its rhythm."""
    return job.name is not None and (policy.ends(job, outcome) or outcome.move == "reschedule")


def _texts_of(pair: tuple[Job, Outcome]) -> str:
    return (pair[1].result or "") + pair[1].traceback


def _newest_claims(pairs: Sequence[tuple[Job, Outcome]]) -> list[tuple[Job, Outcome]]:
    """Leave out a claim beside a later one of the same job: it is lost, as claims only grow."""
    newest: dict[int, tuple[Job, Outcome]] = {}
    for pair in pairs:
        job_id, claims = claim_of(pair[0])
        other = newest.get(job_id)
        if other is None or claims > claim_of(other[0])[1]:
            newest[job_id] = pair
    return list(newest.values())


def _attempt(model: Any, job: Job, outcome: Outcome, name: str, now: datetime | None) -> Any:
    return model(
        job=job,
        number=job.attempts,
        runner=job.lease_owner or "",
        started_at=job.started_at,
        ended_at=ServerClock() if now is None else now,
        outcome=name,
        reason=one_line(outcome.reason or ""),
        traceback=outcome.traceback,
    )


def _trim(attempts: Any) -> None:
    oldest = attempts.order_by("-id").values_list("id", flat=True)[KEPT_ATTEMPTS - 1 :][:1]
    for first_kept in oldest:
        attempts.filter(id__lt=first_kept).delete()


def _outcome_name(outcome: Outcome, item: Settlement) -> str:
    return (MOVES[outcome.move] if item.move.name == "advance" else item.move).outcome
