"""`manage.py jobs SUBCOMMAND`: what an operator asks and does at the shell."""

from __future__ import annotations

import pkgutil
from argparse import ArgumentParser
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand

from ... import management


class Command(BaseCommand):
    help = "Asks about the job queue and puts it right; see the subcommands."

    def add_arguments(self, parser: ArgumentParser) -> None:
        subparsers = parser.add_subparsers(dest="subcommand", required=True)
        for name in subcommands():
            module = _module(name)
            module.add_arguments(
                subparsers.add_parser(name, help=module.HELP, description=module.HELP)
            )

    def handle(self, *args: Any, subcommand: str, **options: Any) -> str | None:
        """Run the subcommand; it may raise CommandError, whose returncode is the exit code."""
        return _module(subcommand).handle(self, **options)


def subcommands() -> list[str]:
    """Return the names of the modules in management/jobs/."""
    folder = import_module(f"{management.__name__}.jobs")
    return sorted(module.name for module in pkgutil.iter_modules(folder.__path__))


def _module(name: str) -> Any:
    return import_module(f"{management.__name__}.jobs.{name}")
