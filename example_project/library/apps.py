"""Wiring of the library app."""

from django.apps import AppConfig


class LibraryConfig(AppConfig):
    """A small document library, indexed by jobs."""

    name = "library"
