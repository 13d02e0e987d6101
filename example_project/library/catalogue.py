"""Putting documents in and taking them out: each change and its jobs in one transaction."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from django_sqlqueue import NewJob
from django_sqlqueue.models import Job

from . import files, uris
from .models import Document, Folder

# The family of jobs that every new content of a document gets.
FAMILY = ("library.embed", "library.summarize_abstract", "library.summarize_overview")
RESCAN = "library.rescan"


class CannotAdd(ValueError):
    """This folder cannot be put into the library."""


@dataclass
class ScanResult:
    """What a look through a folder found."""

    written: int = 0
    unchanged: int = 0
    removed: int = 0
    # Files that could not be read, or whose uri would be too long.
    skipped: list[str] = field(default_factory=list)
    # Subfolders that could not be listed.
    unlisted: list[str] = field(default_factory=list)


@transaction.atomic
def add_folder(path: Path, name: str, skip: Iterable[str] = ()) -> Folder:
    """Make a folder known under a name and have it rescanned from now on.

    Adding it again brings back what was taken out by hand. Raise CannotAdd where another folder has
    the name.
    """
    folder, _ = Folder.objects.select_for_update().get_or_create(
        name=name, defaults={"path": str(path)}
    )
    if folder.path != str(path):
        raise CannotAdd(f"{folder.uri} is another folder, {folder.path}: choose another name.")
    folder.skip = sorted(skip)
    folder.save(update_fields=["skip"])
    folder.exclusions.all().delete()
    every = timedelta(seconds=settings.LIBRARY_RESCAN_SECONDS)
    Job.objects.schedule(
        folder.rescan_name,
        RESCAN,
        every=every,
        run_at=timezone.now() + every,
        payload={"uri": folder.uri},
        ref=folder.uri,
    )
    return folder


def scan(folder: Folder) -> ScanResult:
    """Bring the library up to date with what lies in a folder on disk.

    Each document is a transaction of its own: a long scan holds no lock, and one that is
    interrupted is simply made again. Raise FileNotFoundError where the folder itself is gone: a
    disk that is not mounted is no reason to forget its documents.
    """
    root = Path(folder.path)
    if not root.is_dir():
        raise FileNotFoundError
    result = ScanResult()
    known = dict(folder.documents.values_list("uri", "content_hash"))
    seen = set()
    for uri, path in _files_of(folder, root, result):
        seen.add(uri)
        _write_if_changed(folder, uri, path, known.get(uri), result)
    # What lies in a subfolder that cannot be listed was not seen, but is not known to be gone.
    if not result.unlisted:
        result.removed = _forget(folder, known.keys() - seen)
    return result


@transaction.atomic
def put(folder: Folder, uri: str, content_hash: str, size: int) -> bool:
    """Write a document and enqueue its family of jobs.

    Return False, and enqueue nothing, where the content is the one already there, the uri was taken
    out by hand, or the folder has been removed meanwhile.
    """
    # The folder's row is the lock that orders put and remove.
    locked = Folder.objects.select_for_update().filter(pk=folder.pk).first()
    if locked is None or _is_excluded(uri, _exclusions(locked)):
        return False
    document, created = Document.objects.get_or_create(
        uri_digest=uris.digest_of(uri),
        defaults={"folder": locked, "uri": uri, "content_hash": content_hash, "size": size},
    )
    if not created and document.content_hash == content_hash:
        return False
    document.content_hash, document.size = content_hash, size
    document.save(update_fields=["content_hash", "size", "changed_at"])
    Job.objects.enqueue_many(family_of(document))
    return True


def family_of(document: Document) -> list[NewJob]:
    """Return the jobs that a document's present content needs, keyed by that content."""
    payload = {"uri": document.uri, "content_hash": document.content_hash}
    key = f"{document.ref}@{document.content_hash}"
    return [NewJob(kind, payload, dedup_key=key, ref=document.ref) for kind in FAMILY]


@transaction.atomic
def remove(uri: str) -> int:
    """Take a subtree out of the library with its jobs; return how many documents it had.

    Raise InvalidUri where nothing in the library has this uri.
    """
    name, relative = uris.split(uri)
    uri = uri.rstrip("/")
    folder = Folder.objects.select_for_update().filter(name=name).first()
    # Names compare without case where the database's collation says so.
    if folder is None or folder.name != name:
        raise uris.InvalidUri(f"The library has no folder {name!r}.")
    doomed = [
        pk
        for pk, document_uri in folder.documents.values_list("pk", "uri")
        if uris.is_within(document_uri, uri)
    ]
    if relative and not doomed:
        raise uris.InvalidUri(f"Nothing in the library has the uri {uri}.")
    Document.objects.filter(pk__in=doomed).delete()
    if relative:
        folder.exclusions.create(uri=uri)
    else:
        Job.objects.unschedule(folder.rescan_name)
        folder.delete()
    Job.objects.cancel_for_uri(uri)
    return len(doomed)


def _files_of(folder: Folder, root: Path, result: ScanResult) -> Iterator[tuple[str, Path]]:
    """Yield the uri and path of each file that belongs in the library; note what is skipped."""
    exclusions = _exclusions(folder)

    def note(error: OSError) -> None:
        result.unlisted.append(str(error.filename))

    for path in files.text_files(root, folder.skip, onerror=note):
        uri = uris.uri_of(folder.name, path.relative_to(root))
        if len(uri) > uris.MAX_URI_LENGTH:
            result.skipped.append(str(path))
        elif not _is_excluded(uri, exclusions):
            yield uri, path


def _write_if_changed(
    folder: Folder, uri: str, path: Path, known_hash: str | None, result: ScanResult
) -> None:
    try:
        content_hash, size = files.hash_and_size(path)
    except OSError:
        result.skipped.append(str(path))
        return
    if content_hash != known_hash and put(folder, uri, content_hash, size):
        result.written += 1
    else:
        result.unchanged += 1


@transaction.atomic
def _forget(folder: Folder, gone: Iterable[str]) -> int:
    """Take out documents whose files are no longer on disk, with their jobs."""
    gone = list(gone)
    for uri in gone:
        folder.documents.with_uri(uri).delete()
        Job.objects.cancel_for_uri(uri)
    return len(gone)


def _exclusions(folder: Folder) -> list[str]:
    return list(folder.exclusions.values_list("uri", flat=True))


def _is_excluded(uri: str, exclusions: Iterable[str]) -> bool:
    return any(uris.is_within(uri, excluded) for excluded in exclusions)
