"""What a rule of the audit is, and what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tests.storm.evidence import Evidence


@dataclass(frozen=True)
class Breach:
    """A rule that did not hold, and for which job."""

    rule: str
    says: str
    job: int | None = None
    token: str | None = None


Found = Iterator[Breach | None]
"""A breach for each case that is one, None for each that is none."""


class Rule(Protocol):
    __name__: str

    def __call__(self, evidence: Evidence) -> Found: ...
