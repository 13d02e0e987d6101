"""Database servers on a host of a network of their own; this process asks them by a Unix socket."""

from __future__ import annotations

import ctypes
import signal

from tests.servers import PostgresServer
from tests.storm.hosts import NETWORK, Host
from tests.storm.servers import StormMariaDB, StormPostgres

PORT = 3306
PR_SET_PDEATHSIG = 1
LISTENS = ("--tcp-keepalive-time=5", "--tcp-keepalive-interval=5", "--tcp-keepalive-probes=2")
RETRIES = "echo 6 > /proc/sys/net/ipv4/tcp_retries2"
"""As the README advises, so that the server finds out that a client is gone: the first while it
waits for the client, the second while what it has sent is not answered."""


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class _PostgresOnHost(PostgresServer):
    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self._account["preexec_fn"] = _die_with_parent
        options = [each for each in self.OPTIONS if not each.startswith("listen_addresses")]
        self.OPTIONS = (*options, f"listen_addresses={host.address}")
        with (self.data / "pg_hba.conf").open("a") as access:
            access.write(f"host all all {NETWORK}.0/24 trust\n")

    def start(self, timeout: float = 60) -> None:
        with self._host.entered():
            super().start(timeout)


class HostedPostgres(StormPostgres):
    def __init__(self, host: Host) -> None:
        super().__init__(_PostgresOnHost(host))
        self._host = host

    def environ_elsewhere(self) -> dict[str, str]:
        """Return the environment of a process on another host."""
        return {**self.environ(), "DATABASE_URL": f"postgres://postgres@{self._host.address}/own"}


class HostedMariaDB(StormMariaDB):
    def __init__(self, host: Host) -> None:
        self._host = host
        super().__init__()
        self._ask(f"CREATE USER worker@'{NETWORK}.%'", "mysql")
        self._ask(f"GRANT ALL ON own.* TO worker@'{NETWORK}.%'", "mysql")

    def start(self) -> None:
        if "--skip-networking" in self._command:
            self._command.remove("--skip-networking")
            self._command[:0] = ["setpriv", "--pdeathsig", "KILL"]
            self._command += [f"--bind-address={self._host.address}", f"--port={PORT}", *LISTENS]
            self._host.run("sh", "-c", RETRIES)
        with self._host.entered():
            super().start()

    def environ_elsewhere(self) -> dict[str, str]:
        url = f"mysql://worker@{self._host.address}:{PORT}/own"
        return {**self.environ(), "DATABASE_URL": url}


HOSTED: dict[str, type[HostedPostgres | HostedMariaDB]] = {
    "postgresql": HostedPostgres, "mysql": HostedMariaDB,
}  # fmt: skip
