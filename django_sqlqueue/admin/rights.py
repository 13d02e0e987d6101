"""Who may do what: rows are never edited as forms; each act asks for its own permission."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest

from ..models import Job

LONGER_THAN_ANY = 19
"""Digits; no id has so many, and not every engine takes a number of them."""
RIGHTS = {
    "operate": ("change_job",),
    "retry": ("change_job", "retry_job"),
    "cancel": ("change_job", "cancel_job"),
    "remove": ("delete_job",),
    "see_payload": ("view_payload",),
    "pause": ("add_pausedqueue",),
    "resume": ("delete_pausedqueue",),
}
"""Any one of these permissions of the app gives the right."""


def may(request: HttpRequest, right: str) -> bool:
    """Say whether the user has this right of RIGHTS."""
    label = Job._meta.app_label
    return any(request.user.has_perm(f"{label}.{codename}") for codename in RIGHTS[right])


class GuardedAdmin(admin.ModelAdmin):
    """A list that is narrowed by its own filters only, and acts on rows that have such ids."""

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        """Refuse Django's ?column__lookup=…: it tells what a column holds, shown or not."""
        return lookup in {getattr(one, "parameter_name", one) for one in self.list_filter}

    def response_action(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if not all(pk.isascii() and pk.isdigit() and len(pk) < LONGER_THAN_ANY for pk in selected):
            raise SuspiciousOperation("A selected row has no such id.")
        return super().response_action(request, *args, **kwargs)


class ReadOnlyAdmin(GuardedAdmin):
    """Rows that are looked at: Django's own add, change and delete forms are never offered."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
