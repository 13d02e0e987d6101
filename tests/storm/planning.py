"""What will go wrong in a storm, and when: all of it follows from the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.storm.database_faults import DATABASE_FAULTS
from tests.storm.faults import KILLS, PROCESS_FAULTS, Fault

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault for fault in (*KILLS, *PROCESS_FAULTS, *DATABASE_FAULTS)
}


@dataclass(frozen=True)
class Event:
    """A fault that is planned: when, which, how long, and whom it hits."""

    at: float
    fault: str
    lasts: float
    dice: float


@dataclass(frozen=True)
class Force:
    """How hard it storms."""

    seconds: float
    kills: int
    others: float
    """How many process faults that do not kill come in a second."""
    lease: float
    database: float = 0.0
    """What part of the time something is wrong with the database."""
    small_disk: bool = False
    clocks: bool = False


def plan(seed: int, engine: str, force: Force) -> list[Event]:
    """Return what will go wrong: the same seed, the same faults in the same order."""
    dice = random.Random(f"{seed} {engine}")
    numbers = ((KILLS, force.kills), (PROCESS_FAULTS, int(force.others * force.seconds)))
    events = [
        _draw(dice, faults, engine, force, dice.uniform(1, force.seconds))
        for faults, number in numbers
        for _ in range(number)
    ]
    events += _one_after_the_other(dice, engine, force)
    return sorted(events, key=lambda event: event.at)


def _one_after_the_other(dice: random.Random, engine: str, force: Force) -> list[Event]:
    """Return the faults of the database, each after the end of the one before."""
    events: list[Event] = []
    at = dice.uniform(2, 4)
    while force.database and at < force.seconds - force.lease:
        event = _draw(dice, DATABASE_FAULTS, engine, force, at)
        events.append(event)
        wrong = max(event.lasts, 0.5)
        at += event.lasts + wrong * (1 / force.database - 1) * dice.uniform(0.5, 1.5)
    return events


def _draw(
    dice: random.Random, faults: Sequence[type[Fault]], engine: str, force: Force, at: float
) -> Event:
    found = [
        fault
        for fault in faults
        if engine in fault.engines and (not fault.needs or getattr(force, fault.needs))
    ]
    (fault,) = dice.choices(found, [each.weight for each in found])
    lasts = dice.uniform(*fault.lasts) * force.lease
    return Event(round(at, 2), fault.name, round(lasts, 2), dice.random())
