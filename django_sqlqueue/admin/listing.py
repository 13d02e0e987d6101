"""The job list: pages by key, a search by whole values, and what a line shows."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..lifecycle import LIVE, RUNNING, SETTLED
from ..managers.base import with_status
from ..models import Job
from . import shown
from .filters import known_kinds
from .job_page import job_url
from .paging import Page, page

BEFORE, AFTER = "before", "after"
LONGEST_ID = 18


class JobChangeList(ChangeList):
    """A change list that counts nothing; Django's counts the table for its page numbers."""

    pages: Page

    def get_page(self, request: HttpRequest) -> Page:
        return page(
            self.queryset,
            by_end=self.params.get("status") in SETTLED,
            before=request.GET.get(BEFORE, ""),
            after=request.GET.get(AFTER, ""),
            size=self.list_per_page,
        )

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        found = super().get_filters_params(params)
        return {key: value for key, value in found.items() if key not in (BEFORE, AFTER)}

    def get_results(self, request: HttpRequest) -> None:
        # Taken out, so that no link and no form but the page's own leads back to this page.
        for params in (self.params, self.filter_params):
            for cursor in (BEFORE, AFTER):
                params.pop(cursor, None)
        self.pages = self.get_page(request)
        now = Job.objects.all().engine.now()
        rows: list[Any] = self.pages.rows
        for job in rows:
            job.seen_at = now
        self.result_list = rows
        self.result_count = len(self.pages.rows)
        self.full_result_count = self.result_count
        self.show_full_result_count = False
        self.show_admin_actions = bool(self.pages.rows)
        self.can_show_all = self.multi_page = False
        self.paginator = None

    @property
    def has_more(self) -> bool:
        return bool(self.pages.newer or self.pages.older)

    @property
    def newest_url(self) -> str:
        return self.get_query_string()

    @property
    def newer_url(self) -> str:
        return self.get_query_string({AFTER: self.pages.newer}) if self.pages.newer else ""

    @property
    def older_url(self) -> str:
        return self.get_query_string({BEFORE: self.pages.older}) if self.pages.older else ""


def search(request: HttpRequest, jobs: Any, term: str) -> Any:
    """Return the jobs of this id or ref; where there is none, of this key, or kinds that begin so.

    Each is asked for by itself, as its index answers that; kinds among those that are known, as
    no index holds the kinds of settled jobs.
    """
    term = term.strip()
    if not term:
        return jobs
    for ask in (_by_id_or_ref, _by_key):
        found = [condition for condition in ask(term) if jobs.filter(condition).exists()]
        if found:
            return jobs.filter(reduce(or_, found))
    kinds = known_kinds(request) | Job.objects.all().ready_kinds()
    return jobs.filter(kind__in=[kind for kind in kinds if kind.startswith(term)])


def _by_id_or_ref(term: str) -> list[Q]:
    is_id = term.isascii() and term.isdigit() and len(term) <= LONGEST_ID
    return [Q(ref=term) & ~Q(ref=""), *([Q(pk=int(term))] if is_id else [])]


def _by_key(term: str) -> list[Q]:
    """Return the conditions of the settled and of the live jobs of this key."""
    live: Any = Job.objects.filter(with_status(*LIVE), dedup_key=term)
    return [
        Q(dedup_key=term, finished_at__isnull=False),
        Q(pk__in=list(live.values_list("pk", flat=True))),
    ]


class Columns:
    """What a line of the list shows of a job."""

    @admin.display(description=gettext_lazy("job and ref"))
    def job(self, job: Job) -> SafeString:
        kind, schedule = shown.breakable(job.kind), f" · {job.name}" if job.name else ""
        link = format_html('<a href="{}">{} #{}{}</a>', job_url(job.pk), kind, job.pk, schedule)
        if not job.ref:
            return link
        return format_html('{} <small class="sq-age">{}</small>', link, shown.breakable(job.ref))

    @admin.display(description=gettext_lazy("queue"))
    def lane(self, job: Job) -> SafeString:
        return shown.breakable(job.queue)

    @admin.display(description=gettext_lazy("status and reason"))
    def state(self, job: Job) -> SafeString:
        parts = [shown.status(job)]
        if job.status == RUNNING and job.progress is not None:
            parts.append(_progress(job))
        if job.last_error:
            reason = shown.breakable(shown.reason(job.last_error, job))
            parts.append(format_html('<span class="sq-why">{}</span>', reason))
        return format_html_join(" ", "{}", ((part,) for part in parts))

    @admin.display(description=gettext_lazy("attempts"))
    def tries(self, job: Job) -> str:
        return _("%(used)d of %(budget)d") % {"used": job.attempts, "budget": job.max_attempts}

    @admin.display(description=gettext_lazy("due or ended"))
    def due(self, job: Any) -> SafeString:
        when = shown.due(job, job.seen_at)
        if job.status in SETTLED:
            when = shown.moment(job.finished_at, job.seen_at)
        elif job.status == RUNNING:
            when = _("for %s") % shown.span(job.started_at, job.seen_at)
        age = shown.moment(job.created_at, job.seen_at)
        return format_html('{} <small class="sq-age">{} {}</small>', when, _("enqueued"), age)


def _progress(job: Job) -> SafeString:
    return format_html(
        '<progress class="sq-progress" max="100" value="{}" aria-label="{}">{} %</progress>'
        ' <span class="sq-quiet">{} % {}</span>',
        job.progress, _("Progress"), job.progress, job.progress, job.progress_note,
    )  # fmt: skip
