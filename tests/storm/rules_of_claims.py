"""The rules about claims: who may run and settle a job, how often, and for how long."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from django_sqlqueue.lifecycle import SETTLED
from tests.storm.breaches import Breach, Found, Rule
from tests.storm.evidence import BLUR, Claim, Evidence, Record, Run

AFTERMATH = 30.0
"""Seconds after a clock was moved in which leases that it measured may be around."""
GIVES_BACK = ("defer", "release")
"""The moves that give an attempt back."""
SWEEPS = ("reclaim", "expire")


def claims_are_given_once(evidence: Evidence) -> Found:
    """No claim was given to two runners, or run twice."""
    for job, claims in evidence.claims.items():
        numbers = Counter(number for number, _ in claims)
        twice = [number for number, times in numbers.items() if times > 1]
        yield Breach("claim", f"claims {twice} were given twice", job) if twice else None
    for job, runs in evidence.runs.items():
        numbers = Counter(run.claim[1] for run in runs)
        twice = [number for number, times in numbers.items() if times > 1]
        yield Breach("claim", f"claims {twice} ran twice", job) if twice else None


def claims_only_grow(evidence: Evidence) -> Found:
    """The row counts at least the claims that were given."""
    for job, claims in evidence.claims.items():
        row = evidence.rows.get(job)
        if row is not None:
            most = max(number for number, _ in claims)
            low = row["claims"] < most
            yield Breach("claim", f"{row['claims']} claims, {most} given", job) if low else None


def lost_claims_settle_nothing(evidence: Evidence) -> Found:
    """No claim was ended twice, or after a later claim of its job had been given."""
    for (job, number), settlings in evidence.settlings.items():
        ended = [settling for settling in settlings if settling.ended]
        later = [r["at"] for n, r in evidence.claims[job] if n > number]
        late = [s for s in ended if later and s.asked["at"] > min(later)]
        if len(ended) > 1:
            yield Breach("fence", f"claim {number} was ended {len(ended)} times", job)
        elif late:
            yield Breach("fence", f"claim {number} was ended, by {late[0].move}, when lost", job)
        else:
            yield None


def rows_hold_what_their_last_claim_left(evidence: Evidence) -> Found:
    """Results and reasons of settled jobs are those of the last claim."""
    for row in evidence.rows.values():
        if row["name"] or row["status"] not in SETTLED:
            continue
        result, said = row["result"], row["last_error"]
        if isinstance(result, dict) and result.get("claims") != row["claims"]:
            yield Breach("fence", f"its result is of claim {result.get('claims')}", row["id"])
        elif (
            said.startswith("asked by claim")
            and row["status"] == "failed"
            and (said != f"asked by claim {row['claims']}")
        ):
            yield Breach("fence", f"its reason is {said!r}", row["id"])
        else:
            yield None


def attempts_stay_within_the_budget(evidence: Evidence) -> Found:
    """No run goes beyond the budget, by the row's count or by ours; each is counted first."""
    requeued = Counter(job for r in evidence.by_what["requeueing"] for job in r["ids"])
    for job, runs in evidence.runs.items():
        most, row = runs[0].began["most"], evidence.rows.get(job)
        numbers = [run.began["attempt"] for run in runs]
        spent = sum(not _may_be_given_back(evidence, run) for run in runs)
        if min(numbers) < 1 or max(numbers) > most:
            yield Breach("budget", f"ran as attempt {numbers} of {most}", job)
        elif row is not None and row["attempts"] > row["max_attempts"]:
            yield Breach("budget", f"has {row['attempts']} attempts", job)
        elif runs[0].began["occurrence"] is None and spent > most * (1 + requeued[job]):
            yield Breach("budget", f"spent {spent} attempts of {most}", job)
        else:
            yield None


def _may_be_given_back(evidence: Evidence, run: Run) -> bool:
    return any(
        settling.move in GIVES_BACK and settling.ended is not False
        for settling in evidence.settlings.get(run.claim, ())
    )


def only_its_runner_ends_a_claim(evidence: Evidence) -> Found:
    """Nobody but the runner that was given a claim has ended it, sweeps apart."""
    for (job, number), settlings in evidence.settlings.items():
        runners = {record["who"] for n, record in evidence.claims[job] if n == number}
        for settling in settlings:
            if settling.move in SWEEPS or not settling.ended or not runners:
                continue
            says = f"claim {number} was ended, by {settling.move}, by another"
            yield None if settling.asked["who"] in runners else Breach("fence", says, job)


def leases_are_renewed(evidence: Evidence) -> Found:
    """A renewal lets a claim that it calls held hold on, but where another locks its row."""
    engine = next(iter(evidence.by_what["storm"]), {}).get("engine")
    longer, left = 0, 0
    for record in evidence.by_what["renewed"]:
        longer += len(record["claims"])
        left += sum(not _was_being_ended(evidence, claim, record) for claim in record["left"])
        yield from (None for _ in record["claims"])
        # One engine has no locks on rows. A lease by a clock that was moved since may end sooner.
        for job, number in record["left"] if engine == "sqlite" else ():
            began = [record["began"], *(r["began"] for n, r in evidence.claims[job] if n == number)]
            if not evidence.was_clock_moved(min(began) - BLUR, record["at"]):
                yield Breach("renewal", f"claim {number} was called held, and not renewed", job)
    if left > max(longer, 10):
        yield Breach("renewal", f"{left} claims were not renewed, {longer} were")


def _was_being_ended(evidence: Evidence, claim: list[int], renewal: Record) -> bool:
    """Did a settlement, of hundreds maybe, have the row locked meanwhile?"""
    return any(
        settling.asked["at"] < renewal["at"] and settling.answered > renewal["began"]
        for settling in evidence.settlings.get((claim[0], claim[1]), ())
    )


def live_leases_are_respected(evidence: Evidence) -> Found:
    """A job is claimed again only when its claim was ended, its lease over or its runner dead."""
    for job, claims in evidence.claims.items():
        for (number, record), (later, taken) in pairwise(claims):
            at = taken["at"]
            if evidence.was_clock_moved(record["began"] - BLUR, at + BLUR):
                continue
            until = evidence.lease_known_until((job, number), at)
            if at >= until or not evidence.was_alive_after(record["who"], at):
                yield None
            elif not _end_was_asked(evidence, (job, number), at):
                yield Breach("lease", f"claim {later} was given while {number} held", job)
            else:
                yield None


def _end_was_asked(evidence: Evidence, claim: Claim, before: float) -> bool:
    return any(
        settling.asked["at"] <= before and settling.ended is not False
        for settling in evidence.settlings.get(claim, ())
    )


def sweeps_take_only_what_is_over(evidence: Evidence) -> Found:
    """What a sweep took back had a lease that was over, or a runner that was dead."""
    for claim, settlings in evidence.settlings.items():
        given = [record for n, record in evidence.claims[claim[0]] if n == claim[1]]
        for settling in settlings:
            at = settling.asked["at"]
            if settling.move not in SWEEPS or not settling.ended or not given:
                continue
            if evidence.was_clock_moved(given[0]["began"] - BLUR, at + BLUR):
                continue
            held = evidence.lease_known_until(claim, at) > at + 0.05
            alive = evidence.was_alive_after(given[0]["who"], at)
            breach = Breach("lease", f"claim {claim[1]} was taken back while it held", claim[0])
            yield breach if held and alive else None


def leases_that_are_over_are_swept(evidence: Evidence) -> Found:
    """Claims were taken back because their lease was over, without a sign of the runner's end."""
    for settlings in evidence.settlings.values():
        yield from (None for each in settlings if each.ended and each.asked["lease_over"])


def leases_are_of_the_length_that_was_asked_for(evidence: Evidence) -> Found:
    """At every sample no lease was longer than one, or over for long."""
    for sample in evidence.by_what["sample"]:
        if evidence.was_clock_moved(sample["at"] - AFTERMATH, sample["at"] + BLUR):
            continue
        for what in ("too_long", "long_over"):
            wrong = sample[what]
            says = f"its lease is {what.replace('_', ' ')}"
            yield Breach("lease", says, wrong[0]) if wrong else None


RULES: tuple[Rule, ...] = (
    claims_are_given_once,
    claims_only_grow,
    lost_claims_settle_nothing,
    rows_hold_what_their_last_claim_left,
    only_its_runner_ends_a_claim,
    attempts_stay_within_the_budget,
    leases_are_renewed,
    leases_that_are_over_are_swept,
    leases_are_of_the_length_that_was_asked_for,
    live_leases_are_respected,
    sweeps_take_only_what_is_over,
)
