"""The form of a schedule: every field is an argument of Job.objects.schedule."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext_lazy as _

from ..exceptions import InvalidJob
from ..models import Job, Schedule
from ..occurrences import MISSED
from . import shown
from .every_field import EveryField
from .json_field import PayloadField

MISSED_WORDS = {
    "once": _("one run for all of them"),
    "all": _("every one of them runs"),
    "skip": _("none of them runs"),
}
FIELD_OF = {"run_at": "first", "deadline": "lifetime"}
"""What the form calls an argument of schedule, where it has another name."""


class ScheduleForm(forms.ModelForm):
    name = forms.CharField(label=_("Name"), max_length=200, widget=AdminTextInputWidget)
    kind = forms.CharField(
        label=_("Kind"),
        max_length=200,
        widget=AdminTextInputWidget,
        help_text=_("The string that chooses the handler."),
    )
    payload = PayloadField(
        label=_("Payload"), help_text=_("JSON; empty is an empty object."), rows=6
    )
    every = EveryField(
        required=False, label=_("Every"), help_text=_("The time between two due times.")
    )
    cron = forms.CharField(
        label=_("Cron"),
        required=False,
        max_length=200,
        widget=AdminTextInputWidget,
        help_text=_("Five fields: minute, hour, day, month, weekday."),
    )
    timezone = forms.CharField(
        label=_("Time zone"),
        required=False,
        max_length=100,
        widget=AdminTextInputWidget,
        help_text=_("The clock that a cron expression follows; empty is the project's."),
    )
    missed = forms.ChoiceField(
        label=_("Missed"),
        choices=[(name, MISSED_WORDS[name]) for name in MISSED],
        help_text=_("What is done for occurrences that were missed."),
    )
    first = forms.DateTimeField(
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        label=_("First due"),
        help_text=_("Empty: at once, or at the next match of a cron expression."),
    )
    queue = forms.CharField(
        required=False, label=_("Queue"), max_length=100, widget=AdminTextInputWidget
    )
    priority = forms.IntegerField(
        required=False, label=_("Priority"), min_value=-100, max_value=100
    )
    max_attempts = forms.IntegerField(required=False, label=_("Max attempts"), min_value=1)
    ref = forms.CharField(
        required=False, label=_("Ref"), max_length=255, widget=AdminTextInputWidget
    )
    lifetime = EveryField(
        required=False,
        label=_("Deadline"),
        help_text=_("So long after its due time an occurrence is retired instead of run."),
    )

    class Meta:
        model = Schedule
        fields: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        row = self.instance
        self.was_declared = row.pk is not None and row.declared
        if row.pk is None:
            self.initial.update({"payload": "{}", "missed": "once"})
            return
        self.fields["name"].disabled = True
        for name in ("name", "kind", "cron", "timezone", "missed", "queue", "priority", "ref"):
            self.initial[name] = getattr(row, name)
        payload = shown.as_json(shown.redacted("payload", row.payload, row))
        self.initial.update(
            {"payload": payload, "every": row.interval, "max_attempts": row.max_attempts}
        )
        self.initial["lifetime"] = row.lifetime

    def clean(self) -> dict[str, Any]:
        """Go through schedule(), which alone knows what is right, inside the admin's transaction.

        Nothing is written where it, or a field, refuses.
        """
        values = super().clean() or self.cleaned_data
        if self.errors:
            return values
        try:
            job = Job.objects.schedule(values["name"], values["kind"], **self._arguments(values))
        except InvalidJob as error:
            field = error.field.partition("[")[0]
            field = FIELD_OF.get(field, field)
            self.add_error(field if field in self.fields else None, str(error))
            return values
        self.instance = Schedule.objects.get(pk=job.pk)
        return values

    def _arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        options = {
            "queue": values["queue"] or None,
            "priority": values["priority"],
            "max_attempts": values["max_attempts"],
            "ref": values["ref"],
            "deadline": values["lifetime"],
        }
        return {
            **options,
            "payload": self._payload(values),
            "every": values["every"],
            "cron": values["cron"] or None,
            "timezone": (values["timezone"] or None) if values["cron"] else None,
            "missed": values["missed"],
            "run_at": values["first"],
        }

    def _payload(self, values: dict[str, Any]) -> Any:
        """Return what was typed; where nothing was, what is stored and may be shown otherwise."""
        is_same = self.instance.pk is not None and "payload" not in self.changed_data
        return self.instance.payload if is_same else values["payload"]

    def save(self, commit: bool = True) -> Any:
        return self.instance

    def save_m2m(self) -> None:
        """A schedule has no such fields."""
