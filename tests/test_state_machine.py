"""Any sequence of calls leaves the table as the plain model of the queue says, at every step."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TestCase, override_settings
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from django_sqlqueue import NewJob
from django_sqlqueue.engines import engine_for
from django_sqlqueue.lifecycle import SETTLED
from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome
from django_sqlqueue.testing import run_jobs
from tests import queue_checks
from tests.queue_model import BASE_DELAY, LONGEST_DELAY, SERVER, Claim, Model, ModelJob

HANDLED, FOREIGN = "testapp.noop", "of.another.process"
BACKOFF = {"base": BASE_DELAY, "factor": 2, "cap": LONGEST_DELAY, "jitter": 0}

kinds = st.sampled_from([HANDLED, FOREIGN])
owners = st.sampled_from(["runner-1", "runner-2", "runner-3"])
keys = st.sampled_from([None, "a", "b", "c"])
uris = st.sampled_from(["s3/x/y", "s3x", "s3/x", "s3", "a", "b"])
offsets = st.sampled_from([-600, -60, -10, 0, 0, 0, 10, 60, 600])
leases = st.sampled_from([0, 10, 60, 600])
steps = st.sampled_from([10, 10, 60, 60, 600, 3600, -10, -600])
moves = st.sampled_from(["complete", "retry", "abandon", "defer", "reschedule", "fail"])
results = st.sampled_from([None, {"n": 1}, [1, "ü"]])
new_jobs = st.fixed_dictionaries(
    {
        "kind": kinds,
        "dedup_key": keys,
        "priority": st.sampled_from([-1, 0, 1]),
        "max_attempts": st.sampled_from([1, 2, 3]),
        "offset": offsets,
        "lifetime": st.sampled_from([None, None, 0, 30]),
        "uri": uris,
    }
)
some = st.lists(st.integers(0, 40), min_size=1, max_size=6)
"""Positions in the list of all jobs."""


class QueueMachine(RuleBasedStateMachine):
    """Drives Job.objects and the model side by side; each example is rolled back."""

    claims: Bundle[tuple[Job, Claim]] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.block = transaction.atomic()
        self.block.__enter__()
        self.model = Model()
        self.base = self.now = engine_for(connection).now()
        self.numbers = 0
        self.given: list[tuple[Job, int]] = []
        self.before: dict[int, Job] = {}
        self.allowed: tuple[tuple[str, ...], ...] = ()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.block.__exit__(None, None, None)

    def after(self, seconds: int) -> datetime:
        return self.now + timedelta(seconds=seconds)

    def pick(self, positions: list[int]) -> list[int]:
        ids = sorted(self.model.jobs)
        return sorted({ids[position % len(ids)] for position in positions}) if ids else []

    def expect(self, *allowed: str) -> None:
        """Name the moves that one job may make in this step."""
        self.allowed = tuple((name,) for name in allowed)

    # Putting in

    @rule(by=steps)
    def time_moves(self, by: int) -> None:
        self.expect()
        self.now = self.after(by)

    @rule(new=new_jobs)
    def enqueue(self, new: dict[str, Any]) -> None:
        self.expect()
        wanted = self.wanted(new)
        job = Job.objects.enqueue(**wanted)
        is_duplicate = (new["kind"], new["dedup_key"]) in self.model.live_twins()
        assert (job is None) == is_duplicate
        if job is not None:
            self.model.add(ModelJob(id=job.id, **wanted))

    @rule(news=st.lists(new_jobs, max_size=6))
    def enqueue_many(self, news: list[dict[str, Any]]) -> None:
        self.expect()
        taken, expected = self.model.live_twins(), {}
        jobs = [self.wanted(new) for new in news]
        for wanted in jobs:
            twin = (wanted["kind"], wanted["dedup_key"])
            if wanted["dedup_key"] is None or twin not in taken:
                expected[wanted["payload"]["n"]] = wanted
                taken.add(twin)
        assert Job.objects.enqueue_many([NewJob(**wanted) for wanted in jobs]) == len(expected)
        for job in Job.objects.exclude(pk__in=self.model.jobs):
            self.model.add(ModelJob(id=job.id, **expected.pop(job.payload["n"])))
        assert not expected

    def wanted(self, new: dict[str, Any]) -> dict[str, Any]:
        self.numbers += 1
        run_at = self.after(new["offset"])
        lifetime = new["lifetime"]
        return {
            **{key: new[key] for key in ("kind", "dedup_key", "priority", "max_attempts")},
            "payload": {"n": self.numbers, "uri": new["uri"]},
            "run_at": run_at,
            "deadline": None if lifetime is None else run_at + timedelta(seconds=lifetime),
        }

    # Claims

    @rule(
        target=claims,
        owner=owners,
        only=st.sampled_from([None, None, [HANDLED], [FOREIGN, "none"], []]),
        limit=st.integers(1, 4),
        lease=leases,
    )
    def claim(self, owner: str, only: list[str] | None, limit: int, lease: int) -> Any:
        self.expect("claim")
        return self.take(owner, only, limit, lease)

    @rule(target=claims, claim=claims, owner=owners, move=moves)
    def lose_and_claim_again(self, claim: tuple[Job, Claim], owner: str, move: str) -> Any:
        """The lease ends, a runner has the job again, and only then the first one settles."""
        job = self.model.held(claim[1])
        if job is not None and job.lease_until is not None:
            self.now = max(self.now, job.lease_until)
        self.take_back()
        ends = ("reclaim", "expire", "advance")
        self.allowed = (*((end,) for end in ends), *((end, "claim") for end in ends), ("claim",))
        taken = self.take(owner, None, 8, 60)
        assert not Job.objects.settle(claim[0], self.outcome(claim, move, 10, None), self.now)
        return taken

    def take(self, owner: str, only: list[str] | None, limit: int, lease: int) -> Any:
        due = self.model.due(only, self.now)[:limit]
        jobs = Job.objects.claim(owner, kinds=only, limit=limit, lease=lease, now=self.now)
        assert [job.id for job in jobs] == [job.id for job in due]
        views = [self.model.claim(job, owner, lease, self.now) for job in due]
        self.given += [(job, view.claims) for job, view in zip(jobs, views, strict=True)]
        return multiple(*zip(jobs, views, strict=True))

    @rule(claim=claims, lease=leases)
    def renew(self, claim: tuple[Job, Claim], lease: int) -> None:
        self.expect("renew")
        job = self.model.held(claim[1])
        ids = Job.objects.renew([claim[0]], lease, now=self.now)
        assert ids == ({job.id} if job else set())
        if job:
            job.lease_until = self.after(lease)

    @rule(claim=claims, move=moves, seconds=offsets, result=results)
    def settle(self, claim: tuple[Job, Claim], move: str, seconds: int, result: Any) -> None:
        self.expect(*self.names(move))
        outcome = self.outcome(claim, move, abs(seconds), result)
        settled = Job.objects.settle(claim[0], outcome, self.now)
        assert settled == self.settle_in_model(claim[1], outcome, result)

    @rule(endings=st.lists(st.tuples(claims, moves), min_size=1, max_size=4))
    def settle_many(self, endings: list[tuple[tuple[Job, Claim], str]]) -> None:
        newest = {view.id: view.claims for (_, view), _ in sorted(endings, key=_claims)}
        endings = [
            (claim, move) for claim, move in endings if claim[1].claims == newest[claim[1].id]
        ]
        endings = list({claim[1].id: (claim, move) for claim, move in endings}.values())
        self.expect(*(name for _, move in endings for name in self.names(move)))
        pairs = [(claim, self.outcome(claim, move, 10, None)) for claim, move in endings]
        ended = Job.objects.settle_many([(job, outcome) for (job, _), outcome in pairs], self.now)
        expected = {
            view.id for (_, view), outcome in pairs if self.settle_in_model(view, outcome, None)
        }
        assert ended == {pk: self.model.jobs[pk].status for pk in expected}

    @rule(claim=claims, newest_first=st.booleans())
    def settle_two_claims_of_one_job_at_once(
        self, claim: tuple[Job, Claim], newest_first: bool
    ) -> None:
        job, view = claim
        older = [old for old, claims in self.given if old.id == job.id and claims < view.claims]
        if not older:
            return
        self.expect("complete", "advance")
        pairs = [(job, Outcome(move="complete")), (older[0], Outcome(move="complete"))]
        ended = Job.objects.settle_many(pairs if newest_first else pairs[::-1], self.now)
        held = self.model.settle(view, "complete", self.now)
        assert ended == ({job.id: self.model.jobs[job.id].status} if held else {})

    def names(self, move: str) -> tuple[str, ...]:
        if move == "fail":
            return ("retry", "abandon", "advance")
        return (move, "advance") if move in ("complete", "abandon") else (move,)

    def outcome(self, claim: tuple[Job, Claim], move: str, seconds: int, result: Any) -> Outcome:
        text = Job.objects.kept(claim[0], result)
        if move == "fail":
            return Job.objects.failure(claim[0], "broken")
        if move == "defer":
            return Outcome(move=move, reason=None, delay=seconds, result=text)
        if move == "reschedule":
            return Outcome(move=move, run_at=self.after(seconds))
        if move == "retry":
            return Outcome(move=move, reason="again", delay=seconds, result=text)
        return Outcome(move=move, reason="given up" if move == "abandon" else "", result=text)

    def settle_in_model(self, view: Claim, outcome: Outcome, result: Any) -> bool:
        move, run_at = outcome.move, outcome.run_at
        if outcome.reason == "broken":
            move, run_at = self.model.failure(view, self.now)
            result = None
        elif outcome.delay is not None:
            run_at = self.now + timedelta(seconds=outcome.delay)
        if move == "reschedule":
            result = None
        return self.model.settle(
            view, move, self.now, reason=outcome.reason, run_at=run_at, result=result
        )

    # Taking back

    @rule()
    def reclaim_expired(self) -> None:
        self.expect("reclaim", "expire", "advance")
        self.take_back()

    def take_back(self) -> None:
        expired = self.model.expired(self.now)
        assert Job.objects.reclaim_expired(self.now) == len(expired)
        for job in expired:
            move = "reclaim" if job.attempts < job.max_attempts else "expire"
            self.model.settle(self.model.view(job), move, self.now, reason="lease_expired")

    @rule(owner=owners)
    def release_owned(self, owner: str) -> None:
        self.expect("release")
        owned = [job for job in self.model.jobs.values() if job.lease_owner == owner]
        assert Job.objects.release_owned(owner) == len(owned)
        for job in owned:
            view = self.model.view(job)
            self.model.settle(view, "release", self.base, reason=None, stamp=SERVER)

    @rule()
    def reset_running(self) -> None:
        self.expect("reset", "advance")
        running = [job for job in self.model.jobs.values() if job.status == "running"]
        assert Job.objects.reset_running() == len(running)
        for job in running:
            view = self.model.view(job)
            self.model.settle(view, "reset", self.base, reason="reset", stamp=SERVER)

    # What people do

    @rule(positions=some)
    def cancel(self, positions: list[int]) -> None:
        self.expect("cancel")
        ids = self.pick(positions)
        assert Job.objects.filter(pk__in=ids).cancel() == self.model.cancel(ids)

    @rule(positions=some)
    def requeue(self, positions: list[int]) -> None:
        self.expect("requeue")
        ids = self.pick(positions)
        groups = self.model.to_requeue(ids)
        assert Job.objects.filter(pk__in=ids).requeue() == len(groups)
        ready = set(Job.objects.filter(status="ready").values_list("pk", flat=True))
        for group in groups:
            (moved,) = ready & set(group)
            self.model.requeue(self.model.jobs[moved])

    @rule(offset=offsets, statuses=st.sets(st.sampled_from(SETTLED)))
    def cleanup(self, offset: int, statuses: set[str]) -> None:
        self.expect()
        ids = self.model.settled_before(self.after(offset), statuses)
        assert Job.objects.cleanup(self.after(offset), statuses) == self.model.delete(ids)

    @rule(uri=uris)
    def cancel_for_uri(self, uri: str) -> None:
        self.expect()
        ids = [job.id for job in self.model.jobs.values() if job.below(uri)]
        assert Job.objects.cancel_for_uri(uri) == self.model.delete(ids)

    # Schedules

    @rule(
        name=st.sampled_from(["hourly", "often"]),
        every=st.sampled_from([600, 3600]),
        offset=offsets,
        missed=st.sampled_from(["once", "all", "skip"]),
        lifetime=st.sampled_from([None, 30]),
    )
    def schedule(
        self, name: str, every: int, offset: int, missed: str, lifetime: int | None
    ) -> None:
        self.expect("requeue")
        run_at, interval = self.after(offset), timedelta(seconds=every)
        deadline = None if lifetime is None else timedelta(seconds=lifetime)
        row = Job.objects.schedule(
            name, FOREIGN, every=every, run_at=run_at, missed=missed, deadline=deadline,
            max_attempts=2,
        )  # fmt: skip
        job = self.model.jobs.get(row.id)
        assert (job is None) == (name not in {other.name for other in self.model.jobs.values()})
        if job is None:
            job = ModelJob(row.id, FOREIGN, run_at=run_at, due_at=run_at, name=name, max_attempts=2)
            job.interval = interval
            self.model.add(job)
        self.model.schedule(job, interval, run_at, deadline)
        job.missed = missed

    @rule(name=st.sampled_from(["hourly", "often"]))
    def unschedule(self, name: str) -> None:
        self.expect("cancel")
        ids = [job.id for job in self.model.jobs.values() if job.name == name]
        assert Job.objects.unschedule(name) == bool(self.model.cancel(ids))

    # Running

    @rule()
    def run_one(self) -> None:
        """One attempt from the claim to its end, by a handler that does nothing."""
        self.allowed = (("claim", "complete"), ("claim", "abandon"))
        due = self.model.due([HANDLED], self.now)[:1]
        assert run_jobs(kinds=[HANDLED], limit=1, now=self.now) == len(due)
        for job in due:
            view = self.model.claim(job, "run_jobs", 0, self.now)
            if job.deadline is not None and self.now > job.deadline:
                self.model.settle(view, "abandon", self.now, reason="deadline_passed")
            else:
                self.model.settle(view, "complete", self.now)

    @invariant()
    def the_table_is_as_the_model_says(self) -> None:
        rows = {row.id: row for row in Job.objects.all()}
        queue_checks.same_table(self.model, rows, self.base)
        queue_checks.rows_keep_the_rules(self.model, rows.values())
        queue_checks.only_moves_of_the_table(self.before, rows, self.allowed)
        queue_checks.same_answers(self.model)
        self.before = rows


def _claims(ending: tuple[tuple[Job, Claim], str]) -> int:
    return ending[0][1].claims


@override_settings(SQLQUEUE={"BACKOFF": BACKOFF})
class StateMachineTests(TestCase):
    def test_the_table_follows_the_model(self):
        limits = hypothesis_settings(max_examples=30, stateful_step_count=40)
        run_state_machine_as_test(QueueMachine, settings=limits)

    @pytest.mark.slow
    @pytest.mark.timeout(1800)
    def test_the_table_follows_the_model_for_long(self):
        limits = hypothesis_settings(max_examples=400, stateful_step_count=60, derandomize=False)
        run_state_machine_as_test(QueueMachine, settings=limits)
