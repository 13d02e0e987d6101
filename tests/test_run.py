"""The runner's decisions: what it runs, how it tells the end, when it fails."""

from pathlib import Path

import pytest

from tests.run import (
    FAILED,
    PASSED,
    SKIPPED,
    WORKERS,
    Result,
    describe,
    exit_code,
    parse,
    pytest_command,
    summary,
)

GOOD = Result("sqlite", PASSED, "3 passed, 0 failed, 0 skipped on SQLite 3.40.1", 2.0)
BAD = Result("postgresql", FAILED, "2 passed, 1 failed, 0 skipped on PostgreSQL 18.6", 3.0)
MISSING = Result("mariadb", SKIPPED, "no server answers")


@pytest.mark.parametrize(
    ("results", "require_all", "code"),
    [
        ([GOOD], False, 0),
        ([GOOD, MISSING], False, 0),
        ([GOOD, MISSING], True, 1),
        ([GOOD, BAD], False, 1),
        ([MISSING], False, 1),
        ([], False, 1),
    ],
)
def test_exit_code_is_zero_only_when_something_passed_and_nothing_failed(
    results, require_all, code
):
    assert exit_code(results, require_all=require_all) == code


def test_summary_ends_with_what_each_engine_did_and_why_one_was_skipped():
    assert summary([GOOD, BAD, MISSING], require_all=True).splitlines()[-5:] == [
        "sqlite      passed   3 passed, 0 failed, 0 skipped on SQLite 3.40.1 (2 s)",
        "postgresql  failed   2 passed, 1 failed, 0 skipped on PostgreSQL 18.6 (3 s)",
        "mariadb     skipped  no server answers",
        "every engine is required, but skipped: mariadb",
        "engines: 1 passed, 1 failed, 1 skipped",
    ]


def test_a_run_without_tests_is_not_a_good_one(tmp_path):
    assert describe(5, tmp_path / "report.xml") == "no test ran"


def test_a_run_that_broke_off_tells_its_exit_code(tmp_path):
    assert describe(4, tmp_path / "report.xml") == "pytest ended with 4"


def test_errors_count_as_failures(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="9" failures="2" errors="1" skipped="3"/></testsuites>'
    )
    assert describe(1, report) == "3 passed, 3 failed, 3 skipped"


def test_what_the_runner_does_not_know_goes_to_pytest():
    options, rest = parse(["--engines", "mariadb,sqlite", "tests/test_run.py", "-k", "engine"])
    assert options.engines == ["mariadb", "sqlite"]
    assert rest == ["tests/test_run.py", "-k", "engine"]


def test_an_unknown_engine_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        parse(["--engines", "oracle"])
    assert "unknown engine 'oracle'" in capsys.readouterr().err


def test_a_single_test_runs_in_one_process():
    assert "--numprocesses=0" in pytest_command(["tests/test_run.py::test_x"], Path("r.xml"))
    assert f"--numprocesses={WORKERS}" in pytest_command(["tests/test_run.py"], Path("r.xml"))
