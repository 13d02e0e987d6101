"""What the benchmarks share: databases with fresh tables, medians, and lines with a demand."""

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command
from django.db import connection, connections

KIND = "testapp.noop"


def make_tables(alias: str = "default") -> None:
    call_command("migrate", verbosity=0, database=alias)
    empty_table(alias)


def empty_table(alias: str = "default") -> None:
    with connections[alias].cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("TRUNCATE django_sqlqueue_job RESTART IDENTITY CASCADE")
        elif connection.vendor == "mysql":
            cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
            cursor.execute("TRUNCATE django_sqlqueue_job")
            cursor.execute("SET FOREIGN_KEY_CHECKS = 1")
        else:
            cursor.execute("DELETE FROM django_sqlqueue_job")


@contextmanager
def another_database(alias: str) -> Iterator[None]:
    """A second database on the same server, under this alias, dropped at the end."""
    settings = connections.settings[alias] = {**connections.settings["default"]}
    # The name under which the test runner finds it and drops it, should this process be killed.
    own = Path(str(settings["NAME"]))
    name = settings["NAME"] = str(own.with_name(f"test_{own.stem}_{alias}{own.suffix}"))
    _drop(name)
    if connection.vendor != "sqlite":
        _administer(f"CREATE DATABASE {connection.ops.quote_name(name)}")
    try:
        make_tables(alias)
        yield
    finally:
        connections[alias].close()
        _drop(name)


def _drop(name: str) -> None:
    if connection.vendor == "sqlite":
        for suffix in ("", "-wal", "-shm"):
            Path(name + suffix).unlink(missing_ok=True)
    else:
        _administer(f"DROP DATABASE IF EXISTS {connection.ops.quote_name(name)}")


def _administer(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)


def seconds_of(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def interleaved(rounds: int, contenders: Sequence[Callable[[], float]]) -> list[float]:
    """Call each in turn, `rounds` times; return the median of what each returned.

    The machine's other work then weighs on all of them alike.
    """
    return [statistics.median(found) for found in turns(rounds, contenders)]


def turns(rounds: int, contenders: Sequence[Callable[[], float]]) -> list[list[float]]:
    """Call each in turn, `rounds` times; return all that each returned."""
    samples: list[list[float]] = [[] for _ in contenders]
    for _ in range(rounds):
        for found, contender in zip(samples, contenders, strict=True):
            found.append(contender())
    return samples


class Report:
    """Prints a line for each figure, and remembers whether one misses what is demanded of it."""

    def __init__(self, title: str) -> None:
        self.missed: list[str] = []
        print(f"{title}\n{machine()}", flush=True)

    def line(self, name: str, figure: str, demand: str = "", met: bool = True) -> None:
        verdict = f"{demand:<28} {'ok' if met else 'MISSED'}" if demand else ""
        print(f"  {name:<48} {figure:>34}   {verdict}".rstrip(), flush=True)
        if not met:
            self.missed.append(name)

    def exit_code(self) -> int:
        for name in self.missed:
            print(f"missed: {name}", file=sys.stderr)
        return int(bool(self.missed))


def machine() -> str:
    """Say in a line what this ran on, as the figures mean nothing without it."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"  {server()}; Python {platform.python_version()}, Django {django.get_version()};"
        f" {_processor()}, {os.cpu_count()} cores, load {load}"
    )


def server() -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT sqlite_version()")
            return f"SQLite {cursor.fetchone()[0]} (WAL, synchronous=NORMAL)"
        if connection.vendor == "mysql":
            cursor.execute("SELECT VERSION(), @@innodb_flush_log_at_trx_commit")
            version, flush = cursor.fetchone()
            return f"MariaDB {version.split('-')[0]} (innodb_flush_log_at_trx_commit={flush})"
        cursor.execute("SELECT current_setting('server_version'), current_setting('fsync')")
        version, fsync = cursor.fetchone()
        return f"PostgreSQL {version.split()[0]} (fsync={fsync})"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
