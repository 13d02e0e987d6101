"""The audit sees what should not have become of a job, and what should not have been refused."""

from typing import Any

import pytest

from tests.storm.forging import History

KEYED: dict[str, Any] = {"kind": "storm.keyed", "key": "k"}
IN_ROW: dict[str, Any] = {"kind": "storm.keyed", "dedup_key": "k"}


@pytest.fixture
def history() -> History:
    return History()


def failed_job(history: History, end: str | None, **columns: Any) -> None:
    """A job whose last run ended so, and that failed."""
    history.announce("a")
    history.claim(1, 1)
    history.run(1, 1, "a", end)
    history.settle(1, 1, "abandon", status="failed")
    history.row(1, "a", status="failed", **{"last_error": "ValueError", **columns})


@pytest.mark.parametrize(
    ("end", "columns"),
    [
        ("Abandon", {}),
        ("SystemExit", {}),
        ("ValueError", {"attempts": 5}),
        (None, {"attempts": 5, "last_error": "lease_expired"}),
        # Its worker died before it could say so.
        ("return", {"attempts": 5, "last_error": "lease_expired"}),
    ],
)
def test_a_failure_that_its_handler_wanted_or_that_was_the_last_attempt_is_none(
    history, end, columns
):
    failed_job(history, end, **columns)
    assert history.rules_broken() == set()


@pytest.mark.parametrize(
    ("end", "columns"),
    [
        ("ValueError", {"attempts": 4}),
        (None, {"last_error": "lease_expired"}),
        ("return", {"attempts": 5}),
        (None, {"attempts": 5, "last_error": "no_handler"}),
    ],
)
def test_a_failure_with_attempts_left_or_after_a_success_is_a_breach(history, end, columns):
    failed_job(history, end, **columns)
    assert history.rules_broken() == {"outcome"}


@pytest.mark.parametrize("kind", ["storm.atomic", "storm.still"])
def test_a_job_fails_though_its_handler_returned_where_its_completion_was_refused(history, kind):
    columns = {"attempts": 5, "kind": kind, "last_error": "OperationalError"}
    failed_job(history, "return", **columns)
    assert history.rules_broken() == set()


def test_a_job_that_nobody_cancelled_is_not_cancelled(history):
    row = history.good_job()
    row["status"] = "cancelled"
    assert history.rules_broken() == {"cancel"}
    history.write("cancelling", ids=[1])
    assert history.rules_broken() == set()


def test_a_job_that_was_asked_to_stop_is_cancelled(history):
    row = history.good_job()
    history.write("cancelling", ids=[1])
    assert history.rules_broken() == set(), "it had ended before it could be asked"
    row["cancel_requested_at"] = "12:00"
    assert history.rules_broken() == {"cancel"}


def test_a_done_job_without_its_result_is_a_breach(history):
    history.good_job()["result"] = None
    assert history.rules_broken() == {"result"}


def test_what_an_unfinished_transaction_left_is_a_breach(history):
    history.tables.scratch.append("by hand 1 1")
    assert history.rules_broken() == {"scratch"}


def tick(history: History, number: int, occurrence: str, move: str = "complete") -> None:
    history.claim(1, number)
    history.run(1, number, "tick", kind="storm.tick", occurrence=occurrence)
    history.settle(1, number, move, status="ready")


@pytest.mark.parametrize(("move", "rules"), [("complete", {"schedule"}), ("retry", set())])
def test_an_occurrence_that_completed_does_not_run_again(history, move, rules):
    tick(history, 1, "12:00", move)
    tick(history, 2, "12:00")
    tick(history, 3, "12:01")
    assert history.rules_broken() == rules


@pytest.mark.parametrize("statuses", [[], ["done"], ["ready", "ready"]])
def test_a_schedule_that_is_not_there_once_and_ready_when_all_is_quiet_is_a_breach(
    history, statuses
):
    tick(history, 1, "12:00")
    history.write("quiet", live=0)
    for job, status in enumerate(statuses):
        history.row(job + 1, f"tick {job}", status, name="storm.tick", claims=1)
    assert "schedule" in history.rules_broken()


def test_a_schedule_that_stood_still_is_a_breach(history):
    history.row(1, "tick", "ready", name="storm.tick", claims=2)
    tick(history, 1, "12:00")
    history.write("quiet", live=0)
    assert history.rules_broken() == set()
    history.wait(60)
    tick(history, 2, "12:01")
    history.write("quiet", live=0)
    assert history.rules_broken() == {"schedule"}


def keyed_job(history: History, job: int, token: str) -> None:
    """A job with a key that lived and was done."""
    history.announce(token, **KEYED)
    history.claim(job, 1)
    history.run(job, 1, token, kind="storm.keyed")
    history.settle(job, 1)
    history.row(job, token, **IN_ROW)


def test_a_job_is_refused_only_while_another_with_its_key_lives(history):
    history.write("intent", txn="b", marked=True, jobs=[["b", "storm.keyed", "k", None]])
    keyed_job(history, 1, "a")
    history.write("commit", txn="b", absent=["b"])
    assert history.rules_broken() == set()
    history.announce("c", absent=["c"], **KEYED)
    assert history.rules_broken() == {"refused"}


def test_a_job_of_another_key_or_that_was_refused_itself_is_no_twin(history):
    history.announce("a", absent=["a"], **KEYED)
    history.announce("b", absent=["b"], **KEYED)
    history.announce("c", kind="storm.keyed", key="another")
    history.row(3, "c", "cancelled", kind="storm.keyed", dedup_key="another")
    history.write("cancelling", ids=[3])
    assert history.rules_broken() == {"refused"}


def test_a_twin_of_which_it_is_not_known_when_it_ended_may_have_lived(history):
    history.announce("a", **KEYED)
    history.write("cancelling", ids=[1])
    history.row(1, "a", "cancelled", **IN_ROW)
    history.announce("b", absent=["b"], **KEYED)
    assert history.rules_broken() == set()


def test_what_is_missing_of_a_transaction_that_died_had_a_twin_too(history):
    history.announce("a", "killed", **KEYED)
    assert history.rules_broken() == set()
    history.tables.markers.add("a")
    assert history.rules_broken() == {"refused"}


@pytest.mark.parametrize(("refused", "rules"), [(1, set()), (2, {"refused"})])
def test_as_many_are_missing_as_were_said_to_be_refused(history, refused, rules):
    history.announce("a", refused=refused, doubtful=["a", "b"], **KEYED)
    history.records[-2]["jobs"].append(["b", "storm.keyed", "k", None])
    history.claim(1, 1)
    history.run(1, 1, "a", kind="storm.keyed")
    history.settle(1, 1)
    history.row(1, "a", **IN_ROW)
    assert history.rules_broken() == rules


@pytest.mark.parametrize(
    ("error", "rules"),
    [("OperationalError", set()), ("IntegrityError", {"error"}), ("ProgrammingError", {"error"})],
)
def test_nobody_sees_an_error_but_those_of_a_database_in_trouble(history, error, rules):
    history.write("operator", verb="cancel", moved=3)
    history.announce("a", "unknown", error=error)
    assert history.rules_broken() == rules
    history.records.pop()
    history.write("operator", verb="requeue", error=error)
    assert history.rules_broken() == rules


@pytest.mark.parametrize("name", ["database killed", "long writer"])
def test_errors_that_no_fault_of_the_database_explains_are_a_breach(history, name):
    for number in range(11):
        history.announce(str(number), "unknown", error="OperationalError")
    assert history.rules_broken() == {"error"}
    history.write("fault", name=name, moves_leases=False)
    assert history.rules_broken() == set()


def test_two_jobs_of_one_token_are_a_breach(history):
    history.good_job()
    history.good_job(2, "b")
    assert history.rules_broken() == set()
    history.run(3, 1, "b")
    assert history.rules_broken() == {"token"}


def test_a_run_with_the_token_of_another_job_is_a_breach(history):
    for token in ("a", "b"):
        history.announce(token)
    history.run(1, 1, "b")
    history.row(1, "a")
    assert "token" in history.rules_broken()


def test_a_job_that_runs_before_its_delay_is_over_is_a_breach(history):
    history.announce("a", delay=2.0)
    history.run(1, 1, "a")
    history.row(1, "a")
    assert history.rules_broken() == {"early"}
    history.write("hurrying", ids=[1])
    assert history.rules_broken() == set()


def test_a_job_that_waits_or_whose_clock_is_moved_is_not_early(history):
    history.announce("a", delay=2.0)
    history.wait(2)
    history.run(1, 1, "a")
    history.row(1, "a")
    history.announce("b", delay=2.0)
    history.write("fault", name="clock of the host moved", moves_leases=True)
    history.run(2, 1, "b")
    history.row(2, "b")
    assert history.rules_broken() == set()
