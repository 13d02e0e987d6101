"""The rules about outcomes: how each job came to its end, and how a schedule goes on."""

from __future__ import annotations

from collections import defaultdict
from math import inf

from django_sqlqueue import policy
from django_sqlqueue.lifecycle import CANCELLED, DONE, FAILED, READY, SETTLED
from tests.storm.breaches import Breach, Found, Rule
from tests.storm.evidence import Evidence, Run

ABANDONING = {"Abandon", "SystemExit"}
"""What a handler of a storm raises to fail at once."""
STRANGE = {policy.NO_HANDLER, policy.DAMAGED_PAYLOAD, policy.DEADLINE_PASSED}
"""Reasons that no job of a storm can have: a release leaves alone what it does not know."""
COMPLETING = {"storm.atomic", "storm.still"}
"""What is completed in the attempt: its handler may have returned, and that be refused."""
SCHEDULE = "storm.tick"
SLOWEST = 15.0
"""Seconds in which the schedule, due every second, must run once on the average of a storm."""


def failures_are_deserved(evidence: Evidence) -> Found:
    """A job failed as its handler said so, or as its attempts were spent without a success."""
    for row in evidence.rows.values():
        if row["status"] != FAILED or row["name"]:
            continue
        ends = {run.ended["how"] for run in evidence.last_runs(row) if run.ended}
        reason, number, most = row["last_error"], row["attempts"], row["max_attempts"]
        stored = row["kind"] in COMPLETING or reason == policy.LEASE_EXPIRED
        if reason in STRANGE:
            yield Breach("outcome", f"it failed with {reason}", row["id"], row["token"])
        elif ends & ABANDONING:
            yield None
        elif number != most:
            says = f"it failed with {reason!r} in attempt {number} of {most}, its run: {ends}"
            yield Breach("outcome", says, row["id"], row["token"])
        elif "return" in ends and not stored:
            says = f"its handler returned, and it failed with {reason!r}"
            yield Breach("outcome", says, row["id"], row["token"])
        else:
            yield None


def jobs_are_cancelled_where_asked(evidence: Evidence) -> Found:
    """A job is cancelled where somebody asked for it, and is nothing else where it was asked."""
    asked = {job for record in evidence.by_what["cancelling"] for job in record["ids"]}
    for row in evidence.rows.values():
        if row["status"] == CANCELLED and row["id"] not in asked:
            yield Breach("cancel", "nobody cancelled it", row["id"], row["token"])
        elif row["status"] in (DONE, FAILED) and row["cancel_requested_at"] is not None:
            says = f"it was asked to stop and is {row['status']}"
            yield Breach("cancel", says, row["id"], row["token"])
        elif row["status"] in SETTLED:
            yield None


def done_jobs_hold_their_results(evidence: Evidence) -> Found:
    """Each done job holds what its handler returned; of which claim, another rule looks at."""
    for row in evidence.rows.values():
        if row["status"] == DONE:
            whole = isinstance(row["result"], dict) and row["result"].keys() == {"claims"}
            says = f"its result is {row['result']}"
            yield None if whole else Breach("result", says, row["id"], row["token"])


def unfinished_transactions_left_nothing(evidence: Evidence) -> Found:
    """What a handler wrote in a transaction that it left open is gone."""
    for runs in evidence.runs.values():
        for run in runs:
            if run.began["kind"] == "storm.messy":
                yield None
    for name in evidence.tables.scratch:
        yield Breach("scratch", f"{name!r} was committed", int(name.split()[-2]))


def occurrences_complete_once(evidence: Evidence) -> Found:
    """An occurrence that is known to have completed never runs again."""
    occurrences: dict[str, list[Run]] = defaultdict(list)
    for runs in evidence.runs.values():
        for run in runs:
            if run.began["occurrence"] is not None:
                occurrences[run.began["occurrence"]].append(run)
    for name, runs in occurrences.items():
        completed = [run.claim[1] for run in runs if _completed(evidence, run)]
        again = [run.claim[1] for run in runs if completed and run.claim[1] > min(completed)]
        says = f"claim {completed} completed {name}, {again} ran it again"
        yield Breach("schedule", says, runs[0].claim[0]) if again else None


def _completed(evidence: Evidence, run: Run) -> bool:
    settlings = evidence.settlings.get(run.claim, ())
    return any(settling.move == "complete" and settling.ended for settling in settlings)


def the_schedule_goes_on(evidence: Evidence) -> Found:
    """When all is quiet the schedule waits for its next occurrence, and has run all the while."""
    for quiet in evidence.by_what["quiet"]:
        statuses = [row["status"] for row in evidence.tables.jobs if row["name"] == SCHEDULE]
        ran = {
            run.began["occurrence"]
            for runs in evidence.runs.values()
            for run in runs
            if run.began["kind"] == SCHEDULE and run.to_the_end
        }
        passed = quiet["at"] - evidence.records[0]["at"]
        if statuses != [READY]:
            yield Breach("schedule", f"there are {statuses} of it")
        elif len(ran) < passed / SLOWEST and not evidence.was_clock_moved(0, inf):
            yield Breach("schedule", f"it ran {len(ran)} times in {passed:.0f} seconds")
        else:
            yield None


RULES: tuple[Rule, ...] = (
    failures_are_deserved,
    jobs_are_cancelled_where_asked,
    done_jobs_hold_their_results,
    unfinished_transactions_left_nothing,
    occurrences_complete_once,
    the_schedule_goes_on,
)
