"""``manage.py add FOLDER``: put a folder's text files into the library."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.utils.text import slugify

from ... import catalogue


class Command(BaseCommand):
    """Put the text files of a folder into the library; the worker indexes them."""

    help = (
        "Put the text files of a folder into the library. A file that has not changed adds no jobs."
    )

    def add_arguments(self, parser):
        """Declare the folder, its name, and what to leave out."""
        parser.add_argument("folder", type=Path)
        parser.add_argument(
            "--name", help="The folder's name in uris (default: made from the folder's own name)."
        )
        parser.add_argument(
            "--skip",
            nargs="+",
            default=[],
            metavar="NAME",
            help="Names of subfolders to leave out, at any depth.",
        )

    def handle(self, *, folder: Path, name: str | None, skip: list[str], **options):
        """Add the folder and say what was found."""
        path = existing_folder(folder)
        try:
            added = catalogue.add_folder(path, checked_name(name, path), skip)
        except catalogue.CannotAdd as error:
            raise CommandError(str(error)) from None
        result = catalogue.scan(added)
        self.stdout.write(
            f"{added.uri}: {result.written} new or changed, {result.unchanged} unchanged, "
            f"{result.removed} removed."
        )
        for unread in [*result.skipped, *result.unlisted]:
            self.stderr.write(f"Left out, as it cannot be read: {unread!a}")


def existing_folder(folder: Path) -> Path:
    """Return the folder's absolute path, or refuse what is not a folder or has no name in text."""
    path = folder.expanduser().resolve()
    if not path.is_dir():
        raise CommandError(f"{str(folder)!a} is not a folder.")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise CommandError(f"The path {str(path)!a} is not text, so it cannot be stored.") from None
    return path


def checked_name(name: str | None, path: Path) -> str:
    """Return the name to use in uris, or refuse it."""
    chosen = slugify(path.name) if name is None else name
    if not chosen or slugify(chosen) != chosen or len(chosen) > 60:
        raise CommandError("A --name is 1 to 60 small letters, digits, hyphens and underscores.")
    return chosen
