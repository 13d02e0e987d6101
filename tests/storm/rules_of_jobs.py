"""The rules about jobs: what becomes of each, of its effects and of its key."""

from __future__ import annotations

from collections import Counter

from django_sqlqueue.lifecycle import DONE, LIVE, RUNNING, SETTLED, STATUSES
from tests.storm.breaches import Breach, Found, Rule
from tests.storm.evidence import Evidence


def committed_jobs_are_settled(evidence: Evidence) -> Found:
    """Every job whose transaction was committed is settled, if nobody deleted it."""
    removals = evidence.by_what["removing"]
    deleted = {job for record in removals for job in record["ids"]}
    tokens = {token for record in removals for token in record["tokens"]}
    uris = {record["uri"] for record in evidence.by_what["removing_uri"]}
    ids = {run.began["token"]: run.claim[0] for runs in evidence.runs.values() for run in runs}
    for promise in evidence.promises:
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


def rolled_back_jobs_never_ran(evidence: Evidence) -> Found:
    """No job of a transaction that was rolled back has a row, or has run."""
    ran = {run.began["token"]: run.claim[0] for runs in evidence.runs.values() for run in runs}
    for promise in evidence.promises:
        if promise.committed is False:
            row = evidence.row_of_token.get(promise.token)
            if row is not None:
                yield Breach("ghost", "it has a row", row["id"], promise.token)
            elif promise.token in ran:
                yield Breach("ghost", "it ran", ran[promise.token], promise.token)
            else:
                yield None


def every_run_is_of_an_announced_job(evidence: Evidence) -> Found:
    """Whatever ran was announced by a producer."""
    known = {promise.token for promise in evidence.promises} | {"tick"}
    for runs in evidence.runs.values():
        for run in runs:
            token = run.began["token"]
            yield None if token in known else Breach("ghost", "nobody made it", run.claim[0], token)


def done_jobs_ran_to_their_end(evidence: Evidence) -> Found:
    """The last claim of a job that is done ran its handler to the end."""
    for row in evidence.rows.values():
        if row["status"] == DONE:
            whole = any(run.to_the_end for run in evidence.last_runs(row))
            yield None if whole else Breach("unrun", "no run of its claim ended", row["id"])


def effects_happen_once(evidence: Evidence) -> Found:
    """An atomic handler's effect is there once where the job is done, else not at all."""
    effects = Counter(entry["token"] for entry in evidence.tables.entries)
    claims = {entry["token"]: entry["claims"] for entry in evidence.tables.entries}
    for promise in evidence.promises:
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


def keys_have_one_live_job(evidence: Evidence) -> Found:
    """At every sample at most one live job held each (kind, key)."""
    for sample in evidence.by_what["sample"]:
        twins = sample["twins"]
        yield Breach("twins", f"live twins: {twins}") if twins else None


def samples_show_no_broken_row(evidence: Evidence) -> Found:
    """At every sample attempts were within their budget, and what ran had a lease."""
    for sample in evidence.by_what["sample"]:
        if sample["overspent"]:
            yield Breach("budget", "more attempts than it may have", sample["overspent"][0])
        elif sample["unleased"]:
            yield Breach("stuck", "running without a lease", sample["unleased"][0])
        else:
            yield None


def nothing_runs_when_all_is_quiet(evidence: Evidence) -> Found:
    """No row is running, and only schedules are ready."""
    for row in evidence.tables.jobs:
        live = row["status"] in LIVE and (row["name"] is None or row["status"] == RUNNING)
        if row["status"] not in STATUSES or live:
            yield Breach("stuck", f"it is {row['status']}", row["id"])
        else:
            yield None


def failures_have_reasons(evidence: Evidence) -> Found:
    """Each job that failed says why."""
    for row in evidence.rows.values():
        if row["status"] == "failed":
            yield None if row["last_error"] else Breach("reason", "it says nothing", row["id"])


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


RULES: tuple[Rule, ...] = (
    committed_jobs_are_settled,
    rolled_back_jobs_never_ran,
    every_run_is_of_an_announced_job,
    done_jobs_ran_to_their_end,
    effects_happen_once,
    keys_have_one_live_job,
    samples_show_no_broken_row,
    nothing_runs_when_all_is_quiet,
    failures_have_reasons,
    kept_histories_are_whole,
)
