"""The filters of the job list; their choices come from the newest rows, never from all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Subquery
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import settings
from ..handlers import all_kinds
from ..lifecycle import FAILED, SETTLED, STATUSES
from ..models import Job
from . import shown

LOOKED_AT = 2_000
MOST_CHOICES = 30
LIKE = "like:"
"""A reason given as "like:ID" is that of job ID: the reason itself may have to stay hidden."""

Choices = list[tuple[str, Any]]


class ChosenFilter(SimpleListFilter):
    """A filter whose present value is always among its choices, so that links may name any."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        found = self.found(request)
        given = request.GET.get(self.parameter_name or "")
        if given is not None and given not in dict(found):
            found.append((given, self.word(given)))
        return found

    def found(self, request: HttpRequest) -> Choices:
        raise NotImplementedError

    def word(self, value: str) -> Any:
        return value

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        if value is None:
            return queryset
        if "\x00" in value:
            return queryset.none()
        return self.narrowed(queryset, value)

    def narrowed(self, queryset: Any, value: str) -> Any:
        return queryset.filter(**{str(self.parameter_name): value})


class StatusFilter(ChosenFilter):
    title = gettext_lazy("status")
    parameter_name = "status"

    def found(self, request: HttpRequest) -> Choices:
        return [(status, shown.WORDS[status]) for status in STATUSES]


class KindFilter(ChosenFilter):
    title = gettext_lazy("kind")
    parameter_name = "kind"

    def found(self, request: HttpRequest) -> Choices:
        return _plain(known_kinds(request))


class QueueFilter(ChosenFilter):
    title = gettext_lazy("queue")
    parameter_name = "queue"

    def found(self, request: HttpRequest) -> Choices:
        return _plain({queue for _kind, queue in newest(request)} | set(settings.QUEUES or ()))


class ReasonFilter(ChosenFilter):
    title = gettext_lazy("reason")
    parameter_name = "reason"

    def found(self, request: HttpRequest) -> Choices:
        failed = Job.objects.filter(status=FAILED, finished_at__isnull=False)
        counted = failed.order_by("-finished_at").count_by("last_error", limit=LOOKED_AT)
        words = [(reason, shown.reason(reason, None)) for reason, _count in counted if reason]
        return [(reason, word) for reason, word in words if reason == word][:MOST_CHOICES]

    def word(self, value: str) -> Any:
        pk = _like(value)
        if pk is None:
            return shown.reason(value, None) or _("(none)")
        job = Job.objects.filter(pk=pk).only("last_error").first()
        return shown.reason(job.last_error, None) if job else value

    def narrowed(self, queryset: Any, value: str) -> Any:
        pk = _like(value)
        if pk is None:
            # A hidden one cannot be guessed.
            return queryset.filter(last_error=value) if _is_shown(value) else queryset.none()
        return queryset.filter(
            last_error=Subquery(Job.objects.filter(pk=pk).values("last_error")[:1])
        )


class ScheduleFilter(ChosenFilter):
    title = gettext_lazy("schedule")
    parameter_name = "schedule"

    def found(self, request: HttpRequest) -> Choices:
        return [("yes", _("recurring")), ("no", _("once"))]

    def narrowed(self, queryset: Any, value: str) -> Any:
        return queryset.filter(name__isnull=value != "yes")


class EndedFilter(ChosenFilter):
    title = gettext_lazy("ended")
    parameter_name = "ended"
    SPANS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}

    def found(self, request: HttpRequest) -> Choices:
        words = (_("in the last hour"), _("in the last day"), _("in the last week"))
        return list(zip(self.SPANS, words, strict=True))

    def narrowed(self, queryset: Any, value: str) -> Any:
        if value not in self.SPANS:
            return queryset.none()
        since = queryset.engine.now() - self.SPANS[value]
        return queryset.filter(status__in=SETTLED, finished_at__gte=since)


FILTERS = (StatusFilter, KindFilter, QueueFilter, ReasonFilter, ScheduleFilter, EndedFilter)


def newest(request: Any) -> Iterator[tuple[str, str]]:
    """Return the kinds and queues of the newest jobs; asked once a request."""
    if not hasattr(request, "_sqlqueue_newest"):
        rows = Job.objects.order_by("-pk").count_by("kind", "queue", limit=LOOKED_AT)
        request._sqlqueue_newest = [(kind, queue) for kind, queue, _count in rows]
    return iter(request._sqlqueue_newest)


def known_kinds(request: Any) -> set[str]:
    """Return the kinds of the newest jobs and of the handlers here."""
    return {kind for kind, _queue in newest(request)} | set(all_kinds())


def reason_link(reason: str, newest_id: int) -> str:
    """Return the filter's value for a reason, without the text where it may not be shown."""
    return reason if _is_shown(reason) else f"{LIKE}{newest_id}"


def _is_shown(reason: str) -> bool:
    return shown.reason(reason, None) == reason


def _like(value: str) -> int | None:
    pk = value.removeprefix(LIKE)
    is_id = value.startswith(LIKE) and pk.isascii() and pk.isdigit() and len(pk) < 19
    return int(pk) if is_id else None


def _plain(names: Iterable[str]) -> Choices:
    return [(name, name) for name in sorted(names)[:MOST_CHOICES]]
