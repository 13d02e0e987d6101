"""Who may do what: rows are never edited as forms; each act asks for its own permission."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from ..models import Job

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


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows that are looked at: Django's own add, change and delete forms are never offered."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
