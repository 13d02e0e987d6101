"""Retry with a changed payload: a new job, and both jobs' logs name the other."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.models import ADDITION
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Job
from . import log, shown
from .json_field import PayloadField


class AgainForm(forms.Form):
    """Asks for the payload of the new job; begins with the old one."""

    payload = PayloadField(label=gettext_lazy("Payload"))

    def __init__(self, *args: Any, job: Job, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.initial["payload"] = shown.as_json(shown.redacted("payload", job.payload, job))


def payload_of(form: AgainForm, job: Job) -> Any:
    """Return what was typed; where nothing was, what is stored and may be shown otherwise."""
    return form.cleaned_data["payload"] if form.has_changed() else job.payload


def record(request: HttpRequest, old: Job, new: Job) -> None:
    """Log on each of the two jobs which the other one is."""
    log.record(request, [old], _("Retried with a changed payload as #%d.") % new.pk)
    log.record(request, [new], _("Made from #%d with a changed payload.") % old.pk, ADDITION)
