"""Finding documents by the nearness of their vectors."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from . import vectors
from .models import Document

# Below this, two texts share a word or two by chance.
LEAST_SCORE = 0.05


@dataclass(frozen=True)
class Hit:
    """A document that was found, and how near it is: 0 to 1."""

    document: Document
    score: float

    @property
    def percent(self) -> int:
        """The score for people."""
        return round(100 * self.score)


def find(query: str, limit: int = 20) -> list[Hit]:
    """Return the documents nearest to these words, the nearest first."""
    return _nearest(vectors.embed(query), limit)


def find_similar(document: Document, limit: int = 5) -> list[Hit]:
    """Return the documents nearest to this one."""
    if document.vector is None:
        return []
    hits = _nearest(vectors.unpack(document.vector), limit + 1)
    return [hit for hit in hits if hit.document != document][:limit]


def _nearest(vector, limit: int) -> list[Hit]:
    ranked = [
        (score, pk)
        for score, pk in vectors.rank(vector, _embedded())[:limit]
        if score >= LEAST_SCORE
    ]
    found = (
        Document.objects.select_related("folder")
        .prefetch_related("summaries")
        .in_bulk([pk for _, pk in ranked])
    )
    return [Hit(found[pk], score) for score, pk in ranked if pk in found]


def _embedded() -> Iterator[tuple[int, array]]:
    """Yield (id, vector) of every document that has been embedded."""
    rows = Document.objects.filter(vector__isnull=False).order_by().values_list("pk", "vector")
    for pk, data in rows.iterator():
        yield pk, vectors.unpack(data)
