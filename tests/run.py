"""Run the tests once for each database engine, and say at the end how each went.

python -m tests.run [--engines sqlite,postgresql,mariadb] [--require-all] [pytest arguments]
python -m tests.run --module NAME [arguments]     runs `python -m NAME` on each engine instead
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import SERVERS, Unavailable

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

# Many tests wait for other processes, so more of them than cores can run side by side.
WORKERS = "8"


@dataclass(frozen=True)
class Result:
    """How one engine's run ended."""

    engine: str
    outcome: str
    detail: str
    seconds: float = 0.0


def main(argv: Sequence[str] | None = None) -> int:
    options, arguments = parse(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _end)
    results = [run_engine(engine, options.module, arguments) for engine in options.engines]
    print(summary(results, require_all=options.require_all), flush=True)
    return exit_code(results, require_all=options.require_all)


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m tests.run",
        description="Run the tests once for each database engine; other arguments go to pytest.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--engines",
        type=_engines,
        default=list(SERVERS),
        help=f"the engines to run on, separated by commas (default: {','.join(SERVERS)})",
    )
    parser.add_argument("--require-all", action="store_true", help="a skipped engine is a failure")
    parser.add_argument("--module", help="run this module instead of pytest")
    return parser.parse_known_args(argv)


def _engines(text: str) -> list[str]:
    names = [name for name in text.replace(",", " ").split() if name]
    if unknown := [name for name in names if name not in SERVERS]:
        raise argparse.ArgumentTypeError(
            f"unknown engine {unknown[0]!r}; there are {', '.join(SERVERS)}"
        )
    return names


def run_engine(engine: str, module: str | None, arguments: Sequence[str]) -> Result:
    print(f"\n=== {engine} ===", flush=True)
    started = time.monotonic()
    # The process id keeps runs apart that share a server.
    name = f"sqlqueue_{os.getpid()}"
    result = None
    try:
        with SERVERS[engine]() as server:
            version = server.version()
            server.create_database(name)
            try:
                outcome, detail = _run(server.url(name), module, arguments)
                seconds = time.monotonic() - started
                result = Result(engine, outcome, f"{detail} on {version}", seconds)
            finally:
                server.drop_databases(name)
    except Unavailable as error:
        # A server that is lost only now does not hide how the tests ended.
        return result or Result(engine, SKIPPED, str(error))
    return result


def _run(url: str, module: str | None, arguments: Sequence[str]) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="sqlqueue-tests-") as folder:
        environ = {
            **os.environ,
            "DATABASE_URL": url,
            "TEST_FOLDER": folder,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
        }
        # Where this is set, each of some hundred processes would compile the project anew.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if module is not None:
            command = [sys.executable, "-m", module, *arguments]
            code = subprocess.run(command, env=environ, check=False).returncode
            return (PASSED if code == 0 else FAILED), f"{module} ended with {code}"
        report = Path(folder) / "report.xml"
        command = pytest_command(arguments, report)
        code = subprocess.run(command, env=environ, check=False).returncode
        return (PASSED if code == 0 else FAILED), describe(code, report)


def pytest_command(arguments: Sequence[str], report: Path) -> list[str]:
    # A single test needs one process, and one database, only.
    workers = "0" if any("::" in argument for argument in arguments) else WORKERS
    return [
        sys.executable,
        "-m",
        "pytest",
        f"--junit-xml={report}",
        f"--numprocesses={workers}",
        "--dist=worksteal",
        *arguments,
    ]


def describe(code: int, report: Path) -> str:
    """The counts of a pytest run; also why it failed, where the counts do not tell."""
    if code == 5:
        return "no test ran"
    if code not in (0, 1) or not report.exists():
        return f"pytest ended with {code}"
    suites: Any = ElementTree.parse(report).getroot().iter("testsuite")
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        for key in counts:
            counts[key] += int(suite.get(key, 0))
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return f"{passed} passed, {failed} failed, {counts['skipped']} skipped"


def summary(results: Sequence[Result], *, require_all: bool = False) -> str:
    """A line for each engine, and a last one that counts them."""
    lines = ["", "=== engines ==="]
    for result in results:
        took = f" ({result.seconds:.0f} s)" if result.seconds else ""
        lines.append(f"{result.engine:<11} {result.outcome:<8} {result.detail}{took}")
    skipped = [result.engine for result in results if result.outcome == SKIPPED]
    if skipped and require_all:
        lines.append(f"every engine is required, but skipped: {', '.join(skipped)}")
    tally = ", ".join(
        f"{sum(result.outcome == outcome for result in results)} {outcome}"
        for outcome in (PASSED, FAILED, SKIPPED)
    )
    return "\n".join([*lines, f"engines: {tally}"])


def exit_code(results: Sequence[Result], *, require_all: bool = False) -> int:
    outcomes = {result.outcome for result in results}
    if FAILED in outcomes or PASSED not in outcomes:
        return 1
    return int(require_all and SKIPPED in outcomes)


def _end(signum: int, frame: object) -> None:
    """Leave through the context managers, which stop what was started."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
