"""``manage.py remove URI``: take a document, a subtree or a folder out of the library."""

from django.core.management.base import BaseCommand, CommandError

from ... import catalogue, uris


class Command(BaseCommand):
    """Take a subtree out of the library, together with its jobs. Files on disk are left alone."""

    help = "Take a document, a subtree or a folder out of the library. Files stay on disk."

    def add_arguments(self, parser):
        """Declare the uri."""
        parser.add_argument(
            "uri", help="For example library://docs/guide or library://docs/guide/intro.md"
        )

    def handle(self, *, uri: str, **options):
        """Remove what is there and say how much it was."""
        try:
            removed = catalogue.remove(uri)
        except uris.InvalidUri as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{uri}: {removed} documents removed, with their jobs.")
