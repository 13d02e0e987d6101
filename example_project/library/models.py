"""The library's tables: folders, the documents in them, their summaries, and what was taken out."""

from pathlib import Path

from django.db import models

from . import uris


class Folder(models.Model):
    """A folder on disk whose text files are in the library."""

    name = models.SlugField(
        max_length=60, unique=True, help_text="The first part of its documents' uris."
    )
    path = models.CharField(max_length=1000, help_text="Where it lies on disk.")
    skip = models.JSONField(
        default=list, blank=True, help_text="Names of subfolders that are left out."
    )
    added_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self):
        return self.uri

    @property
    def uri(self) -> str:
        """The uri of the folder itself."""
        return uris.folder_uri(self.name)

    @property
    def rescan_name(self) -> str:
        """The name of the schedule that looks through this folder again and again."""
        return f"library.rescan:{self.name}"


class Exclusion(models.Model):
    """A subtree that was taken out by hand, so that the rescan does not bring it back."""

    folder = models.ForeignKey(Folder, on_delete=models.CASCADE, related_name="exclusions")
    uri = models.CharField(max_length=uris.MAX_URI_LENGTH)

    def __str__(self):
        return self.uri


class DocumentQuerySet(models.QuerySet):
    """Questions about documents."""

    def with_uri(self, uri: str) -> "DocumentQuerySet":
        """Return the one document with exactly this uri, or none."""
        return self.filter(uri_digest=uris.digest_of(uri))


class Document(models.Model):
    """A text file in the library, and what the jobs found out about its content."""

    folder = models.ForeignKey(Folder, on_delete=models.CASCADE, related_name="documents")
    uri = models.CharField(max_length=uris.MAX_URI_LENGTH)
    uri_digest = models.CharField(
        max_length=32,
        unique=True,
        editable=False,
        help_text="The uri's key, exact on every engine.",
    )
    content_hash = models.CharField(
        max_length=32, help_text="The hash of the content that was last written."
    )
    size = models.PositiveBigIntegerField(help_text="In bytes.")
    vector = models.BinaryField(
        null=True, help_text="Its hashed term vector; empty until it is embedded."
    )
    added_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    objects = DocumentQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self):
        return self.uri

    @property
    def ref(self) -> str:
        """What the jobs of this document are about."""
        return f"library:{self.pk}"

    @property
    def path(self) -> Path:
        """Where its file lies on disk."""
        return uris.path_of(Path(self.folder.path), self.uri)

    @property
    def title(self) -> str:
        """Its path in its folder."""
        return uris.split(self.uri)[1]

    @property
    def is_python(self) -> bool:
        """Whether its prose stands in docstrings and comments."""
        return self.uri.endswith((".py", ".pyi"))

    @property
    def abstract(self) -> str:
        """Its short summary, "" until it is written."""
        return self._summary(Summary.Length.ABSTRACT)

    @property
    def overview(self) -> str:
        """Its longer summary, "" until it is written."""
        return self._summary(Summary.Length.OVERVIEW)

    def _summary(self, length: str) -> str:
        return next(
            (summary.text for summary in self.summaries.all() if summary.length == length), ""
        )


class Summary(models.Model):
    """A summary of a document, in one of two lengths."""

    class Length(models.TextChoices):
        """How long a summary is."""

        ABSTRACT = "abstract"
        OVERVIEW = "overview"

    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="summaries")
    length = models.CharField(max_length=20, choices=Length)
    text = models.TextField(blank=True)
    revision = models.PositiveIntegerField(
        default=1, help_text="How many contents of the document it was written for."
    )

    class Meta:
        verbose_name_plural = "summaries"
        constraints = [
            models.UniqueConstraint(
                fields=["document", "length"], name="library_summary_document_length"
            ),
        ]

    def __str__(self):
        return f"{self.length} of {self.document}"
