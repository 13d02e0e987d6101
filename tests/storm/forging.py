"""Journals and tables written by hand, for the tests of the audit."""

from __future__ import annotations

import itertools
from typing import Any

from tests.storm.audit import audit
from tests.storm.evidence import Tables

LEASE = 3.0
FIRST, SECOND = "1-first", "2-second"
"""Two runners."""


class History:
    """A journal and tables that are written by hand; each line comes a tenth of a second later."""

    def __init__(self, history: str = "failures") -> None:
        self.records: list[dict[str, Any]] = []
        self.tables = Tables(jobs=[])
        self._clock, self._calls = itertools.count(), itertools.count()
        self.write("storm", history=history)

    def write(self, what: str, who: str = FIRST, **facts: Any) -> dict[str, Any]:
        record = {"what": what, "at": next(self._clock) / 10, "who": who, **facts}
        self.records.append(record)
        return record

    def wait(self, seconds: float) -> None:
        self._clock = itertools.count(next(self._clock) + int(seconds * 10))

    def announce(self, token: str, end: str = "commit", kind: str = "storm.quick",
                 key: str | None = None, delay: float | None = None, **facts: Any):  # fmt: skip
        delays = {} if delay is None else {token: delay}
        jobs = [[token, kind, key, None]]
        self.write("intent", txn=token, marked=True, jobs=jobs, delays=delays)
        if end in ("commit", "rollback", "unknown"):
            self.write(end, txn=token, **facts)
        if end == "commit":
            self.tables.markers.add(token)

    def claim(self, job: int, number: int, who: str = FIRST) -> None:
        at = next(self._clock) / 10
        self.write("claimed", who, began=at, lease=LEASE, claims=[[job, number]])

    def run(self, job: int, number: int, token: str, end: str | None = "return", **facts: Any):
        who = facts.pop("who", FIRST)
        same = {"job": job, "claims": number, "token": token}
        begin = {"kind": "storm.quick", "attempt": 1, "most": 5, "occurrence": None, **facts}
        self.write("begin", who, **same, **begin)
        if end is not None:
            self.write("end", who, **same, how=end)

    def settle(self, job: int, number: int, move: str = "complete", who: str = FIRST,
               status: str | None = "done", certain: bool = True, **facts: Any):  # fmt: skip
        call = f"{who}:{next(self._calls)}"
        self.write("settling", who, call=call, ends=[[job, number, move]], lease_over=False)
        statuses = {} if status is None else {str(job): status}
        self.write("settled", who, call=call, statuses=statuses, certain=certain)

    def row(self, job: int, token: str, status: str = "done", **columns: Any) -> dict[str, Any]:
        row = {
            "id": job, "token": token, "kind": "storm.quick", "status": status, "attempts": 1,
            "max_attempts": 5, "claims": 1, "dedup_key": None, "last_error": "", "name": None,
            "result": {"claims": columns.get("claims", 1)} if status == "done" else None,
            "lease_owner": None, "cancel_requested_at": None, **columns,
        }  # fmt: skip
        self.tables.jobs.append(row)
        return row

    def good_job(self, job: int = 1, token: str = "a", kind: str = "storm.quick") -> dict[str, Any]:
        """A job that was committed, claimed, run and settled once."""
        self.announce(token, kind=kind)
        self.claim(job, 1)
        self.run(job, 1, token, kind=kind)
        self.settle(job, 1)
        return self.row(job, token, kind=kind)

    def rules_broken(self) -> set[str]:
        return {breach.rule for breach in audit(self.records, self.tables).breaches}
