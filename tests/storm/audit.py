"""The audit of a storm: what must hold of the journal and the tables when all is quiet.

It is pure: it takes what a storm left behind and returns what it checked and every breach. A rule
is a function that yields breaches; its name is the rule's, its docstring what must hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from django_sqlqueue.lifecycle import DONE, LIVE, RUNNING, SETTLED, STATUSES
from tests.storm.evidence import Claim, Evidence, Run, Tables
from tests.storm.journal import Record

AFTERMATH = 40.0
"""Seconds after a clock was set right in which leases that it measured may be around."""
GIVES_BACK = ("defer", "release")
"""The moves that give an attempt back."""
SWEEPS = ("reclaim", "expire")


@dataclass(frozen=True)
class Breach:
    """A rule that did not hold, and for which job."""

    rule: str
    says: str
    job: int | None = None
    token: str | None = None


@dataclass
class Report:
    """What an audit has found."""

    checked: dict[str, int] = field(default_factory=dict)
    breaches: list[Breach] = field(default_factory=list)


Found = Iterator[Breach | None]
Rule = Callable[[Evidence], Found]
"""Yields for each case what it is: None where the rule holds."""

RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


def audit(records: Iterable[Record], tables: Tables) -> Report:
    """Check every rule; `checked` counts the cases of each."""
    evidence, report = Evidence(records, tables), Report()
    for each in RULES:
        found = list(each(evidence))
        report.checked[each.__name__] = len(found)
        report.breaches += [breach for breach in found if breach is not None]
    return report


@rule
def committed_jobs_are_settled(evidence: Evidence) -> Found:
    """Every job whose transaction was committed is settled, if nobody deleted it."""
    removals = evidence.by_what["removing"]
    deleted = {job for record in removals for job in record["ids"]}
    tokens = {token for record in removals for token in record["tokens"]}
    uris = {record["uri"] for record in evidence.by_what["removing_uri"]}
    ids = {run.began["token"]: run.claim[0] for runs in evidence.runs.values() for run in runs}
    for promise in evidence.promises():
        row = evidence.row_of_token.get(promise.token)
        if row is None and not promise.committed:
            continue
        if row is None:
            known = ids.get(promise.token)
            excused = promise.uri in uris or known in deleted or promise.token in tokens
            yield None if excused else Breach("lost", "it is gone", known, promise.token)
        elif row["status"] not in SETTLED:
            yield Breach("lost", f"it is still {row['status']}", row["id"], promise.token)
        else:
            yield None


@rule
def rolled_back_jobs_never_ran(evidence: Evidence) -> Found:
    """No job of a transaction that was rolled back has a row, or has run."""
    ran = {run.began["token"]: run.claim[0] for runs in evidence.runs.values() for run in runs}
    for promise in evidence.promises():
        if promise.committed is False:
            row = evidence.row_of_token.get(promise.token)
            if row is not None:
                yield Breach("ghost", "it has a row", row["id"], promise.token)
            elif promise.token in ran:
                yield Breach("ghost", "it ran", ran[promise.token], promise.token)
            else:
                yield None


@rule
def every_run_is_of_an_announced_job(evidence: Evidence) -> Found:
    """Whatever ran was announced by a producer."""
    known = {promise.token for promise in evidence.promises()} | {"tick"}
    for runs in evidence.runs.values():
        for run in runs:
            token = run.began["token"]
            yield None if token in known else Breach("ghost", "nobody made it", run.claim[0], token)


@rule
def done_jobs_ran_to_their_end(evidence: Evidence) -> Found:
    """The last claim of a job that is done ran its handler to the end."""
    for row in evidence.rows.values():
        if row["status"] == DONE:
            runs = [run for run in evidence.runs[row["id"]] if run.claim[1] == row["claims"]]
            whole = any(run.to_the_end for run in runs)
            yield None if whole else Breach("unrun", "no run of its claim ended", row["id"])


@rule
def effects_happen_once(evidence: Evidence) -> Found:
    """An atomic handler's effect is there once where the job is done, else not at all."""
    effects = Counter(entry["token"] for entry in evidence.tables.entries)
    claims = {entry["token"]: entry["claims"] for entry in evidence.tables.entries}
    for promise in evidence.promises():
        if promise.kind != "storm.atomic":
            continue
        row, found = evidence.row_of_token.get(promise.token), effects[promise.token]
        # One that was asked to stop and completed all the same keeps its result.
        whole = row is not None and (row["status"] == DONE or row["result"] is not None)
        # One that somebody deleted may have been done before.
        deleted = row is None and promise.committed is not False
        wrong = found > 1 if deleted else found != int(whole)
        job = None if row is None else row["id"]
        if wrong:
            says = f"{found} effects, and it is {row and row['status']}"
            yield Breach("effect", says, job, promise.token)
        elif row is not None and whole and claims[promise.token] != row["claims"]:
            yield Breach("effect", "its effect is another claim's", job, promise.token)
        else:
            yield None


@rule
def keys_have_one_live_job(evidence: Evidence) -> Found:
    """At every sample at most one live job held each (kind, key)."""
    for sample in evidence.by_what["sample"]:
        twins = sample["twins"]
        yield Breach("twins", f"live twins: {twins}") if twins else None


@rule
def samples_show_no_broken_row(evidence: Evidence) -> Found:
    """At every sample attempts were within their budget, and what ran had a lease."""
    for sample in evidence.by_what["sample"]:
        if sample["overspent"]:
            yield Breach("budget", "more attempts than it may have", sample["overspent"][0])
        elif sample["unleased"]:
            yield Breach("stuck", "running without a lease", sample["unleased"][0])
        else:
            yield None


@rule
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


@rule
def claims_only_grow(evidence: Evidence) -> Found:
    """The row counts at least the claims that were given."""
    for job, claims in evidence.claims.items():
        row = evidence.rows.get(job)
        if row is not None:
            most = max(number for number, _ in claims)
            low = row["claims"] < most
            yield Breach("claim", f"{row['claims']} claims, {most} given", job) if low else None


@rule
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


@rule
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


@rule
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


@rule
def live_leases_are_respected(evidence: Evidence) -> Found:
    """A job is claimed again only when its claim was ended, its lease over or its runner dead."""
    clocks = _clock_faults(evidence)
    for job, claims in evidence.claims.items():
        for (number, record), (later, taken) in pairwise(claims):
            at = taken["at"]
            if any(begin <= at <= end for begin, end in clocks):
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


@rule
def sweeps_take_only_what_is_over(evidence: Evidence) -> Found:
    """What a sweep took back had a lease that was over, or a runner that was dead."""
    clocks = _clock_faults(evidence)
    for claim, settlings in evidence.settlings.items():
        owners = [record["who"] for n, record in evidence.claims[claim[0]] if n == claim[1]]
        for settling in settlings:
            at = settling.asked["at"]
            if settling.move not in SWEEPS or not settling.ended or not owners:
                continue
            if any(begin <= at <= end for begin, end in clocks):
                continue
            held = evidence.lease_known_until(claim, at) > at + 0.05
            alive = evidence.was_alive_after(owners[0], at)
            breach = Breach("lease", f"claim {claim[1]} was taken back while it held", claim[0])
            yield breach if held and alive else None


def _clock_faults(evidence: Evidence) -> list[tuple[float, float]]:
    """Return when leases could not be known, as clocks were moved."""
    spans: list[tuple[float, float]] = []
    for record in evidence.by_what["fault"]:
        if "clock" in record["name"]:
            spans.append((record["at"] - 1, record["at"] + AFTERMATH))
    return spans


@rule
def nothing_runs_when_all_is_quiet(evidence: Evidence) -> Found:
    """No row is running, and only schedules are ready."""
    for row in evidence.tables.jobs:
        live = row["status"] in LIVE and (row["name"] is None or row["status"] == RUNNING)
        if row["status"] not in STATUSES or live:
            yield Breach("stuck", f"it is {row['status']}", row["id"])
        else:
            yield None


@rule
def failures_have_reasons(evidence: Evidence) -> Found:
    """Each job that failed says why."""
    for row in evidence.rows.values():
        if row["status"] == "failed":
            yield None if row["last_error"] else Breach("reason", "it says nothing", row["id"])


@rule
def kept_histories_are_whole(evidence: Evidence) -> Found:
    """Where every attempt is kept, each claim of a settled job has left one."""
    header = next(iter(evidence.by_what["storm"]), {})
    if header.get("history") != "all":
        return
    kept = Counter(attempt["job_id"] for attempt in evidence.tables.attempts)
    for row in evidence.tables.jobs:
        if row["status"] in SETTLED and row["claims"] < 100:
            whole = kept[row["id"]] == row["claims"]
            says = f"{row['claims']} claims left {kept[row['id']]} attempts"
            yield None if whole else Breach("history", says, row["id"])
