"""The library's pages: search, one document, the queue."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from django_sqlqueue.models import Job

from . import catalogue, search
from .forms import SearchForm
from .models import Document

DOCUMENTS_PER_PAGE = 20
JOBS_SHOWN = 30


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Show the documents nearest to the words typed, or the newest where none were."""
    form = SearchForm(request.GET)
    query = form.cleaned_data["q"] if form.is_valid() else ""
    context = {
        "form": form,
        "query": query,
        "total": Document.objects.count(),
        "queue": queue_state(),
    }
    if query:
        context["hits"] = search.find(query)
    elif form.is_valid():
        newest = Document.objects.select_related("folder").prefetch_related("summaries")
        context["page"] = Paginator(newest, DOCUMENTS_PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "library/search.html", context, status=200 if form.is_valid() else 400)


@require_safe
def document_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a document's summaries, what is near it, and its jobs."""
    document = get_object_or_404(
        Document.objects.select_related("folder").prefetch_related("summaries"), pk=pk
    )
    context = {
        "document": document,
        "similar": search.find_similar(document),
        "jobs": Job.objects.for_ref(document.ref).order_by("-id")[:JOBS_SHOWN],
        "queue": queue_state(),
    }
    return render(request, "library/document.html", context)


@require_safe
def queue_page(request: HttpRequest) -> HttpResponse:
    """Show how many jobs there are of each status, what failed and why."""
    detail = Job.objects.detail(JOBS_SHOWN)
    return render(
        request,
        "library/queue.html",
        {"queue": queue_state(), "detail": detail, "failed": with_documents(detail.failed)},
    )


def queue_state() -> dict:
    """Return the counts that every page shows; ``busy`` leaves out the waiting rescans."""
    return {
        "stats": Job.objects.stats(),
        "busy": sum(Job.objects.count_live(kind) for kind in catalogue.FAMILY),
    }


def with_documents(jobs) -> list[dict]:
    """Return each job with the document it is about, None where that is gone."""
    documents = {
        document.ref: document for document in Document.objects.filter(pk__in=_document_ids(jobs))
    }
    return [{"job": job, "document": documents.get(job.ref)} for job in jobs]


def _document_ids(jobs) -> list[int]:
    ids = (job.ref.removeprefix("library:") for job in jobs)
    return [int(pk) for pk in ids if pk.isdecimal()]
