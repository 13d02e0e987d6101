"""What can be done to jobs: one entry each, used by the list's actions and the job's buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..fields import ServerClock
from ..lifecycle import LIVE, READY, RUNNING, SETTLED
from ..managers.adjusting import PAUSED
from ..models import Job


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the jobs of an operation."""

    moved: int = 0
    unfit: int = 0
    """Those whose status does not allow it."""
    refused: int = 0
    """Those whose status allowed it, but that did not move all the same."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.moved + other.moved, self.unfit + other.unfit, self.refused + other.refused
        )


NOTHING = Tally()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    name: str
    label: Any
    right: str
    fits: Q
    """The jobs that it can move."""
    act: Callable[[Any, Any], int]
    """(queryset, value) -> how many moved: a verb of Job.objects."""
    moved: Any
    unfit: Any
    refused: Any
    past: Any
    """What the admin's log says; it may name the value."""
    field: Callable[[], forms.Field] | None = None
    """The value that it asks for."""
    confirms: bool = False
    danger: bool = False

    def apply(self, ids: Sequence[int], value: Any = None) -> tuple[Tally, list[Job]]:
        """Do it to the jobs of these ids, as far as they fit; return those that moved, as well."""
        jobs = Job.objects.filter(pk__in=ids).order_by("pk")
        fit = list(jobs.filter(self.fits).only("pk", "kind"))
        moved = self.act(jobs.filter(pk__in=[job.pk for job in fit]), value) if fit else 0
        tally = Tally(moved, len(ids) - len(fit), max(len(fit) - moved, 0))
        if tally.refused:
            left = set(jobs.filter(self.fits).values_list("pk", flat=True))
            fit = [job for job in fit if job.pk not in left]
        return tally, fit

    def logged(self, value: Any) -> str:
        return str(self.past) % {"value": value}

    def form(self, data: Any = None) -> forms.Form:
        """Return the form that asks for the value, without fields where there is none."""
        form = forms.Form(data)
        if self.field is not None:
            form.fields["value"] = self.field()
        return form

    def told(self, tally: Tally) -> str:
        """Return what happened in one line."""
        parts = [self.moved % {"count": tally.moved}]
        if tally.refused:
            parts.append(self.refused % {"count": tally.refused})
        if tally.unfit:
            parts.append(self.unfit % {"count": tally.unfit})
        return "; ".join(str(part) for part in parts) + "."


def _priority() -> forms.Field:
    return forms.IntegerField(
        label=_("Priority"), min_value=-100, max_value=100, help_text=_("Higher goes first.")
    )


def _queue() -> forms.Field:
    return forms.CharField(label=_("Queue"), max_length=100)


NOT_WAITING = ngettext_lazy(
    "%(count)d skipped: it is not waiting", "%(count)d skipped: they are not waiting", "count"
)
CHANGED = ngettext_lazy(
    "%(count)d skipped: it moved meanwhile", "%(count)d skipped: they moved meanwhile", "count"
)

OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            name="retry",
            label=_("Retry"),
            right="retry",
            fits=Q(status__in=SETTLED),
            act=lambda jobs, value: jobs.requeue(),
            moved=ngettext_lazy("%(count)d job retried", "%(count)d jobs retried", "count"),
            unfit=ngettext_lazy(
                "%(count)d skipped: it is still waiting or running",
                "%(count)d skipped: they are still waiting or running",
                "count",
            ),
            refused=ngettext_lazy(
                "%(count)d skipped: an active twin exists",
                "%(count)d skipped: active twins exist",
                "count",
            ),
            past=_("Retried."),
        ),
        Operation(
            name="cancel",
            label=_("Cancel"),
            right="cancel",
            fits=Q(status__in=LIVE, cancel_requested_at__isnull=True),
            act=lambda jobs, value: jobs.cancel(),
            moved=ngettext_lazy(
                "%(count)d job cancelled or asked to stop",
                "%(count)d jobs cancelled or asked to stop",
                "count",
            ),
            unfit=ngettext_lazy(
                "%(count)d skipped: it has ended, or was asked before",
                "%(count)d skipped: they have ended, or were asked before",
                "count",
            ),
            refused=CHANGED,
            past=_("Cancelled, or asked to stop."),
        ),
        Operation(
            name="run_now",
            label=_("Run now"),
            right="operate",
            fits=Q(status=READY, run_at__gt=ServerClock()) & ~PAUSED,
            act=lambda jobs, value: jobs.run_now(),
            moved=ngettext_lazy("%(count)d job is due now", "%(count)d jobs are due now", "count"),
            unfit=ngettext_lazy(
                "%(count)d skipped: it is not waiting for its time",
                "%(count)d skipped: they are not waiting for their time",
                "count",
            ),
            refused=CHANGED,
            past=_("Made due at once."),
        ),
        Operation(
            name="set_priority",
            label=_("Change priority…"),
            right="operate",
            fits=Q(status=READY),
            act=lambda jobs, value: jobs.set_priority(value),
            moved=ngettext_lazy(
                "%(count)d job has the new priority",
                "%(count)d jobs have the new priority",
                "count",
            ),
            unfit=NOT_WAITING,
            refused=CHANGED,
            past=_("Priority changed to %(value)s."),
            field=_priority,
        ),
        Operation(
            name="move_to_queue",
            label=_("Move to queue…"),
            right="operate",
            fits=Q(status=READY),
            act=lambda jobs, value: jobs.move_to_queue(value),
            moved=ngettext_lazy("%(count)d job moved", "%(count)d jobs moved", "count"),
            unfit=NOT_WAITING,
            refused=CHANGED,
            past=_("Moved to queue “%(value)s”."),
            field=_queue,
        ),
        Operation(
            name="remove",
            label=_("Delete…"),
            right="remove",
            fits=~Q(status=RUNNING),
            act=lambda jobs, value: jobs.remove(),
            moved=ngettext_lazy("%(count)d job deleted", "%(count)d jobs deleted", "count"),
            unfit=ngettext_lazy(
                "%(count)d skipped: it is running",
                "%(count)d skipped: they are running",
                "count",
            ),
            refused=CHANGED,
            past=_("Deleted."),
            confirms=True,
            danger=True,
        ),
    )
}
