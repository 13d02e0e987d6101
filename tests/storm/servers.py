"""The databases of a storm, each of its own: they may be stopped, killed and broken."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.storm.clocks import Clock
from tests.storm.disks import Disk
from tests.worker.own_servers import OwnMariaDB, OwnPostgres, OwnServer

SETTINGS = "tests.storm.settings"


LIVE = "status IN ('ready', 'running')"


class StormServer(OwnServer):
    """What a storm does to a database beyond what a test does."""

    disk: Disk | None = None
    """Where its data lies, if that can be full."""
    clock: Clock | None = None
    """What it goes by, if that can be moved."""
    _writer: Any = None

    def version(self) -> str:
        raise NotImplementedError

    def damage(self) -> str:
        """Return what the server says of tables that it has destroyed itself, or nothing."""
        return ""

    def crash(self) -> None:
        """Let the server die without a word; start() brings it back."""
        raise NotImplementedError

    def end_sessions(self) -> int:
        """Let the server end all other sessions; return how many."""
        raise NotImplementedError

    def go_by(self, clock: Clock) -> None:
        """Go by another clock from now on."""
        self.clock = clock
        self._set_environ(clock.environ())
        self.stop()
        self.start()

    def _set_environ(self, environ: dict[str, str]) -> None:
        """Let the server find this in its environment when it starts."""

    def hold_locks(self) -> bool:
        """Lock what others want to write, until let_go(); False where they hold it too long."""
        self._writer = self._connect_writer()
        try:
            for sql in self._locking:
                self._execute(self._writer, sql)
        except Exception:
            self.let_go()
            return False
        return True

    def let_go(self) -> None:
        """Undo what hold_locks began; the session may be gone by now."""
        if self._writer is not None:
            with suppress(Exception):
                self._writer.rollback()
            with suppress(Exception):
                self._writer.close()
        self._writer = None

    _locking: tuple[str, ...]

    def _connect_writer(self) -> Any:
        raise NotImplementedError

    def _execute(self, connection: Any, sql: str) -> None:
        with closing(connection.cursor()) as cursor:
            cursor.execute(sql)


class StormPostgres(OwnPostgres, StormServer):
    _locking = (
        "SET lock_timeout = '2s'",
        f"UPDATE django_sqlqueue_job SET updated_at = updated_at WHERE {LIVE}",
    )

    def _set_environ(self, environ: dict[str, str]) -> None:
        self._server.environ = environ

    def _connect_writer(self) -> Any:
        import psycopg

        return psycopg.connect(host=str(self._server.folder), user="postgres", dbname="own")

    def version(self) -> str:
        return self._server.version()

    def crash(self) -> None:
        self._server.stop(signal.SIGQUIT)

    def end_sessions(self) -> int:
        others = "FROM pg_stat_activity WHERE datname = 'own' AND pid <> pg_backend_pid()"
        return len(self.query(f"SELECT pg_terminate_backend(pid) {others}"))

    def refuse_writes(self) -> None:
        super().refuse_writes()
        # Whoever is in a transaction would write on.
        self.end_sessions()


class StormMariaDB(OwnMariaDB, StormServer):
    _read = 0
    """How far the server's log was looked through."""
    # What was committed must outlive the server, and with DURABLE the machine.
    FLUSH = 1 if os.environ.get("DURABLE") else 2
    _locking = (
        "SET SESSION innodb_lock_wait_timeout = 2",
        f"UPDATE django_sqlqueue_job SET priority = priority WHERE {LIVE}",
        f"SELECT id FROM django_sqlqueue_job WHERE {LIVE} FOR UPDATE",
    )

    def _set_environ(self, environ: dict[str, str]) -> None:
        self._environ = environ

    def _connect_writer(self) -> Any:
        import MySQLdb

        return MySQLdb.connect(user="root", unix_socket=str(self._socket), database="own")

    def damage(self) -> str:
        # As some releases do at times when the disk is full.
        with (self._folder / "log").open(errors="replace") as log:
            log.seek(self._read)
            lines = log.readlines()
            self._read = log.tell()
        return next((line.strip() for line in lines if "is corrupt" in line), "")

    def version(self) -> str:
        return f"MariaDB {self.query('SELECT VERSION()')[0][0].split('-')[0]}"

    def crash(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)

    def end_sessions(self) -> int:
        found = self.query("SELECT id FROM information_schema.processlist WHERE user = 'worker'")
        for (session,) in found:
            # One may have ended by itself meanwhile.
            with suppress(Exception):
                self.query(f"KILL {session}")
        return len(found)


class StormSQLite(StormServer):
    """A file in a folder of its own: no server that could be away, and no sessions."""

    _locking = ("BEGIN IMMEDIATE",)

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sqlqueue-storm-sqlite-"))

    def _connect_writer(self) -> Any:
        import sqlite3

        return sqlite3.connect(self._folder / "storm.sqlite3", timeout=5)

    def environ(self) -> dict[str, str]:
        url = f"sqlite:///{self._folder / 'storm.sqlite3'}"
        return {"DATABASE_URL": url, "TEST_DATABASE_NAMES": "{}"}

    def version(self) -> str:
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"

    def start(self) -> None:
        """Nothing to do: it is a file."""

    def stop(self) -> None:
        """Nothing to do: it is a file."""

    def allow_writes(self) -> None:
        """Nothing to do: nothing has refused them."""

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def query(self, sql: str) -> list[Any]:
        import sqlite3

        with sqlite3.connect(self._folder / "storm.sqlite3", timeout=20) as own:
            return own.execute(sql).fetchall()


STORM_SERVERS: dict[str, Callable[[], StormServer]] = {
    "sqlite": StormSQLite, "postgresql": StormPostgres, "mariadb": StormMariaDB,
}  # fmt: skip


def storm_server(engine: str, disk: Disk | None = None, clock: Clock | None = None) -> StormServer:
    """Start a database of the storm's own, on a disk that can be full, by a clock that moves."""
    if disk is None:
        server = STORM_SERVERS[engine]()
    else:
        with disk.holds_temporary_files():
            server = STORM_SERVERS[engine]()
        server.disk = disk
    if clock is not None:
        server.go_by(clock)
    return server
