"""The audit of a storm: what must hold of the journal and the tables when all is quiet.

It is pure: it takes what a storm left behind and returns what it checked and every breach. A rule
is a function that yields, for each case, a breach or None; its docstring is what must hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.storm import rules_of_claims, rules_of_enqueueing, rules_of_jobs, rules_of_outcomes
from tests.storm.breaches import Breach, Rule
from tests.storm.evidence import Evidence, Tables
from tests.storm.journal import Record

RULES: tuple[Rule, ...] = (
    *rules_of_jobs.RULES,
    *rules_of_claims.RULES,
    *rules_of_outcomes.RULES,
    *rules_of_enqueueing.RULES,
)


@dataclass
class Report:
    """What an audit has found."""

    checked: dict[str, int] = field(default_factory=dict)
    """How many cases of each rule there were."""
    breaches: list[Breach] = field(default_factory=list)


def audit(records: Iterable[Record], tables: Tables) -> Report:
    evidence, report = Evidence(records, tables), Report()
    for rule in RULES:
        found = list(rule(evidence))
        report.checked[rule.__name__] = len(found)
        report.breaches += [breach for breach in found if breach is not None]
    return report
