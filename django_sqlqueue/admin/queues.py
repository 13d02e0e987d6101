"""Paused queues: pausing adds a row, resuming deletes it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import ADDITION, DELETION
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..exceptions import InvalidJob
from ..models import Job, PausedQueue
from . import log
from .rights import GuardedAdmin, may


class PausedQueueForm(forms.ModelForm):
    class Meta:
        model = PausedQueue
        fields = ("name",)


@admin.register(PausedQueue)
class PausedQueueAdmin(GuardedAdmin):
    form = PausedQueueForm
    list_display = ("name", "since")
    ordering = ("name",)
    show_full_result_count = False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        title = {"title": capfirst(str(self.opts.verbose_name_plural))}
        return super().changelist_view(request, {**title, **(extra_context or {})})

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        PausedQueue.objects.pause(obj.name)
        obj.pk = PausedQueue.objects.get(name=obj.name).pk

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        PausedQueue.objects.resume(obj.name)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for paused in queryset:
            PausedQueue.objects.resume(paused.name)

    @admin.display(description=gettext_lazy("paused since"))
    def since(self, paused: PausedQueue) -> Any:
        return paused.paused_at

    # The buttons of the overview

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        name = "django_sqlqueue_pausedqueue"
        return [
            path("pause/", view(self.pause_view), name=f"{name}_pause"),
            path("resume/", view(self.resume_view), name=f"{name}_resume"),
            *super().get_urls(),
        ]

    def pause_view(self, request: HttpRequest) -> Any:
        return self._turn(request, "pause", ADDITION)

    def resume_view(self, request: HttpRequest) -> Any:
        return self._turn(request, "resume", DELETION)

    def _turn(self, request: HttpRequest, verb: str, flag: int) -> Any:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not may(request, verb):
            raise PermissionDenied
        queue = request.POST.get("queue", "")
        words = {
            "pause": (_("Queue “%s” is paused."), _("Queue “%s” was paused before.")),
            "resume": (_("Queue “%s” is served again."), _("Queue “%s” was not paused.")),
        }[verb]
        try:
            turned = getattr(PausedQueue.objects, verb)(queue)
        except InvalidJob as error:
            self.message_user(request, str(error), messages.ERROR)
        else:
            told = words[0 if turned else 1] % queue
            self.message_user(request, told, messages.SUCCESS if turned else messages.WARNING)
            if turned:
                log.record_many(request, PausedQueue, queue, told, flag)
        overview = reverse("admin:django_sqlqueue_job_overview")
        may_look = request.user.has_perm(f"{Job._meta.app_label}.view_job")
        return HttpResponseRedirect(overview if may_look else reverse("admin:index"))
