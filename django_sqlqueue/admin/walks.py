"""An operation over a selection of any size: in batches, a second of them at a request.

Jobs are walked once, in the order of their ids, up to the newest id at the start; so it ends,
also while workers settle jobs that then match again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.models import CHANGE, DELETION
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from ..exceptions import InvalidJob
from ..managers.measuring import CAP
from ..models import Job
from . import log
from .operations import NOTHING, Operation, Tally
from .rights import may

BATCH = 500
SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Walk:
    """How far an operation has come."""

    upto: int
    first: int = 0
    after: int = 0
    tally: Tally = NOTHING
    finished: bool = False

    @property
    def percent(self) -> int:
        width = self.upto - self.first
        return min(100, 100 * (self.after - self.first) // width) if width > 0 else 100

    def signed(self, salt: str) -> str:
        tally = (self.tally.moved, self.tally.unfit, self.tally.refused)
        return signing.dumps([self.upto, self.first, self.after, tally], salt=salt)


def walk(admin: Any, request: HttpRequest, jobs: Any, operation: Operation) -> Any:
    """Do the operation to these jobs: return a page that asks or goes on, or None at the end."""
    if not may(request, operation.right):
        raise PermissionDenied
    confirmed = "confirmed" in request.POST
    form = operation.form(request.POST if confirmed else None)
    if not confirmed and (operation.confirms or form.fields or is_across(request)):
        return _ask(admin, request, jobs, operation, form)
    if confirmed and not form.is_valid():
        return _ask(admin, request, jobs, operation, form)
    value = form.cleaned_data.get("value") if confirmed else None
    try:
        present = _advance(
            request, _resumed(request, operation) or _begun(), jobs, operation, value
        )
    except InvalidJob as problem:
        form.add_error("value", str(problem))
        return _ask(admin, request, jobs, operation, form)
    if not present.finished:
        context = {
            "walk": present,
            "signed": present.signed(_salt(request, operation)),
            "told": operation.told(present.tally),
        }
        return _page(admin, request, "progress", operation, **context)
    _conclude(admin, request, operation, present.tally, value)
    return None


def is_across(request: HttpRequest) -> bool:
    """Say whether all that match are meant, not only those that were ticked."""
    return request.POST.get("select_across") == "1"


def _begun() -> Walk:
    newest = Job.objects.order_by("-pk").values_list("pk", flat=True).first()
    return Walk(upto=newest or 0)


def _salt(request: HttpRequest, operation: Operation) -> str:
    """Return what binds a progress to its user, operation and selection."""
    return f"django_sqlqueue.walk:{request.user.pk}:{operation.name}:{request.GET.urlencode()}"


def _resumed(request: HttpRequest, operation: Operation) -> Walk | None:
    token = request.POST.get("walk")
    if not token:
        return None
    try:
        upto, first, after, tally = signing.loads(
            token, salt=_salt(request, operation), max_age=24 * 3600
        )
    except signing.BadSignature:
        raise PermissionDenied from None
    return Walk(upto, first, after, Tally(*tally))


def _advance(
    request: HttpRequest, present: Walk, jobs: Any, operation: Operation, value: Any
) -> Walk:
    """Go on for about SECONDS."""
    end = time.monotonic() + SECONDS
    while True:
        within = jobs.order_by("pk").filter(pk__gt=present.after, pk__lte=present.upto)
        ids = list(within.values_list("pk", flat=True)[:BATCH])
        if ids:
            tally, moved = operation.apply(ids, value)
            if not is_across(request):
                log.record(request, moved, operation.logged(value), flag(operation))
            present = replace(
                present,
                first=present.first or ids[0],
                after=ids[-1],
                tally=present.tally + tally,
            )
        if len(ids) < BATCH:
            return replace(present, finished=True)
        if time.monotonic() > end:
            return present


def _conclude(
    admin: Any, request: HttpRequest, operation: Operation, tally: Tally, value: Any
) -> None:
    told = operation.told(tally)
    smooth = tally.moved and not (tally.refused or tally.unfit)
    admin.message_user(request, told, messages.SUCCESS if smooth else messages.WARNING)
    if is_across(request):
        what = _("Jobs that match “%s”") % (request.GET.urlencode() or _("all"))
        message = f"{operation.logged(value)} {told}"
        log.record_many(request, Job, what, message, flag(operation))


def flag(operation: Operation) -> int:
    return DELETION if operation.danger else CHANGE


def _ask(
    admin: Any, request: HttpRequest, jobs: Any, operation: Operation, form: Any
) -> TemplateResponse:
    count = jobs.count_up_to(CAP)
    shown = number_format(count, force_grouping=True) + ("+" if count == CAP else "")
    context = {"count": count, "count_shown": shown, "form": form}
    return _page(admin, request, "ask", operation, **context)


def _page(
    admin: Any, request: HttpRequest, name: str, operation: Operation, **context: Any
) -> TemplateResponse:
    request.current_app = admin.admin_site.name
    selected = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
    return TemplateResponse(
        request,
        f"admin/django_sqlqueue/{name}.html",
        {
            **admin.admin_site.each_context(request),
            "title": str(operation.label).rstrip("…"),
            "opts": admin.opts,
            "operation": operation,
            "selected": selected[:1] if is_across(request) else selected,
            "across": is_across(request),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "value": request.POST.get("value", ""),
            "media": admin.media,
            **context,
        },
    )
