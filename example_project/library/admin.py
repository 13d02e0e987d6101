"""The library in the admin: to look at. It is changed by the commands ``add`` and ``remove``."""

from django.contrib import admin

from .models import Document, Folder, Summary


class ReadOnlyAdmin(admin.ModelAdmin):
    """Shows rows; a change made here would leave files, documents and jobs at odds."""

    def has_add_permission(self, request, obj=None):
        """Nobody adds here."""
        return False

    def has_change_permission(self, request, obj=None):
        """Nobody changes here."""
        return False

    def has_delete_permission(self, request, obj=None):
        """Nobody deletes here."""
        return False


class SummaryInline(admin.TabularInline):
    """A document's summaries."""

    model = Summary
    fields = ["length", "text", "revision"]
    extra = 0
    can_delete = False


@admin.register(Folder)
class FolderAdmin(ReadOnlyAdmin):
    """Folders and where they lie."""

    list_display = ["name", "path", "added_at"]


@admin.register(Document)
class DocumentAdmin(ReadOnlyAdmin):
    """Documents with their summaries."""

    list_display = ["uri", "size", "is_embedded", "changed_at"]
    list_filter = ["folder"]
    search_fields = ["uri"]
    exclude = ["vector", "uri_digest"]
    inlines = [SummaryInline]

    @admin.display(boolean=True, description="embedded")
    def is_embedded(self, document: Document) -> bool:
        """Whether the document has a vector."""
        return document.vector is not None
