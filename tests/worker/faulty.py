"""What the tests of database faults stand on: processes with faults, and the server's sessions."""

import json
from contextlib import closing
from typing import Any

from django.db import connection

from tests.conftest import END_SESSION, FIND_SESSIONS
from tests.processes import Process, spawn
from tests.worker.base import WorkerTestCase

IN_TRANSACTION = {
    "postgresql": (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%%'"
    ),
    "mysql": (
        "SELECT count(*) FROM information_schema.innodb_trx AS trx"
        " JOIN information_schema.processlist AS list ON list.id = trx.trx_mysql_thread_id"
        " WHERE list.db = DATABASE() AND list.id <> CONNECTION_ID()"
    ),
}


class FaultTestCase(WorkerTestCase):
    """Starts workers with the handlers and the faults of tests.worker.faults."""

    def start(self, *arguments: str, **environ: Any) -> Process:
        return super().start(*arguments, **environ)

    def spawn(self, *arguments: str, **environ: Any) -> Process:
        """Start runjobs; the environment's values that are no strings are sent as JSON."""
        env = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in environ.items()
        }
        return spawn("runjobs", *arguments, env=env, settings="tests.worker.fault_settings")

    def needs_server(self) -> None:
        if connection.vendor == "sqlite":
            self.skipTest("SQLite has no server and no sessions")

    def sessions(self) -> list[int]:
        """Return the ids of all other sessions on this database."""
        return [row[0] for row in query(FIND_SESSIONS[connection.vendor])]

    def end_sessions(self) -> int:
        """Let the server end all other sessions on this database; return how many."""
        found = self.sessions()
        for session in found:
            query(END_SESSION[connection.vendor], session)
        return len(found)

    def open_transactions(self) -> int:
        """Count the sessions that hold a transaction open and do nothing."""
        return query(IN_TRANSACTION[connection.vendor])[0][0]

    def warnings_in(self, worker: Process) -> list[str]:
        return [
            line for line in worker.output.splitlines() if " WARNING " in line or " ERROR " in line
        ]


def query(sql: str, *params: Any) -> list[Any]:
    with closing(connection.cursor()) as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall()) if cursor.description else []
