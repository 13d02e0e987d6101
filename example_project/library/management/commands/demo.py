"""``manage.py demo``: the whole project at work on a real folder, and pages to look at."""

import signal
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from django_sqlqueue.models import Job

from ... import catalogue
from ...models import Document, Folder

HOST = "127.0.0.1"
PORTS_TRIED = 50
LOGIN = "admin"
# Tests and bundled copies: much text, little to read.
STDLIB_SKIP = [
    "test",
    "tests",
    "idlelib",
    "turtledemo",
    "ensurepip",
    "_vendor",
    "lib2to3",
    "encodings",
    "pydoc_data",
]
WORKER_STOP_SECONDS = 40
CTRL_C_SECONDS = 5


class Command(BaseCommand):
    """Index the Python standard library with a real worker, then serve the pages."""

    help = "Index the Python standard library with a real worker, then serve the library's pages."

    def add_arguments(self, parser):
        """Declare the folder, the port, and how long to wait."""
        parser.add_argument(
            "folder", nargs="?", type=Path, help="Another folder than the standard library."
        )
        parser.add_argument(
            "--port", type=int, default=8000, help="The first port to try (default 8000)."
        )
        parser.add_argument("--no-serve", action="store_true", help="Stop after the report.")
        parser.add_argument(
            "--wait", type=float, default=600, help="Seconds to wait for the jobs (default 600)."
        )

    def handle(self, *, folder: Path | None, port: int, no_serve: bool, wait: float, **options):
        """Prepare, add, work, report, serve."""
        if not settings.DEBUG:
            raise CommandError("The demo makes a login that everybody knows, so it needs DEBUG.")
        try:
            with sigterm_as_exception():
                self.prepare()
                self.add(folder)
                with self.worker() as worker:
                    self.watch(worker, wait)
                    self.report()
                    if not no_serve:
                        self.serve(first_free_port(port))
        except (KeyboardInterrupt, Terminated):
            raise CommandError("Stopped.") from None

    def prepare(self) -> None:
        """Make the tables and the login."""
        self.say("Making the tables …")
        call_command("migrate", verbosity=0)
        users = get_user_model().objects
        if not users.filter(username=LOGIN).exists():
            users.create_superuser(LOGIN, password=LOGIN)
        self.say(f"Login for the admin: {LOGIN}, password: {LOGIN}")

    def add(self, folder: Path | None) -> None:
        """Put in the folder, and notes of the demo's own with a file that cannot be decoded."""
        if folder is None:
            self.add_folder(
                Path(sysconfig.get_path("stdlib")), "--name", "stdlib", "--skip", *STDLIB_SKIP
            )
        else:
            self.add_folder(folder)
        notes = write_notes(settings.VAR_DIR / "demo-notes")
        self.say(
            "latin1.txt in the demo's notes is not UTF-8, so that there is a failure to look at."
        )
        self.add_folder(notes)

    def add_folder(self, folder: Path, *arguments: str) -> None:
        """Run the command ``add``, as anybody would."""
        self.say(f"Adding {folder} …")
        call_command("add", str(folder), *arguments, stdout=self.stdout, stderr=self.stderr)

    @contextmanager
    def worker(self):
        """Run ``manage.py runjobs`` while the block runs, then let it finish what it is doing."""
        worker = start_worker()
        self.say(f"A worker does the jobs (manage.py runjobs, process {worker.pid});")
        self.say(f"its log is {worker_log()}")
        try:
            yield worker
        except (KeyboardInterrupt, SystemExit):
            # The terminal sends Ctrl-C to the worker too: it is ending already, and a second signal
            # would tell it not to finish its jobs.
            wait_for_end(worker, CTRL_C_SECONDS)
            raise
        finally:
            stop(worker)
            self.say("The worker has stopped.")

    def watch(self, worker: subprocess.Popen, wait: float) -> None:
        """Print how far the worker is until every document is indexed."""
        started = time.monotonic()
        while live := count_live():
            self.say(
                f"{time.monotonic() - started:5.0f} s  {live} jobs to do  ({counts_in_words()})"
            )
            if worker.poll() is not None:
                raise CommandError(
                    f"The worker ended by itself, with exit code {worker.returncode}: "
                    f"see {worker_log()}"
                )
            if time.monotonic() - started > wait:
                raise CommandError(f"{live} jobs are not done after {wait:g} seconds.")
            pause_while_busy(1.5)
        self.say(f"All jobs are settled after {time.monotonic() - started:.0f} s.")

    def report(self) -> None:
        """Print what is in the library, and what failed and why."""
        embedded = Document.objects.filter(vector__isnull=False).count()
        self.say(f"\nDocuments: {Document.objects.count()}, of which {embedded} are embedded.")
        self.say(f"Jobs: {counts_in_words()}")
        folders = Folder.objects.count()
        self.say(f"(ready are the recurring rescans of {folders} folders, waiting for their time)")
        detail = Job.objects.detail(10)
        for reason, count in sorted(detail.reasons.items()):
            self.say(f"Failed as {reason}: {count}")
        for job in detail.failed:
            self.say(f"  {job.kind}  {job.payload.get('uri', '')}  {job.last_error}")

    def serve(self, port: int) -> None:
        """Serve the pages until Ctrl-C."""
        self.say(f"\nLibrary:  http://{HOST}:{port}/\nQueue:    http://{HOST}:{port}/queue/")
        self.say(f"Admin:    http://{HOST}:{port}/admin/   login {LOGIN}, password {LOGIN}")
        self.say("Ctrl-C stops.")
        # On Ctrl-C the server leaves by SystemExit.
        call_command(
            "runserver",
            f"{HOST}:{port}",
            use_reloader=False,
            stdout=self.stdout,
            stderr=self.stderr,
        )

    def say(self, text: str) -> None:
        """Print a line at once, also into a pipe."""
        self.stdout.write(text)
        self.stdout.flush()


class Terminated(BaseException):
    """SIGTERM came: the demo ends, and its worker with it."""


@contextmanager
def sigterm_as_exception():
    """Raise Terminated on SIGTERM, which would end the demo without its worker."""

    def terminate(signum, frame):
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def start_worker() -> subprocess.Popen:
    """Start ``manage.py runjobs``, in the demo's process group: who kills the group gets both."""
    with worker_log().open("wb") as log:
        return subprocess.Popen(
            [sys.executable, settings.BASE_DIR / "manage.py", "runjobs"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def wait_for_end(worker: subprocess.Popen, seconds: float) -> bool:
    """Wait for the worker's end, and return whether it came in time."""
    try:
        worker.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def stop(worker: subprocess.Popen) -> None:
    """Ask the worker to finish what it is doing and end; kill it where it does not."""
    worker.terminate()
    if not wait_for_end(worker, WORKER_STOP_SECONDS):
        worker.kill()
        worker.wait()


def worker_log() -> Path:
    """Return where the worker writes a line for each job: too many for the demo's own output."""
    return settings.VAR_DIR / "worker.log"


def write_notes(folder: Path) -> Path:
    """Write two small files, one of which is not UTF-8, and return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_if_different(folder / "about.txt", ABOUT.encode())
    write_if_different(
        folder / "latin1.txt", "Ein älterer Text, in Latin-1 geschrieben.\n".encode("latin-1")
    )
    return folder


def write_if_different(path: Path, content: bytes) -> None:
    """Write a file, unless it holds this already: a second demo finds nothing new."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def count_live() -> int:
    """Return how many jobs of documents are to do; the rescans are always live."""
    return sum(Job.objects.count_live(kind) for kind in catalogue.FAMILY)


def counts_in_words() -> str:
    """Return the number of jobs of each status, in words."""
    return ", ".join(f"{count} {status}" for status, count in Job.objects.stats().items())


def pause_while_busy(seconds: float) -> None:
    """Wait, but not longer than there is something to wait for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and count_live():
        time.sleep(0.25)


def first_free_port(port: int) -> int:
    """Return the first port from this one on that nobody listens on."""
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, candidate))
            except OSError:
                continue
            return candidate
    raise CommandError(f"No port is free from {port} on.")


ABOUT = """\
About this library

These notes were written by the demo. A document library keeps the text files of a folder, and a
queue in the same database keeps the work they need. Each file that is new or has changed gets three
jobs in the same transaction: one computes its vector for the search, one writes its abstract, one
its overview.

A worker takes the jobs one after the other. When the worker is stopped in the middle of a job, the
job is done again by the next worker. When a file is still being written, its jobs are put off for
two seconds. When a file cannot be decoded, its jobs end as failed, and the reason says why.
"""
