"""Keeping the rows in a file, and putting them into a database."""

import json
import re
from pathlib import Path
from typing import Any

from django.core import serializers
from django.core.management.color import no_style
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection

from django_sqlqueue.models import Attempt, Job

ROWS = Path(__file__).with_name("django_5_2.json")


def write(names: dict[str, str], rows: list[Any]) -> None:
    """Keep these rows, and under which name which result is asked for."""
    stored = {"names": names, "rows": serializers.serialize("python", rows)}
    text = json.dumps(stored, cls=DjangoJSONEncoder, indent=1)
    # Of the places in the code only the files' names: the rest is of whatever machine this is.
    text = re.sub(r"  /\S*?([^/\s]+\.py):", r"  \1:", text)
    ROWS.write_text(f"{text}\n")


def load() -> dict[str, str]:
    """Put the rows into the database; return the ids of the results by their names."""
    stored = json.loads(ROWS.read_text())
    for row in serializers.deserialize("python", stored["rows"]):
        row.save()
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Job, Attempt]):
            cursor.execute(statement)
    return stored["names"]
