"""Small charts as inline SVG, drawn with the admin's own colours; no script, no inline style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 360, 72
GAP = 2


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time: how many jobs were done in it and how many failed."""

    label: str
    done: int
    failed: int


def bars(title: str, description: str, found: Sequence[Bar]) -> SafeString:
    """Return a chart of stacked bars; failures stand on top."""
    highest = max((bar.done + bar.failed for bar in found), default=0) or 1
    slot = WIDTH / max(len(found), 1)
    groups = [
        (bar.label, *_column(number * slot, slot, bar, highest)) for number, bar in enumerate(found)
    ]
    return format_html(
        '<svg class="sq-chart" viewBox="0 0 {} {}" role="img" aria-label="{}"'
        ' preserveAspectRatio="none"><title>{}</title>{}'
        '<line class="sq-axis" x1="0" x2="{}" y1="{}" y2="{}"></line></svg>',
        WIDTH, HEIGHT, f"{title}: {description}", title,
        format_html_join("", "<g><title>{}</title>{}{}{}</g>", groups),
        WIDTH, HEIGHT, HEIGHT,
    )  # fmt: skip


def _column(left: float, slot: float, bar: Bar, highest: int) -> tuple[Any, Any, Any]:
    done, failed = HEIGHT * bar.done / highest, HEIGHT * bar.failed / highest
    if bar.failed:
        failed = max(failed, 2.0)
    full = min(done + failed, HEIGHT)
    return (
        _rect("sq-hit", left, 0, slot, HEIGHT),
        _rect("sq-bar-done", left + GAP / 2, HEIGHT - full + failed, slot - GAP, full - failed),
        _rect("sq-bar-failed", left + GAP / 2, HEIGHT - full, slot - GAP, failed),
    )


def _rect(name: str, x: float, y: float, width: float, height: float) -> SafeString:
    return format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"></rect>',
        name, *(f"{number:.2f}" for number in (x, y, width, max(height, 0))),
    )  # fmt: skip
