"""The audit sees each kind of breach, and none where there is none."""

import pytest

from tests.storm import journal
from tests.storm.audit import RULES, audit
from tests.storm.faults import KILLS
from tests.storm.forging import LEASE, SECOND, History
from tests.storm.planning import FAULTS, Force, plan

NOTHING: dict[str, list[int]] = {
    "twins": [], "overspent": [], "unleased": [], "too_long": [], "long_over": [],
}  # fmt: skip
"""What a sample shows while all is well."""


@pytest.fixture
def history() -> History:
    return History()


def test_a_job_that_ran_once_is_no_breach_and_is_checked(history):
    history.good_job()
    report = audit(history.records, history.tables)
    assert report.breaches == []
    assert report.checked["done_jobs_ran_to_their_end"] == 1
    assert report.checked["committed_jobs_are_settled"] == 1
    assert set(report.checked) == {rule.__name__ for rule in RULES}


def test_a_committed_job_without_a_row_is_lost(history):
    history.announce("a")
    assert history.rules_broken() == {"lost"}


def test_a_committed_job_that_is_not_settled_is_lost(history):
    history.announce("a")
    history.row(1, "a", status="ready", claims=0)
    assert "lost" in history.rules_broken()


def test_what_an_operator_deleted_is_not_lost(history):
    history.announce("a")
    history.write("removing", ids=[1], tokens=["a"])
    assert history.rules_broken() == set()


def test_a_job_that_a_cleanup_deleted_is_judged_by_what_was_written_down(history):
    row = history.good_job()
    history.tables.jobs.clear()
    history.write("archived", rows=[row])
    assert history.rules_broken() == set()
    history.write("archived", rows=[{**row, "status": "ready"}])
    assert history.rules_broken() == {"lost"}


def test_a_rolled_back_job_that_has_a_row_or_ran_is_a_ghost(history):
    history.announce("a", "rollback")
    history.write("cancelling", ids=[1])
    history.row(1, "a", status="cancelled")
    history.announce("b", "rollback")
    history.run(2, 1, "b")
    assert history.rules_broken() == {"ghost"}


def test_a_transaction_that_died_is_judged_by_the_row_it_wrote_beside_its_jobs(history):
    history.announce("a", "killed")
    assert history.rules_broken() == set()
    history.tables.markers.add("a")
    assert history.rules_broken() == {"lost"}


def test_a_commit_without_an_answer_may_be_either(history):
    history.write("intent", txn="a", marked=False, jobs=[["a", "storm.quick", None, None]])
    history.write("unknown", txn="a")
    assert history.rules_broken() == set()
    history.row(1, "a", status="ready", claims=0)
    assert "lost" in history.rules_broken()


def test_a_run_that_nobody_announced_is_a_ghost(history):
    history.run(1, 1, "nobody's")
    assert history.rules_broken() == {"ghost"}


@pytest.mark.parametrize("end", [None, "ValueError"])
def test_a_done_job_whose_run_did_not_end_is_a_breach(history, end):
    history.announce("a")
    history.claim(1, 1)
    history.run(1, 1, "a", end)
    history.settle(1, 1)
    history.row(1, "a")
    assert history.rules_broken() == {"unrun"}


def test_a_done_job_that_never_ran_is_a_breach(history):
    history.announce("a")
    history.row(1, "a")
    assert history.rules_broken() == {"unrun"}


def test_a_run_of_an_earlier_claim_does_not_count(history):
    history.announce("a")
    history.run(1, 1, "a")
    history.row(1, "a", claims=2)
    assert history.rules_broken() == {"unrun"}


@pytest.mark.parametrize("number", [0, 2])
def test_an_effect_is_there_once_where_the_job_is_done(history, number):
    history.good_job(kind="storm.atomic")
    history.tables.entries += [{"token": "a", "claims": 1}]
    assert history.rules_broken() == set()
    history.tables.entries[:] = [{"token": "a", "claims": 1}] * number
    assert history.rules_broken() == {"effect"}


def test_an_effect_of_a_job_that_is_not_done_is_a_breach(history):
    history.announce("a", kind="storm.atomic")
    spent = {"attempts": 5, "last_error": "lease_expired"}
    history.row(1, "a", status="failed", kind="storm.atomic", **spent)
    history.tables.entries += [{"token": "a", "claims": 1}]
    assert history.rules_broken() == {"effect"}


def test_an_effect_of_another_claim_than_the_last_is_a_breach(history):
    history.good_job(kind="storm.atomic")
    history.tables.entries += [{"token": "a", "claims": 2}]
    assert history.rules_broken() == {"effect"}


def test_an_atomic_job_that_completed_though_asked_to_stop_has_its_effect(history):
    row = history.good_job(kind="storm.atomic")
    history.write("cancelling", ids=[1])
    row["status"] = "cancelled"
    history.tables.entries += [{"token": "a", "claims": 1}]
    assert history.rules_broken() == set()


@pytest.mark.parametrize(
    ("sample", "rule"),
    [
        ({"twins": [["storm.keyed", "key", 2]]}, "twins"),
        ({"overspent": [1]}, "budget"),
        ({"unleased": [1]}, "stuck"),
        ({"too_long": [1]}, "lease"),
        ({"long_over": [1]}, "lease"),
    ],
)
def test_what_a_sample_shows_is_a_breach(history, sample, rule):
    history.write("sample", **NOTHING)
    assert history.rules_broken() == set()
    history.write("sample", **{**NOTHING, **sample})
    assert history.rules_broken() == {rule}


def test_a_claim_that_was_given_twice_is_a_breach(history):
    history.good_job()
    history.claim(1, 1, SECOND)
    assert "claim" in history.rules_broken()


def test_a_claim_that_ran_twice_is_a_breach(history):
    history.good_job()
    history.run(1, 1, "a", who=SECOND)
    assert "claim" in history.rules_broken()


def test_a_row_that_counts_fewer_claims_than_were_given_is_a_breach(history):
    history.good_job()["claims"] = 0
    assert "claim" in history.rules_broken()


def test_a_claim_that_was_ended_twice_is_a_breach(history):
    history.good_job()
    history.settle(1, 1)
    assert history.rules_broken() == {"fence"}


def test_of_several_claims_of_a_job_in_one_call_the_newest_was_ended(history):
    history.good_job()
    history.records = [r for r in history.records if r["what"] not in ("settling", "settled")]
    history.wait(LEASE)
    history.settle(1, 1, "reclaim", SECOND, "ready")
    history.claim(1, 2)
    history.run(1, 2, "a")
    history.settle(1, 2)
    history.tables.jobs[0] |= {"claims": 2, "result": {"claims": 2}}
    history.records[-2]["ends"] += [[1, 1, "complete"]]
    assert history.rules_broken() == set()


def test_an_end_that_the_table_refused_is_none(history):
    history.good_job()
    history.settle(1, 1, status=None)
    assert history.rules_broken() == set()


def test_a_claim_that_was_ended_after_a_later_one_was_given_is_a_breach(history):
    history.announce("a")
    history.claim(1, 1)
    history.settle(1, 1, "reclaim", SECOND, "ready")
    history.wait(LEASE)
    history.claim(1, 2, SECOND)
    history.run(1, 2, "a", who=SECOND)
    history.settle(1, 2, who=SECOND)
    history.row(1, "a", claims=2)
    assert history.rules_broken() == set()
    history.records = [r for r in history.records if "reclaim" not in str(r.get("ends"))]
    history.settle(1, 1)
    assert history.rules_broken() == {"fence"}


@pytest.mark.parametrize(
    ("end", "columns"),
    [
        ("return", {"status": "done", "result": {"claims": 1}, "claims": 2}),
        ("Abandon", {"status": "failed", "last_error": "asked by claim 1", "claims": 2}),
    ],
)
def test_a_row_that_holds_what_an_earlier_claim_left_is_a_breach(history, end, columns):
    history.announce("a")
    history.run(1, 2, "a", end)
    history.row(1, "a", **columns)
    assert history.rules_broken() == {"fence"}


@pytest.mark.parametrize("attempt", [0, 6])
def test_a_run_that_is_not_counted_or_beyond_the_budget_is_a_breach(history, attempt):
    history.announce("a")
    history.run(1, 1, "a", attempt=attempt)
    history.row(1, "a")
    assert history.rules_broken() == {"budget"}


def test_more_runs_than_the_budget_are_a_breach_unless_given_back_or_requeued(history):
    history.announce("a")
    for number in (1, 2, 3):
        history.run(1, number, "a", most=2)
    history.row(1, "a", claims=3)
    assert history.rules_broken() == {"budget"}
    history.settle(1, 2, "defer", status="ready")
    assert history.rules_broken() == set()
    history.records.pop()
    history.records.pop()
    history.write("requeueing", ids=[1])
    assert history.rules_broken() == set()


def test_a_row_with_more_attempts_than_it_may_have_is_a_breach(history):
    history.good_job()["attempts"] = 6
    assert history.rules_broken() == {"budget"}


def two_claims(history: History, seconds: float) -> None:
    """Two claims, so many seconds apart, of which the first runner lives all the while."""
    history.announce("a")
    history.claim(1, 1)
    history.wait(seconds)
    history.claim(1, 2, SECOND)
    history.run(1, 2, "a", who=SECOND)
    history.settle(1, 2, who=SECOND)
    history.row(1, "a", claims=2)
    history.write("renewed", began=0.0, lease=LEASE, claims=[], left=[])


def test_a_claim_of_a_job_whose_lease_held_is_a_breach(history):
    two_claims(history, 1)
    assert history.rules_broken() == {"lease"}


def test_a_claim_of_a_job_whose_lease_was_over_is_none(history):
    two_claims(history, LEASE + 1)
    assert history.rules_broken() == set()


def test_renewals_let_a_lease_hold_on(history):
    two_claims(history, LEASE + 1)
    for began, rules in ((1.0, set()), (3.0, {"lease"})):
        record = history.write("renewed", began=began, lease=LEASE, claims=[[1, 1]], left=[])
        record["at"] = began
        history.records.sort(key=lambda record: record["at"])
        assert history.rules_broken() == rules


def test_a_claim_that_a_renewal_leaves_as_it_was_is_a_breach_where_no_row_is_locked(history):
    history.good_job()
    history.write("renewed", began=0.0, lease=LEASE, claims=[], left=[[1, 1]])
    assert history.rules_broken() == set(), "another may have locked the row"
    history.records[0]["engine"] = "sqlite"
    assert history.rules_broken() == {"renewal"}
    history.records[2:2] = [{"what": "fault", "moves_leases": True, "at": 0.2, "who": "0"}]
    assert history.rules_broken() == set(), "its clock was moved since it was given"


def test_renewals_of_which_most_change_nothing_are_a_breach(history):
    history.good_job()
    for _ in range(11):
        history.write("renewed", began=0.0, lease=LEASE, claims=[], left=[[1, 2]])
    assert history.rules_broken() == {"renewal"}


def test_one_renewal_amid_the_settlement_of_hundreds_is_no_breach(history):
    history.good_job()
    left = [[job, 1] for job in range(2, 300)]
    history.write("settling", call="1", ends=[[*claim, "complete"] for claim in left])
    began = history.write("renewed", lease=LEASE, claims=[], left=left)["at"]
    history.records[-1]["began"] = began
    assert "renewal" not in history.rules_broken()
    history.records[-1]["left"] = [[job, 2] for job, _ in left]
    assert "renewal" in history.rules_broken()


def test_a_claim_that_another_runner_has_ended_is_a_breach(history):
    history.announce("a")
    history.claim(1, 1)
    history.run(1, 1, "a")
    history.settle(1, 1, "reset", who=SECOND, status="ready")
    history.claim(1, 2)
    history.run(1, 2, "a")
    history.settle(1, 2)
    history.row(1, "a", claims=2)
    assert "fence" in history.rules_broken()


def test_a_lease_that_lasts_too_long_is_none_where_clocks_are_moved(history):
    history.write("fault", moves_leases=True)
    history.write("sample", **{**NOTHING, "too_long": [1]})
    assert history.rules_broken() == set()


def test_a_lease_does_not_bind_where_clocks_are_moved_or_the_runner_is_dead(history):
    two_claims(history, 1)
    last = history.records.pop()
    assert history.rules_broken() == set(), "nothing shows that the runner lived"
    history.records.append(last)
    history.records[1:1] = [{"what": "fault", "moves_leases": True, "at": 0.0, "who": "0"}]
    assert history.rules_broken() == set()


def test_a_sweep_that_took_a_lease_which_held_is_a_breach(history):
    history.good_job()
    history.records = [r for r in history.records if r["what"] not in ("settling", "settled")]
    history.settle(1, 1, "reclaim", SECOND, "ready")
    history.write("renewed", began=0.0, lease=LEASE, claims=[], left=[])
    assert history.rules_broken() == {"lease"}


@pytest.mark.parametrize("status", ["running", "ready", "strange"])
def test_whatever_is_not_settled_when_all_is_quiet_is_a_breach(history, status):
    history.row(1, "a", status=status)
    assert history.rules_broken() == {"stuck"}


def test_a_schedule_may_wait_but_not_run(history):
    row = history.row(1, "tick", status="ready", name="storm.tick")
    assert history.rules_broken() == set()
    row["status"] = "running"
    assert history.rules_broken() == {"stuck"}


def test_a_failure_without_a_reason_is_a_breach(history):
    history.announce("a")
    history.row(1, "a", status="failed", attempts=5)
    assert history.rules_broken() == {"reason"}


def test_a_claim_that_left_no_attempt_is_a_breach_where_all_are_kept():
    history = History(history="all")
    history.good_job()
    assert history.rules_broken() == {"history"}
    history.tables.attempts.append({"job_id": 1, "number": 1, "outcome": "done"})
    assert history.rules_broken() == set()


def test_the_journal_gives_back_whole_lines_only(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_path", str(tmp_path / "journal"))
    journal.write("first", n=1)
    with (tmp_path / "journal").open("a") as torn:
        torn.write('\n{"what": "torn", "at"')
    journal.write("second", n=2)
    records = journal.read(tmp_path / "journal")
    assert [(record["what"], record["n"]) for record in records] == [("first", 1), ("second", 2)]


def test_the_same_seed_plans_the_same_faults():
    force = Force(seconds=60, kills=40, others=1, lease=3, database=0.3)
    for engine in ("sqlite", "postgresql", "mariadb"):
        events = plan(7, engine, force)
        assert events == plan(7, engine, force)
        assert events != plan(8, engine, force)
        assert {event.fault for event in events} <= set(FAULTS)
        kills = [event for event in events if FAULTS[event.fault] in KILLS]
        assert len(kills) == 40
