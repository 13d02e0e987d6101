"""The schedules: a list with rhythm and last outcome, and a form that goes through schedule()."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from ..lifecycle import READY, RUNNING, SETTLED
from ..managers.adjusting import is_paused
from ..models import Attempt, Job, Schedule
from ..rhythm_words import words
from . import log, shown
from .listing import JobChangeList
from .paging import Page
from .rights import GuardedAdmin, may
from .schedule_form import ScheduleForm

MOST = 1_000
ACTS = {
    "run_now": (
        gettext_lazy("Run now"),
        lambda rows: rows.run_now(),
        ngettext_lazy("%d schedule is due now.", "%d schedules are due now."),
        gettext_lazy("Made due at once."),
    ),
    "pause": (
        gettext_lazy("Pause"),
        lambda rows: rows.pause_schedules(),
        ngettext_lazy("%d schedule is paused.", "%d schedules are paused."),
        gettext_lazy("Paused."),
    ),
    "resume": (
        gettext_lazy("Resume"),
        lambda rows: rows.resume_schedules(),
        ngettext_lazy("%d schedule goes on.", "%d schedules go on."),
        gettext_lazy("Resumed."),
    ),
    "end": (
        gettext_lazy("End"),
        lambda rows: rows.cancel(),
        ngettext_lazy("%d schedule has ended.", "%d schedules have ended."),
        gettext_lazy("Ended."),
    ),
}
"""name: (label, verb, what is told, what is logged)"""
LOOKED_AT = (
    "name", "kind_of", "rhythm", "state", "next_due", "outcome", "queue_of", "priority_of", "row",
)  # fmt: skip


class ScheduleChangeList(JobChangeList):
    """All schedules on one page, by name; what a table has of jobs costs it nothing."""

    def get_page(self, request: HttpRequest) -> Page:
        rows: list[Any] = list(self.queryset.order_by("name")[:MOST])
        latest = Attempt.objects.using(self.queryset.db).filter(job_id__in=[r.pk for r in rows])
        # Of several the last one stays.
        ended = {one.job_id: one for one in latest.defer("traceback").order_by("pk")}
        for job in rows:
            job.last_attempt = ended.get(job.pk)
        return Page(rows, "", "")


@admin.register(Schedule)
class ScheduleAdmin(GuardedAdmin):
    form = ScheduleForm
    list_display = ("name", "kind_of", "rhythm", "state", "next_due", "outcome", "row")
    list_per_page = 100
    search_fields = ("name", "kind")
    sortable_by = ()
    ordering = ("-id",)
    show_full_result_count = False
    actions = None
    fieldsets = (
        (None, {"fields": ("name", "kind", "payload")}),
        (
            gettext_lazy("Rhythm"),
            {
                "fields": ("every", "cron", "timezone", "missed", "first"),
                "description": gettext_lazy("Give an interval or a cron expression, not both."),
            },
        ),
        (
            gettext_lazy("Options"),
            {
                "fields": ("queue", "priority", "max_attempts", "ref", "lifetime"),
                "description": gettext_lazy(
                    "What is left empty is as the handler says, else as the settings say."
                ),
            },
        ),
    )

    class Media:
        css = {"all": ("django_sqlqueue/admin.css",)}

    def get_queryset(self, request: HttpRequest) -> Any:
        # Not "is not null": only a comparison lets every engine walk the index of the names.
        return Schedule.objects.filter(name__gt="").defer("result")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return super().changelist_view(request, {"title": _("Schedules"), **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:
        return ScheduleChangeList

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A schedule is ended, and its row can then be deleted as a job."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Warn of what will undo it; the form itself has gone through Job.objects.schedule."""
        if form.was_declared:
            told = _("The project's code declares this schedule, and will put it back.")
            self.message_user(request, told, messages.WARNING)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("state", "next_due") if obj is not None else ()

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave the payload out for who may not see it; on the way, it stays as it is.

        Who may only look is shown what the list shows: Django would show the columns themselves.
        """
        if obj is None:
            return self.fieldsets
        if not self.has_change_permission(request, obj):
            return ((None, {"fields": LOOKED_AT}),)
        (_title, first), *others = self.fieldsets
        if not may(request, "see_payload"):
            first = {"fields": ("name", "kind")}
        return ((None, {"fields": ("state", "next_due")}), (None, first), *others)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        if obj is not None and not may(request, "see_payload"):
            # A field that a form declares is taken from what is posted, shown or not.
            form.base_fields.pop("payload", None)
        return form

    # Actions

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        # Newer Djangos ask for those of the form as well; it has none.
        on_form = getattr(action_location, "name", "") == "CHANGE_FORM"
        if on_form or not self.has_change_permission(request):
            return {}
        return {name: (_action(name), name, ACTS[name][0]) for name in ACTS}

    # Columns; those of the model itself have no title in the user's language

    @admin.display(description=gettext_lazy("kind"))
    def kind_of(self, job: Job) -> str:
        return job.kind

    @admin.display(description=gettext_lazy("queue"))
    def queue_of(self, job: Job) -> str:
        return job.queue

    @admin.display(description=gettext_lazy("priority"))
    def priority_of(self, job: Job) -> int:
        return job.priority

    @admin.display(description=gettext_lazy("rhythm"))
    def rhythm(self, job: Job) -> str:
        return words(job)

    @admin.display(description=gettext_lazy("state"))
    def state(self, job: Job) -> SafeString:
        if job.status == READY and is_paused(job):
            return format_html('<span class="sq-status sq-paused">{}</span>', _("paused"))
        return shown.status(job)

    @admin.display(description=gettext_lazy("next due"))
    def next_due(self, job: Job) -> Any:
        if job.status in SETTLED or is_paused(job):
            return "–"
        if job.status == RUNNING:
            return _("running now")
        now = getattr(job, "seen_at", None) or Job.objects.all().engine.now()
        return shown.moment(job.run_at, now)

    @admin.display(description=gettext_lazy("last outcome"))
    def outcome(self, job: Any) -> Any:
        last = getattr(job, "last_attempt", None)
        if last is None:
            return shown.reason(job.last_error, job) or "–"
        tone = "done" if last.outcome == "done" else "failed"
        return format_html(
            '<span class="sq-tone-{}">{}</span> {} <span class="sq-quiet">{}</span>',
            tone,
            shown.OUTCOMES.get(last.outcome, last.outcome),
            shown.reason(last.reason, job),
            shown.moment(last.ended_at, job.seen_at),
        )

    @admin.display(description=gettext_lazy("job"))
    def row(self, job: Job) -> SafeString:
        url = reverse("admin:django_sqlqueue_job_change", args=[job.pk])
        return format_html('<a href="{}">#{}</a>', url, job.pk)


def _action(name: str) -> Any:
    def act(admin: Any, request: HttpRequest, queryset: Any) -> None:
        if not admin.has_change_permission(request):
            raise PermissionDenied
        _label, verb, told, logged = ACTS[name]
        rows = list(queryset.only("pk", "name")[:MOST])
        # One by one, so that the log names those that moved and no other.
        moved = [row for row in rows if verb(Job.objects.filter(pk=row.pk))]
        skipped = len(rows) - len(moved)
        text = str(told % len(moved))
        if skipped:
            text += " " + _("%d skipped: their state does not allow it.") % skipped
        admin.message_user(request, text, messages.WARNING if skipped else messages.SUCCESS)
        log.record(request, moved, str(logged))

    return act
