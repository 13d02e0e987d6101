"""Storms shaped so that one missing guard of the queue shows within seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Shape:
    """The storm for one break, and the rules of which one must see it."""

    options: dict[str, Any]
    seen_by: frozenset[str] = field(default_factory=frozenset)


SHAPES: dict[str, Shape] = {
    # Workers that stand still longer than their lease come back with outcomes of lost claims.
    "fence": Shape(
        {"menu": {"still": 1, "quick": 5}, "lease": 1.0, "kills": 0, "others": 0.0, "jobs": 250},
        frozenset({"fence", "lease"}),
    ),
    "claim guard": Shape(
        {"menu": {"quick": 3, "slow": 1}, "lease": 3.0, "kills": 0, "others": 0.0, "jobs": 800},
        frozenset({"lease", "claim"}),
    ),
    "late count": Shape(
        {"menu": {"killing": 1, "quick": 4}, "lease": 1.0, "kills": 0, "others": 0.0, "jobs": 100},
        frozenset({"budget"}),
    ),
    # Workers die when the effect is committed, so before a completion that comes afterwards.
    "completion apart": Shape(
        {
            "menu": {"dying atomic": 1, "atomic": 4},
            "lease": 1.0,
            "kills": 0,
            "others": 0.0,
            "jobs": 100,
        },
        frozenset({"effect"}),
    ),
    "no renewal": Shape(
        {"menu": {"long": 1, "quick": 6}, "lease": 1.0, "kills": 0, "others": 0.0, "jobs": 150},
        frozenset({"renewal"}),
    ),
}
SHAPED: dict[str, Any] = {"seconds": 10.0, "quiet": 15.0, "database": 0.0}
