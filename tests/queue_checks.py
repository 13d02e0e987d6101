"""What holds of the table after every step: it is as the model says, by the moves there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta

from django_sqlqueue.lifecycle import LIVE, MOVES, SETTLED, STATUSES
from django_sqlqueue.models import Job
from tests.queue_model import SERVER, Model, ModelJob

A_MOMENT = timedelta(minutes=2)
COLUMNS = [field.name for field in fields(ModelJob) if field.name not in ("asked", "over_budget")]

Moves = tuple[str, ...]


def same_table(model: Model, rows: dict[int, Job], present: datetime) -> None:
    """Compare every column; what the server's clock gave is read back into the model."""
    assert rows.keys() == model.jobs.keys()
    for row in rows.values():
        job = model.jobs[row.id]
        for name in COLUMNS:
            if getattr(job, name) is SERVER:
                assert abs(getattr(row, name) - present) < A_MOMENT
                setattr(job, name, getattr(row, name))
            assert getattr(row, name) == getattr(job, name), (row.id, name)
        assert (row.cancel_requested_at is not None) == job.asked


def rows_keep_the_rules(model: Model, rows: Iterable[Job]) -> None:
    twins = Counter((r.kind, r.dedup_key) for r in rows if r.status in LIVE and r.dedup_key)
    assert all(number == 1 for number in twins.values())
    for row in rows:
        assert (row.status == "running") == (row.lease_owner is not None)
        assert (row.status == "running") == (row.lease_until is not None)
        assert (row.status in SETTLED) == (row.finished_at is not None)
        if not model.jobs[row.id].over_budget:
            assert 0 <= row.attempts <= row.max_attempts


def only_moves_of_the_table(
    before: dict[int, Job], rows: dict[int, Job], allowed: Iterable[Moves]
) -> None:
    """Each job made at most the moves that one of `allowed` names, in that order."""
    may_claim = any("claim" in names for names in allowed)
    for pk in rows.keys() & before.keys():
        old, new = before[pk], rows[pk]
        assert new.claims - old.claims in ((0, 1) if may_claim else (0,))
        if (old.status, old.attempts) == (new.status, new.attempts):
            continue
        # A second call of schedule may begin a waiting schedule anew.
        ends = {("ready", 0)} if new.name and old.status == "ready" else set()
        ends.update(*(_reachable(old, names) for names in allowed))
        assert (new.status, new.attempts) in ends, (old.status, new.status, allowed)


def _reachable(old: Job, names: Moves) -> set[tuple[str, int]]:
    """Return each (status, attempts) to which these moves, in this order, lead from a row."""
    found = {(old.status, old.attempts)}
    for name in names:
        move = MOVES[name]
        targets = set(move.targets)
        if old.cancel_requested_at is not None and old.status == "running" and name != "renew":
            targets = {"cancelled"}
        found = {
            (target, _counted(attempts, move.attempts))
            for status, attempts in found
            if status in move.sources
            for target in targets
        }
    return found


def _counted(attempts: int, how: str) -> int:
    return {"+1": attempts + 1, "-1": max(attempts - 1, 0), "=0": 0}.get(how, attempts)


def same_answers(model: Model) -> None:
    jobs = model.jobs.values()
    counted = Counter(job.status for job in jobs)
    assert Job.objects.stats() == {status: counted[status] for status in STATUSES}
    instants = [job.run_at for job in jobs if job.status == "ready"]
    instants += [job.lease_until for job in jobs if job.lease_until is not None]
    assert Job.objects.next_due() == min(instants, default=None)
