"""The library's handlers: one document's vector and summaries, and the rescan of a folder."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import F

from django_sqlqueue import Abandon, Defer, handler

from . import catalogue, files, summaries, uris, vectors
from .models import Document, Folder, Summary

MAX_BYTES = 4 * 1024 * 1024
DEFER_SECONDS = 2

# Troubles that may pass by themselves: they are tried again, and the reason says what they were.
PASSING_TROUBLES = {
    FileNotFoundError: "file_missing",
    PermissionError: "file_not_permitted",
    OSError: "file_unreadable",
}


@dataclass(frozen=True)
class Reading:
    """What a job works on: a document and its text, or why the work is not wanted any more."""

    document: Document | None = None
    text: str = ""
    obsolete: str = ""


# Not atomic: its one guarded UPDATE may well happen twice, and on SQLite an atomic handler would
# hold the write lock all the while it computes.
@handler("library.embed", classify=PASSING_TROUBLES)
def embed(job):
    """Store the term vector of a document."""
    reading = read_document(job)
    if reading.obsolete:
        return {"skipped": reading.obsolete}
    document = reading.document
    vector = vectors.embed(reading.text, document.title)
    present = Document.objects.filter(pk=document.pk, content_hash=document.content_hash)
    present.update(vector=vectors.pack(vector))
    return {"dimensions": sum(1 for value in vector if value)}


# Atomic: the text, the count of its revisions and the job's completion are one commit. A worker
# that dies in between leaves none of them, so no revision is counted twice.
@handler("library.summarize_abstract", classify=PASSING_TROUBLES, atomic=True)
def summarize_abstract(job):
    """Store the abstract of a document."""
    return store_summary(job, Summary.Length.ABSTRACT, summaries.ABSTRACT_SENTENCES)


@handler("library.summarize_overview", classify=PASSING_TROUBLES, atomic=True)
def summarize_overview(job):
    """Store the overview of a document."""
    return store_summary(job, Summary.Length.OVERVIEW, summaries.OVERVIEW_SENTENCES)


@handler(catalogue.RESCAN, classify={FileNotFoundError: "folder_missing"})
def rescan(job):
    """Find what was changed, added or removed on disk since the last look."""
    folder = Folder.objects.filter(name=uris.split(job.payload["uri"])[0]).first()
    if folder is None:
        raise Abandon("folder_removed")
    result = catalogue.scan(folder)
    return {"written": result.written, "removed": result.removed, "skipped": len(result.skipped)}


def store_summary(job, length: str, sentences: int) -> dict:
    """Write a document's summary of one length, and count the revision."""
    reading = read_document(job)
    if reading.obsolete:
        return {"skipped": reading.obsolete}
    text = summaries.summarize(reading.text, sentences, is_python=reading.document.is_python)
    Summary.objects.update_or_create(
        document=reading.document,
        length=length,
        defaults={"text": text, "revision": F("revision") + 1},
        create_defaults={"text": text},
    )
    return {"characters": len(text)}


def read_document(job) -> Reading:
    """Return the document that a job is for, with its text.

    The job's work is obsolete where the document has been removed or written anew since, and where
    its file has changed on disk: then this writes it anew, with a fresh family of jobs.
    Raise what ends the attempt: Defer while the file is being written, Abandon where no later
    attempt could read it.
    """
    document = Document.objects.select_related("folder").with_uri(job.payload["uri"]).first()
    if document is None:
        return Reading(obsolete="removed")
    if document.content_hash != job.payload["content_hash"]:
        return Reading(obsolete="superseded")
    content = read(document)
    present_hash = files.content_hash(content)
    if present_hash != document.content_hash:
        catalogue.put(document.folder, document.uri, present_hash, len(content))
        return Reading(obsolete="changed")
    return Reading(document, decode(content))


def read(document: Document) -> bytes:
    """Return the content of a document's file, once nobody is writing it."""
    try:
        content = files.read_at_rest(document.path, settings.LIBRARY_QUIET_SECONDS, MAX_BYTES)
    except files.StillBeingWritten:
        raise Defer(DEFER_SECONDS) from None
    if len(content) > MAX_BYTES:
        raise Abandon("file_too_large")
    return content


def decode(content: bytes) -> str:
    """Return content as text. Bytes that are not UTF-8 fail for good: a retry finds them again."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Abandon("undecodable_text") from None
