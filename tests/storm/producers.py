"""A producer of a storm: it enqueues in every way there is, at a pace, and changes its mind."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from django_sqlqueue import NewJob
from tests.storm.enqueueing import enqueue_alone, enqueue_together, new_job

Dice = random.Random

URIS = [f"storm:/shelf/{number}" for number in range(40)]
KEYS = [f"key {number}" for number in range(8)]
MOODS = ("defers", "retries", "fine", "abandons", "fails", "leaves")
MESSES = ("open block", "open by SQL", "broken block", "leaked connection", "closed connection")


def _quick(dice: Dice) -> NewJob:
    payload = {"uri": dice.choice(URIS)} if dice.random() < 0.03 else {}
    delay = dice.random() if dice.random() < 0.1 else None
    return new_job("storm.quick", payload, priority=dice.choice((0, 0, 0, 5)), delay=delay)


def _keyed(dice: Dice) -> NewJob:
    return new_job("storm.keyed", dedup_key=dice.choice(KEYS))


def _slow(dice: Dice) -> NewJob:
    return new_job("storm.slow", {"seconds": round(dice.uniform(0.1, 0.8), 2)})


def _atomic(dice: Dice) -> NewJob:
    seconds = round(dice.uniform(0.05, 0.3), 2) if dice.random() < 0.05 else 0
    return new_job("storm.atomic", {"seconds": seconds})


def _dying_atomic(dice: Dice) -> NewJob:
    return new_job("storm.atomic", {"die": True})


def _moody(dice: Dice) -> NewJob:
    # None defers for ever.
    moods = [dice.choice(MOODS) for _ in range(3)] + [dice.choice(MOODS[2:])]
    return new_job("storm.moody", {"moods": moods})


def _messy(dice: Dice) -> NewJob:
    return new_job("storm.messy", {"mess": dice.choice(MESSES)})


def _of(kind: str) -> Callable[[Dice], NewJob]:
    return lambda dice: new_job(kind)


MENU: dict[str, tuple[float, Callable[[Dice], NewJob]]] = {
    "quick": (560, _quick),
    "keyed": (90, _keyed),
    "atomic": (140, _atomic),
    "parent": (30, _of("storm.parent")),
    "coroutine": (50, _of("storm.coroutine")),
    "moody": (60, _moody),
    "messy": (15, _messy),
    "new": (25, _of("storm.new")),
    "slow": (20, _slow),
    "long": (1.0, _of("storm.long")),
    "recursing": (2, _of("storm.recursing")),
    "hanging": (1.0, _of("storm.hanging")),
    "stubborn": (0.3, _of("storm.stubborn")),
    "still": (0.3, _of("storm.still")),
    "dying atomic": (0.5, _dying_atomic),
    "killing": (0.8, _of("storm.killing")),
    "exiting": (0.4, _of("storm.exiting")),
}
"""How often each is drawn, and how it is made."""


def draw(dice: Dice, menu: dict[str, float] | None = None) -> NewJob:
    """Return a job at random, by the weights of the menu or by others."""
    weights = menu or {name: weight for name, (weight, _) in MENU.items()}
    name = dice.choices(list(weights), list(weights.values()))[0]
    return MENU[name][1](dice)


def produce(seed: int, rate: float, seconds: float, menu: dict[str, float] | None = None) -> None:
    """Enqueue about `rate` jobs a second, for so many seconds."""
    dice = random.Random(seed)
    began, made = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        if made > passed * rate:
            time.sleep(min(0.1, made / rate - passed))
            continue
        made += _enqueue_some(dice, menu)


def _enqueue_some(dice: Dice, menu: dict[str, float] | None) -> int:
    """Enqueue once, in one of the ways; return how many jobs that were."""
    way = dice.random()
    if way < 0.35:
        enqueue_alone(draw(dice, menu))
        return 1
    number = dice.randint(1, 4) if way < 0.75 else dice.randint(10, 60)
    enqueue_together(
        [draw(dice, menu) for _ in range(number)],
        in_bulk=way >= 0.75,
        roll_back=dice.random() < 0.1,
        die=dice.random() < 0.01,
    )
    return number
