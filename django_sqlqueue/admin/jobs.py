"""The jobs in the admin: which page answers which address, and who may ask for it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..exceptions import InvalidJob
from ..models import Job
from . import again, job_page, log, overview, walks
from .filters import FILTERS
from .listing import Columns, JobChangeList, search
from .operations import OPERATIONS, Operation
from .rights import ReadOnlyAdmin, may


@admin.register(Job)
class JobAdmin(Columns, ReadOnlyAdmin):
    list_display = ("job", "state", "lane", "tries", "due")
    list_display_links = None
    list_filter = FILTERS
    list_per_page = 50
    search_fields = ("id", "ref", "dedup_key", "kind")
    search_help_text = gettext_lazy(
        "An id or a ref in full; where nothing has it, a dedup key, or the beginning of a kind"
        " that has a handler or jobs of late."
    )
    sortable_by = ()
    ordering = ("-id",)
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions_on_bottom = False

    class Media:
        css = {"all": ("django_sqlqueue/admin.css",)}

    # What is read

    def get_queryset(self, request: HttpRequest) -> Any:
        return Job.objects.defer("payload", "result")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:
        return JobChangeList

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        return search(request, queryset, search_term), False

    # Addresses

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        name = "django_sqlqueue_job"
        return [
            path("overview/", view(self.overview_view), name=f"{name}_overview"),
            path("<int:pk>/operate/", view(self.operate_view), name=f"{name}_operate"),
            path("<int:pk>/again/", view(self.again_view), name=f"{name}_again"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        context = {"title": _("Jobs"), **(extra_context or {})}
        if request.method == "GET" and self.has_view_permission(request):
            context |= overview.strip()
        return super().changelist_view(request, context)

    def overview_view(self, request: HttpRequest) -> TemplateResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **overview.context(),
            "may_retry": may(request, "retry"),
            "may_pause": may(request, "pause"),
            "may_resume": may(request, "resume"),
        }
        return self._page(request, "overview", _("Overview"), context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """Show a job. Nothing is edited here: what is posted is refused."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        job = self._job(request, unquote(object_id))
        if job is None:
            self.message_user(request, _("There is no job %s.") % object_id, messages.WARNING)
            return HttpResponseRedirect(reverse("admin:django_sqlqueue_job_changelist"))
        context = {**job_page.context(request, job), **(extra_context or {})}
        return self._page(request, "job", _("Job %d") % job.pk, context)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        """Send those who know Django's address to the job, where it can be deleted."""
        return HttpResponseRedirect(reverse("admin:django_sqlqueue_job_change", args=[object_id]))

    def operate_view(self, request: HttpRequest, pk: int) -> Any:
        """Do one operation to one job."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        operation = OPERATIONS.get(request.POST.get("operation", ""))
        if self._job(request, pk) is None or operation is None or operation.field is not None:
            raise Http404
        if not may(request, operation.right):
            raise PermissionDenied
        tally, moved = operation.apply([pk])
        log.record(request, moved, operation.logged(None), walks.flag(operation))
        level = messages.SUCCESS if tally.moved else messages.WARNING
        self.message_user(request, operation.told(tally), level)
        if operation.name == "remove" and tally.moved:
            return HttpResponseRedirect(reverse("admin:django_sqlqueue_job_changelist"))
        return HttpResponseRedirect(job_page.job_url(pk))

    def again_view(self, request: HttpRequest, pk: int) -> Any:
        """Ask for another payload, and enqueue a new job with it."""
        job = self._job(request, pk)
        if job is None:
            raise Http404
        if not job_page.may_again(request) or job.name is not None:
            raise PermissionDenied
        form = again.AgainForm(request.POST if request.method == "POST" else None, job=job)
        if form.is_valid():
            try:
                new = Job.objects.enqueue_again(job, again.payload_of(form, job))
            except InvalidJob as error:
                form.add_error("payload", str(error))
            else:
                return self._enqueued_again(request, job, new)
        return self._page(
            request, "again", _("Retry with changed payload"), {"form": form, "job": job}
        )

    def _enqueued_again(self, request: HttpRequest, job: Job, new: Job | None) -> Any:
        if new is None:
            self.message_user(
                request, _("Nothing was enqueued: an active twin exists."), messages.WARNING
            )
            return HttpResponseRedirect(job_page.job_url(job.pk))
        again.record(request, job, new)
        self.message_user(request, _("Job %d was enqueued.") % new.pk, messages.SUCCESS)
        return HttpResponseRedirect(job_page.job_url(new.pk))

    # Parts

    def _job(self, request: HttpRequest, pk: Any) -> Job | None:
        """Return the job, whole, or None; raises PermissionDenied for who may see none."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            return Job.objects.filter(pk=int(pk)).first()
        except (ValueError, OverflowError):
            return None

    def _page(
        self, request: HttpRequest, name: str, title: str, context: dict[str, Any]
    ) -> TemplateResponse:
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            f"admin/django_sqlqueue/{name}.html",
            {
                **self.admin_site.each_context(request),
                "title": title,
                "opts": self.opts,
                "media": self.media,
                **context,
            },
        )

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """Return the operations that this user has the right to, in place of Django's delete."""
        return {
            operation.name: (_action(operation), operation.name, operation.label)
            for operation in OPERATIONS.values()
            if may(request, operation.right)
        }


def _action(operation: Operation) -> Any:
    def act(admin: Any, request: HttpRequest, queryset: Any) -> Any:
        return walks.walk(admin, request, queryset, operation)

    return act
