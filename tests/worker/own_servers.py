"""Database servers that one test may stop, restart and break, with the project's tables."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from django.db import connection

from tests.processes import ROOT
from tests.servers import PostgresServer, Unavailable


class OwnServer:
    """What a test asks of its server, whatever the engine."""

    def environ(self) -> dict[str, str]:
        """Return the environment of a process that works on this server."""
        raise NotImplementedError

    def query(self, sql: str) -> list[Any]:
        raise NotImplementedError

    def refuse_writes(self) -> None:
        """Be read-only, as a replica is, for sessions of now and later."""
        raise NotImplementedError

    def allow_writes(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        raise NotImplementedError

    def migrate(self, settings: str = "tests.settings") -> None:
        environ = {**os.environ, **self.environ(), "DJANGO_SETTINGS_MODULE": settings}
        command = [sys.executable, "-m", "django", "migrate", "--run-syncdb", "-v0"]
        subprocess.run(command, check=True, cwd=ROOT, env=environ)

    def enqueue(self, kind: str, payload: str = "null") -> None:
        """Enqueue as any client may that knows only the table."""
        self.query(
            f"INSERT INTO django_sqlqueue_job (kind, payload) VALUES ('{kind}', '{payload}')"
        )

    def forget_jobs(self) -> None:
        """Be as a test wants to find it: running, writable and without jobs."""
        self.start()
        self.allow_writes()
        for table in ("attempt", "job", "worker"):
            self.query(f"DELETE FROM django_sqlqueue_{table}")

    def stats(self) -> dict[str, int]:
        return dict(self.query("SELECT status, count(*) FROM django_sqlqueue_job GROUP BY status"))


class EncryptedPostgresServer(PostgresServer):
    """Reached by TCP, with a certificate of its own; the wheel's build has no TLS."""

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        options = [each for each in self.OPTIONS if not each.startswith("listen_addresses")]
        self.OPTIONS = (*options, "listen_addresses=127.0.0.1", f"port={self.port}", "ssl=on")
        key, certificate = self.data / "server.key", self.data / "server.crt"
        try:
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                 "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
                check=True, capture_output=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            raise Unavailable(f"openssl made no certificate: {error}") from error
        for path in (key, certificate):
            path.chmod(0o600)
            if self._account:
                os.chown(path, self._account["user"], self._account["group"])

    def _find_binaries(self) -> Path:
        found = shutil.which("postgres")
        # Debian keeps each version in a folder of its own, out of the path.
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        builds = [Path(found)] if found else debian
        if not builds:
            self.remove()
            raise Unavailable("no PostgreSQL with TLS is installed")
        return builds[-1].parent

    def url(self, name: str) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}?sslmode=require"

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres sslmode=require",
            autocommit=True,
        )


class OwnPostgres(OwnServer):
    def __init__(self, server: PostgresServer | None = None) -> None:
        self._server = server or PostgresServer()
        self._server.start()
        self._server.create_database("own")

    def environ(self) -> dict[str, str]:
        return {"DATABASE_URL": self._server.url("own"), "TEST_DATABASE_NAMES": "{}"}

    def query(self, sql: str) -> list[Any]:
        import psycopg

        with psycopg.connect(
            host=str(self._server.folder), port=self._server_port, user="postgres", dbname="own",
            autocommit=True,
        ) as own:  # fmt: skip
            done = own.execute(sql)
            return done.fetchall() if done.description else []

    @property
    def _server_port(self) -> int:
        return getattr(self._server, "port", 5432)

    def refuse_writes(self) -> None:
        self.query("ALTER SYSTEM SET default_transaction_read_only = on")
        self.query("SELECT pg_reload_conf()")

    def allow_writes(self) -> None:
        self.query("ALTER SYSTEM RESET default_transaction_read_only")
        self.query("SELECT pg_reload_conf()")
        # A session of this test may open before the setting has reached it.
        while self.query("SHOW default_transaction_read_only") != [("off",)]:
            time.sleep(0.02)

    def start(self) -> None:
        if self._server.process is None:
            self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def remove(self) -> None:
        self._server.remove()


class OwnMariaDB(OwnServer):
    FLUSH = 0
    """What becomes of the log at a commit: 0 waits, 2 outlives the server, 1 the machine."""

    def __init__(self) -> None:
        binary = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/libexec")
        install = shutil.which("mariadb-install-db")
        if binary is None or install is None:
            raise Unavailable("no mariadbd or mariadb-install-db is installed")
        self._process: subprocess.Popen[bytes] | None = None
        self._environ: dict[str, str] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="sqlqueue-mariadb-"))
        self._socket = self._folder / "socket"
        account = ["--user=root"] if os.geteuid() == 0 else []
        # No file of the machine's own server is read, and none deleted: one that starts clears
        # its folder for temporary tables, whosever they are.
        self._command = [
            binary, "--no-defaults", f"--datadir={self._folder / 'data'}",
            f"--socket={self._socket}", f"--pid-file={self._folder / 'pid'}",
            f"--tmpdir={self._folder}",
            "--skip-networking", f"--innodb-flush-log-at-trx-commit={self.FLUSH}",
            "--innodb-buffer-pool-size=32M", *account,
        ]  # fmt: skip
        made = subprocess.run(
            [install, "--no-defaults", f"--datadir={self._folder / 'data'}", *account,
             "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "TMPDIR": str(self._folder)},
        )  # fmt: skip
        if made.returncode:
            self.remove()
            raise Unavailable(f"mariadb-install-db failed: {made.stderr[-500:]}")
        self.start()
        self._ask("CREATE DATABASE own CHARACTER SET utf8mb4", "mysql")
        # No administrator: those may write while the server is read-only.
        self._ask("CREATE USER worker@localhost", "mysql")
        self._ask("GRANT ALL ON own.* TO worker@localhost", "mysql")

    def environ(self) -> dict[str, str]:
        url = f"mysql://worker@localhost/own?unix_socket={self._socket}"
        return {"DATABASE_URL": url, "TEST_DATABASE_NAMES": "{}"}

    def query(self, sql: str) -> list[Any]:
        return self._ask(sql, "own")

    def _ask(self, sql: str, database: str) -> list[Any]:
        import MySQLdb

        own = MySQLdb.connect(user="root", unix_socket=str(self._socket), database=database)
        with closing(own), own.cursor() as cursor:
            own.autocommit(True)
            cursor.execute(sql)
            return list(cursor.fetchall())

    def refuse_writes(self) -> None:
        self._ask("SET GLOBAL read_only = ON", "mysql")

    def allow_writes(self) -> None:
        self._ask("SET GLOBAL read_only = OFF", "mysql")

    def start(self) -> None:
        import MySQLdb

        if self._process is not None and self._process.poll() is None:
            return
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **self._environ},
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while True:
            try:
                self._ask("SELECT 1", "mysql")
            except MySQLdb.OperationalError:
                if self._process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                log_text = (self._folder / "log").read_text(errors="replace")[-2000:]
                self.remove()
                raise Unavailable(f"mariadbd did not start: {log_text}") from None
            return

    def stop(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
            return
        process.kill()
        process.wait(30)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


OWN_SERVERS: dict[str, type[OwnServer]] = {"postgresql": OwnPostgres, "mysql": OwnMariaDB}


def own_server() -> OwnServer:
    """Start a server of the engine under test; Unavailable says why there is none."""
    if connection.vendor not in OWN_SERVERS:
        raise Unavailable("SQLite has no server that could be away")
    server = OWN_SERVERS[connection.vendor]()
    server.migrate()
    return server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
