"""The example project as its users run it: a database and a folder of its own, and its commands."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests import processes

MANAGE = processes.ROOT / "example_project" / "manage.py"
COMMAND_SECONDS = 90

PRELUDE = """
import json
from django.contrib.auth import get_user_model
from django.test import Client
from django_sqlqueue.models import Job
from library import catalogue, search
from library.models import Document, Folder
def client(**options):
    return Client(SERVER_NAME="localhost", raise_request_exception=False, **options)
def shown(response):
    return {"status": response.status_code, "html": response.content.decode()}
def get(path, **query):
    return shown(client().get(path, query))
def get_as_admin(path):
    visitor = client()
    user, _ = get_user_model().objects.get_or_create(
        username="admin", defaults={"is_staff": True, "is_superuser": True}
    )
    visitor.force_login(user)
    return shown(visitor.get(path))
"""
ANSWER = "answer: "
TELLER = f"""{PRELUDE}
while True:
    with open(QUESTIONS) as questions:
        for question in questions:
            print("{ANSWER}" + json.dumps(eval(json.loads(question))), flush=True)
"""


class Library:
    """A document library on an empty database, and the folder `books` to put into it."""

    uri = "library://books"

    def __init__(self, home: Path, database_url: str) -> None:
        self.folder = home / "books"
        self.folder.mkdir()
        self._questions = home / "questions"
        self._teller: processes.Process | None = None
        self.environ = {
            "DATABASE_URL": database_url,
            "DEBUG": "1",
            "LIBRARY_VAR_DIR": str(home / "var"),
            "LIBRARY_QUIET_SECONDS": "2",
            "LIBRARY_RESCAN_SECONDS": "3600",
        }

    def write(self, name: str, content: str | bytes, *, age: float = 60) -> Path:
        """Write a file of the folder as if so many seconds ago."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        written = path.stat().st_mtime - age
        os.utime(path, (written, written))
        return path

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> processes.Process:
        """Start a command of the project."""
        return processes.spawn_python(
            str(MANAGE), *arguments, env={**self.environ, **(env or {})}, settings="config.settings"
        )

    def manage(
        self, *arguments: str, exit_code: int = 0, env: Mapping[str, str] | None = None
    ) -> str:
        """Run a command of the project to its end, and return what it wrote."""
        process = self.start(*arguments, env=env)
        ended = process.wait(COMMAND_SECONDS)
        assert ended == exit_code, f"{process} ended with {ended}:\n{process.output}"
        return process.output

    def add(self, **environ: str) -> str:
        return self.manage("add", str(self.folder), env=environ)

    def work(self, **environ: str) -> None:
        """Let a worker do whatever is due."""
        self.manage("runjobs", "--drain", env=environ)

    def ask(self, expression: str) -> Any:
        """Return the value of an expression inside the project."""
        if self._teller is None:
            os.mkfifo(self._questions)
            code = f"QUESTIONS = {str(self._questions)!r}\n{TELLER}"
            self._teller = self.start("shell", "--no-imports", "-c", code)
        teller, heard = self._teller, len(self._teller.output)

        def answer() -> str:
            said = teller.output[heard:]
            assert teller.poll() is None, said
            return said.partition(ANSWER)[2] if said.endswith("\n") else ""

        # Opened like this it waits for no reader: the process may have ended.
        pipe = os.open(self._questions, os.O_RDWR)
        try:
            os.write(pipe, f"{json.dumps(expression)}\n".encode())
            return json.loads(processes.wait_until(answer, COMMAND_SECONDS))
        finally:
            os.close(pipe)

    def documents(self) -> list[str]:
        return self.ask("sorted(Document.objects.values_list('uri', flat=True))")

    def family_states(self) -> list[list[Any]]:
        """Return the status, reason and attempts of each job of the one document there is."""
        jobs = "Job.objects.for_ref(Document.objects.get().ref)"
        return self.ask(f"[[job.status, job.last_error, job.attempts] for job in {jobs}]")

    def jobs(self) -> Counter[tuple[str, str]]:
        """Count the documents' jobs by uri and status."""
        of_documents = "Job.objects.filter(kind__in=catalogue.FAMILY)"
        rows = self.ask(f"[[job.payload['uri'], job.status] for job in {of_documents}]")
        return Counter((uri, status) for uri, status in rows)


def sibling_url(database_url: str, name: str) -> str:
    """Return the url of another database on the same server."""
    return urlsplit(database_url)._replace(path=f"/{name}").geturl()
