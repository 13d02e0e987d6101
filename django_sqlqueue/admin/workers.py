"""The workers: who is alive, and what each runs now."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..engines.instants import as_aware
from ..explanation import ALIVE_WITHIN
from ..lifecycle import RUNNING
from ..managers.base import with_status
from ..models import Job, Worker
from . import shown
from .job_page import job_url
from .rights import ReadOnlyAdmin

MOST_JOBS = 5


class WorkerChangeList(ChangeList):
    """Asks once for what all the workers of the page run."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        workers: list[Any] = list(self.result_list)
        now = Job.objects.all().engine.now()
        running = Job.objects.filter(
            with_status(RUNNING), lease_owner__in=[worker.runner for worker in workers]
        ).only("pk", "kind", "started_at", "lease_owner")
        held = defaultdict(list)
        for job in running.order_by("started_at")[:1000]:
            held[job.lease_owner].append(job)
        for worker in workers:
            worker.seen_at, worker.held = now, held[worker.runner]
        self.result_list = workers


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = (
        "process",
        "alive",
        "now",
        "done",
        "serves",
        "knows",
        "threads",
        "since",
        "seen",
    )
    list_per_page = 50
    ordering = ("-last_seen_at",)
    sortable_by = ()
    show_full_result_count = False

    class Media:
        css = {"all": ("django_sqlqueue/admin.css",)}

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return super().changelist_view(request, {"title": _("Workers"), **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WorkerChangeList

    @admin.display(description=gettext_lazy("runner"))
    def process(self, worker: Any) -> SafeString:
        return shown.runner(worker.runner)

    @admin.display(description=gettext_lazy("state"))
    def alive(self, worker: Any) -> SafeString:
        if _is_alive(worker, worker.seen_at):
            return format_html('<span class="sq-status sq-done">{}</span>', _("alive"))
        return format_html('<span class="sq-status sq-failed">{}</span>', _("silent"))

    @admin.display(description=gettext_lazy("runs now"))
    def now(self, worker: Any) -> Any:
        if not worker.held:
            return _("nothing")
        lines = format_html_join(
            "",
            '<li><a href="{}">{} #{}</a> <span class="sq-quiet">{}</span></li>',
            (
                (job_url(job.pk), job.kind, job.pk, shown.span(job.started_at, worker.seen_at))
                for job in worker.held[:MOST_JOBS]
            ),
        )
        rest = len(worker.held) - MOST_JOBS
        more = format_html("<li>{}</li>", _("and %d more") % rest) if rest > 0 else ""
        return format_html('<ul class="sq-list">{}{}</ul>', lines, more)

    @admin.display(description=gettext_lazy("attempts done"))
    def done(self, worker: Any) -> int:
        return worker.jobs_done

    @admin.display(description=gettext_lazy("queues"))
    def serves(self, worker: Any) -> str:
        return _("all") if worker.queues is None else ", ".join(map(str, worker.queues))

    @admin.display(description=gettext_lazy("kinds"))
    def knows(self, worker: Any) -> Any:
        kinds = [str(kind) for kind in worker.kinds or ()]
        return format_html(
            "<details><summary>{}</summary>{}</details>", len(kinds), ", ".join(kinds)
        )

    @admin.display(description=gettext_lazy("started"))
    def since(self, worker: Any) -> Any:
        return shown.moment(worker.started_at, worker.seen_at)

    @admin.display(description=gettext_lazy("last seen"))
    def seen(self, worker: Any) -> Any:
        return shown.moment(worker.last_seen_at, worker.seen_at)


def _is_alive(worker: Any, now: datetime) -> bool:
    return now - as_aware(worker.last_seen_at) <= ALIVE_WITHIN
