"""`manage.py jobs why ID`: why a job is not running now."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...explanation import explain
from ...models import Job

HELP = "Says in one sentence why a job is not running now."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--database", metavar="ALIAS", help="The database that holds the jobs.")
    parser.add_argument("id", type=int, help="the id of the job")


def handle(command: BaseCommand, database: str | None, **options: Any) -> str:
    jobs: Any = Job.objects.using(database)
    job = jobs.filter(pk=options["id"]).defer("payload", "result").first()
    if job is None:
        raise CommandError(f"There is no job {options['id']}.")
    return explain(job).sentence
