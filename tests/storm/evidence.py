"""What a storm left behind, put in order for the audit: who did what to which job, and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from tests.storm.journal import Record

Claim = tuple[int, int]

BLUR = 2.0
"""Seconds within which all processes see that their clock was moved."""


@dataclass
class Tables:
    """What the database holds when all is quiet."""

    jobs: list[dict[str, Any]]
    attempts: list[dict[str, Any]] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    """The ledger: token and claims of each effect."""
    markers: set[str] = field(default_factory=set)
    scratch: list[str] = field(default_factory=list)
    """What handlers left in transactions that they did not end."""


@dataclass
class Run:
    """One execution of a handler, begun and perhaps ended."""

    began: Record
    ended: Record | None = None

    @property
    def claim(self) -> Claim:
        return self.began["job"], self.began["claims"]

    @property
    def to_the_end(self) -> bool:
        return self.ended is not None and self.ended["how"] == "return"


@dataclass
class Settling:
    """One call that would end a claim, and what it was told."""

    asked: Record
    move: str
    ended: bool | None = None
    """None where the answer is not known, or may have been undone."""
    answered: float = inf


@dataclass(frozen=True)
class Promise:
    """What a producer's transaction made of one job."""

    token: str
    kind: str
    txn: str
    uri: str | None
    committed: bool | None
    """None where the answer was lost: either will do."""
    key: str | None
    began: float
    ended: float
    how: str
    """How its transaction ended, by what the producer was told."""


class Evidence:
    """The journal and the tables by job, by claim and by token."""

    def __init__(self, records: Iterable[Record], tables: Tables) -> None:
        self.records, self.tables = list(records), tables
        self.by_what: dict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            self.by_what[record["what"]].append(record)
        self.rows = self._rows()
        self.row_of_token = {row["token"]: row for row in self.rows.values() if not row["name"]}
        self.runs = self._runs()
        self.claims = self._claims()
        self.settlings = self._settlings()
        self.last_seen = {record["who"]: record["at"] for record in self.records}

    def _rows(self) -> dict[int, dict[str, Any]]:
        """Return the last state of each job: as it was before a cleanup, where one deleted it."""
        archived = [row for record in self.by_what["archived"] for row in record["rows"]]
        return {row["id"]: row for row in (*archived, *self.tables.jobs)}

    def _runs(self) -> dict[int, list[Run]]:
        runs: dict[int, list[Run]] = defaultdict(list)
        present: dict[tuple[str, int, int], Run] = {}
        for record in self.records:
            if record["what"] == "begin":
                run = Run(record)
                runs[record["job"]].append(run)
                present[record["who"], record["job"], record["claims"]] = run
            elif record["what"] == "end":
                run_of = present.get((record["who"], record["job"], record["claims"]))
                if run_of is not None:
                    run_of.ended = record
        return runs

    def _claims(self) -> dict[int, list[tuple[int, Record]]]:
        """Return, for each job, what was claimed, in the order of the claims.

        A runner may stand still before it hears of its claim, and others hear of later ones.
        """
        claims: dict[int, list[tuple[int, Record]]] = defaultdict(list)
        for record in self.by_what["claimed"]:
            for job, number in record["claims"]:
                claims[job].append((number, record))
        for given in claims.values():
            given.sort(key=lambda claim: claim[0])
        return claims

    def _settlings(self) -> dict[Claim, list[Settling]]:
        answers = {record["call"]: record for record in self.by_what["settled"]}
        settlings: dict[Claim, list[Settling]] = defaultdict(list)
        for asked in self.by_what["settling"]:
            answer = answers.get(asked["call"])
            # The answer names jobs: of several claims of one job it is the newest that was ended.
            newest = {job: number for job, number, _ in sorted(asked["ends"])}
            for job, number, move in asked["ends"]:
                settling = Settling(asked, move)
                if answer is not None:
                    ended = number == newest[job] and str(job) in answer["statuses"]
                    settling.ended = ended if answer["certain"] or not ended else None
                    settling.answered = answer["at"]
                settlings[job, number].append(settling)
        return settlings

    def lease_known_until(self, claim: Claim, before: float) -> float:
        """Return until when the lease held for sure, by what was known at an instant."""
        job, number = claim
        known = [r["began"] + r["lease"] for n, r in self.claims[job] if n == number]
        renewals = [
            record["began"] + record["lease"]
            for record in self.renewals.get(claim, ())
            if record["at"] < before
        ]
        return max([*known, *renewals], default=0.0)

    @cached_property
    def renewals(self) -> dict[Claim, list[Record]]:
        found: dict[Claim, list[Record]] = defaultdict(list)
        for record in self.by_what["renewed"]:
            for job, number in record["claims"]:
                found[job, number].append(record)
        return found

    def last_runs(self, row: dict[str, Any]) -> list[Run]:
        """Return the runs of a row's last claim."""
        return [run for run in self.runs.get(row["id"], ()) if run.claim[1] == row["claims"]]

    def was_alive_after(self, who: str, at: float) -> bool:
        return self.last_seen.get(who, 0.0) > at

    def was_clock_moved(self, since: float, until: float) -> bool:
        """Was a clock moved in between, by which the queue goes?"""
        return any(since <= at <= until for at in self._clock_moves)

    @cached_property
    def _clock_moves(self) -> list[float]:
        return [record["at"] for record in self.by_what["fault"] if record["moves_leases"]]

    @cached_property
    def promises(self) -> list[Promise]:
        """Return what became of each job that a producer announced."""
        ends = {
            record["txn"]: record
            for what in ("commit", "rollback", "unknown")
            for record in self.by_what[what]
        }
        found = []
        for intent in self.by_what["intent"]:
            end = ends.get(intent["txn"], {"what": "unknown", "at": inf})
            times = intent["at"], end["at"]
            for token, kind, key, uri in intent["jobs"]:
                committed = self._committed(intent, end, token)
                found.append(
                    Promise(token, kind, intent["txn"], uri, committed, key, *times, end["what"])
                )
        return found

    def _committed(self, intent: Record, end: Record, token: str) -> bool | None:
        if end["what"] == "rollback" or token in end.get("absent", ()):
            return False
        if token in end.get("doubtful", ()):
            return None
        if end["what"] == "commit":
            return True
        keyed = {each: key for each, _, key, _ in intent["jobs"]}
        if not intent["marked"]:
            return None
        if intent["txn"] not in self.tables.markers:
            return False
        # Committed, but which of its keyed jobs met a twin was not told.
        return None if keyed[token] is not None else True

    def history(self, job: int | None, token: str | None) -> list[str]:
        """Return all that is known of a job, for people to read."""
        lines = [str(record) for record in self.records if _concerns(record, job, token)]
        rows = [row for row in self.tables.jobs if row["id"] == job or row["token"] == token]
        lines += [f"row: {row}" for row in rows]
        lines += [f"attempt: {a}" for a in self.tables.attempts if a["job_id"] == job]
        return lines + [f"effect: {e}" for e in self.tables.entries if e["token"] == token]


def _concerns(record: Record, job: int | None, token: str | None) -> bool:
    if token is not None and (
        record.get("token") == token or any(each[0] == token for each in record.get("jobs", ()))
    ):
        return True
    if job is None:
        return False
    claims = record.get("claims")
    return (
        record.get("job") == job
        or (isinstance(claims, list) and any(each[0] == job for each in claims))
        or any(each[0] == job for each in record.get("ends", ()))
        or str(job) in record.get("statuses", ())
        or job in record.get("ids", ())
        or any(row["id"] == job for row in record.get("rows", ()))
    )
