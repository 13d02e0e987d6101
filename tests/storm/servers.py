"""The databases of a storm, each of its own: they may be stopped, killed and broken."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.worker.own_servers import OwnMariaDB, OwnPostgres, OwnServer

SETTINGS = "tests.storm.settings"


class StormServer(OwnServer):
    """What a storm does to a database beyond what a test does."""

    def version(self) -> str:
        raise NotImplementedError

    def crash(self) -> None:
        """Let the server die without a word; start() brings it back."""
        raise NotImplementedError

    def end_sessions(self) -> int:
        """Let the server end all other sessions; return how many."""
        raise NotImplementedError


class StormPostgres(OwnPostgres, StormServer):
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
    # What was committed must outlive the server, and with DURABLE the machine.
    FLUSH = 1 if os.environ.get("DURABLE") else 2

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

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sqlqueue-storm-sqlite-"))

    def environ(self) -> dict[str, str]:
        return {"DATABASE_URL": f"sqlite:///{self._folder / 'storm.sqlite3'}"}

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
