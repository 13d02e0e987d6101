"""The lanes of ready jobs: what a claim has to look at, whatever the backlog.

A lane is one (kind, queue, priority). The claim index holds each lane as one run, ordered by
run_at and id, so its head is one probe and the jobs of a lane that are due are its first rows.
A claim that knows the lanes touches neither jobs of foreign kinds nor jobs that are not yet due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

COLUMNS = ("kind", "queue", "priority")
ORDER = (*COLUMNS, "run_at", "id")
"""The order of the claim index."""
AT_ONCE = 100
"""How many probes go into one statement."""


class Lane(NamedTuple):
    kind: str
    queue: str
    priority: int
    run_at: datetime
    """When the first job of the lane is due."""


class Probe(NamedTuple):
    """Ask for the first lane with these leading values and, behind them, one above `above`."""

    fixed: tuple[Any, ...]
    above: Any = None

    def where(self) -> tuple[str, list[Any]]:
        terms = [f"{column} = %s" for column in COLUMNS[: len(self.fixed)]]
        if self.above is not None:
            terms.append(f"{COLUMNS[len(self.fixed)]} > %s")
        params = [*self.fixed] if self.above is None else [*self.fixed, self.above]
        return "".join(f" AND {term}" for term in terms), params

    def order(self) -> str:
        """Return the order of the rows behind this probe, without the columns that are fixed."""
        # One engine sorts the whole lane where a fixed column of text is named as well.
        return ", ".join(ORDER[len(self.fixed) :])

    def beyond(self, lane: Lane) -> list[Probe]:
        """Return the probes for what can follow the lane that this probe found."""
        return [Probe(lane[:level], lane[level]) for level in range(len(self.fixed), 3)]


Heads = Callable[[Sequence[Probe]], list[tuple[int, Lane]]]


def roots(kinds: Sequence[str] | None, queues: Sequence[str] | None) -> list[Probe]:
    """Return the probes to begin with."""
    if kinds is None:
        return [Probe(())]
    if queues is None:
        return [Probe((kind,)) for kind in kinds]
    return [Probe((kind, queue)) for kind in kinds for queue in queues]


def lanes(heads: Heads, kinds: Sequence[str] | None, queues: Sequence[str] | None) -> list[Lane]:
    """Return every lane of these kinds and queues; None means any.

    `heads` answers a list of probes with (number of the probe, lane) for each that found one.
    """
    found: list[Lane] = []
    probes = roots(kinds, queues)
    while probes:
        now, probes = probes[:AT_ONCE], probes[AT_ONCE:]
        for number, lane in heads(now):
            found.append(lane)
            probes += now[number].beyond(lane)
    if kinds is None and queues is not None:
        return [lane for lane in found if lane.queue in queues]
    return found
