"""The rules about enqueueing: what is refused, what comes in, and from when on it may run."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import inf
from typing import Any

from django_sqlqueue.lifecycle import CANCELLED
from tests.storm.breaches import Breach, Found, Rule
from tests.storm.database_faults import DATABASE_FAULTS
from tests.storm.evidence import BLUR, Evidence, Promise

TROUBLES = {"OperationalError", "InterfaceError", "InternalError"}
"""What callers may see of a database in trouble; one engine calls its being read-only internal."""
AROUND = 5.0
"""Seconds before or after a fault of the database begins or ends in which it explains an error."""
SOON = 1.0
"""Seconds after which an error may be the end of a wait for locks."""
FEW = 10
"""How many errors nothing needs to explain: two transactions may wait for each other."""
EARLY = 0.05
"""Seconds by which two clocks of a machine may differ."""


def refused_jobs_had_a_twin(evidence: Evidence) -> Found:
    """A keyed job that did not come in met another one, live at the time, with its key."""
    promises = [promise for promise in evidence.promises if promise.key is not None]
    lives: dict[tuple[str, str | None], list[tuple[float, float]]] = defaultdict(list)
    for promise in promises:
        row = evidence.row_of_token.get(promise.token)
        if row is not None:
            life = promise.began, _end_of_life(evidence, row)
            lives[promise.kind, promise.key].append(life)
    for promise in promises:
        if promise.token not in evidence.row_of_token and _was_refused(evidence, promise):
            met = any(
                began <= promise.ended and ended >= promise.began
                for began, ended in lives[promise.kind, promise.key]
            )
            says = f"no other job held {promise.key!r}"
            yield None if met else Breach("refused", says, None, promise.token)


def _end_of_life(evidence: Evidence, row: dict[str, Any]) -> float:
    """Return when a job was settled at the latest; for ever is only said to be on the safe side."""
    if row["status"] == CANCELLED:
        return inf
    settlings = evidence.settlings.get((row["id"], row["claims"]), ())
    return max((settling.answered for settling in settlings if settling.ended), default=inf)


def _was_refused(evidence: Evidence, promise: Promise) -> bool:
    committed = promise.how == "commit" or promise.txn in evidence.tables.markers
    return committed and not promise.committed


def as_many_came_in_as_was_said(evidence: Evidence) -> Found:
    """Of jobs enqueued at once so many are missing as were said to be refused."""
    for record in evidence.by_what["commit"]:
        if "refused" in record:
            missing = [each for each in record["doubtful"] if each not in evidence.row_of_token]
            says = f"{record['refused']} were refused, {len(missing)} are missing: {missing}"
            right = len(missing) == record["refused"]
            yield None if right else Breach("refused", f"{says} of {record['txn']}")


def errors_are_those_of_a_database_in_trouble(evidence: Evidence) -> Found:
    """Nobody who enqueued, or operated, saw an error that the queue is to spare them."""
    for record in (*evidence.by_what["unknown"], *evidence.by_what["operator"]):
        error = record.get("error")
        expected = error is None or error in TROUBLES
        says = f"{error} in {record.get('verb') or record.get('txn')}"
        yield None if expected else Breach("error", says)


def errors_come_with_faults(evidence: Evidence) -> Found:
    """Few who enqueued saw an error at once while nothing was wrong with the database."""
    names = {fault.name for fault in DATABASE_FAULTS}
    faults = [record["at"] for record in evidence.by_what["fault"] if record.get("name") in names]
    began = {intent["txn"]: intent["at"] for intent in evidence.by_what["intent"]}
    unexplained = [
        record
        for record in evidence.by_what["unknown"]
        if record["at"] - began[record["txn"]] < SOON
        and not any(abs(record["at"] - at) < AROUND for at in faults)
    ]
    yield from (None for _ in began)
    if len(unexplained) > max(FEW, len(began) / 20):
        yield Breach("error", f"{len(unexplained)} of {len(began)} saw one, as {unexplained[0]}")


def tokens_are_of_one_job(evidence: Evidence) -> Found:
    """One job was made of each token, and whatever ran of a job had its token."""
    pairs = {(row["token"], row["id"]) for row in evidence.rows.values()}
    for job, runs in evidence.runs.items():
        pairs |= {(run.began["token"], job) for run in runs}
    jobs, tokens = Counter(token for token, _ in pairs), Counter(job for _, job in pairs)
    for token, job in sorted(pairs, key=str):
        if jobs[token] > 1 or tokens[job] > 1:
            says = f"{jobs[token]} jobs have this token, {tokens[job]} tokens this job"
            yield Breach("token", says, job, token)
        else:
            yield None


def delayed_jobs_wait(evidence: Evidence) -> Found:
    """No job ran before its delay was over, unless somebody let it run at once."""
    due = {
        token: (intent["at"], intent["at"] + delay)
        for intent in evidence.by_what["intent"]
        for token, delay in intent.get("delays", {}).items()
    }
    hurried = {
        job
        for what in ("hurrying", "requeueing")
        for record in evidence.by_what[what]
        for job in record["ids"]
    }
    for job, runs in evidence.runs.items():
        at, token = runs[0].began["at"], runs[0].began["token"]
        if token not in due or job in hurried:
            continue
        made, earliest = due[token]
        if evidence.was_clock_moved(made - BLUR, at + BLUR):
            continue
        says = f"it ran {earliest - at:.2f} seconds too early"
        yield Breach("early", says, job, token) if at < earliest - EARLY else None


RULES: tuple[Rule, ...] = (
    refused_jobs_had_a_twin,
    as_many_came_in_as_was_said,
    errors_are_those_of_a_database_in_trouble,
    errors_come_with_faults,
    tokens_are_of_one_job,
    delayed_jobs_wait,
)
