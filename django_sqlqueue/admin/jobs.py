"""The jobs: list, detail, and what can be done to them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Attempt, Job


class AttemptInline(admin.TabularInline):
    model = Attempt
    extra = 0
    can_delete = False
    fields = readonly_fields = (
        "number", "runner", "started_at", "ended_at", "outcome", "reason", "traceback",
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    list_display = ("id", "kind", "ref", "queue", "status", "last_error", "attempts", "run_at")
    list_filter = ("status", "kind", "queue", "last_error")
    search_fields = ("=id", "=ref", "=dedup_key", "kind__startswith")
    ordering = ("-id",)
    inlines = (AttemptInline,)
    actions = ("retry", "cancel")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No column can be edited: a job changes by its moves only."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "change_job", "retry_job")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "change_job", "cancel_job")

    def _may(self, request: HttpRequest, *codenames: str) -> bool:
        label = self.opts.app_label
        return any(request.user.has_perm(f"{label}.{name}") for name in codenames)

    @admin.action(description=gettext_lazy("Retry"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: Any) -> None:
        self.message_user(request, _("%d jobs retried.") % queryset.requeue(), messages.SUCCESS)

    @admin.action(description=gettext_lazy("Cancel"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: Any) -> None:
        self.message_user(request, _("%d jobs cancelled.") % queryset.cancel(), messages.SUCCESS)
