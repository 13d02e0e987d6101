"""The table of moves: it is whole, and the README prints the same one."""

from pathlib import Path

from django.test import SimpleTestCase

from django_sqlqueue.lifecycle import (
    FAILED,
    LIVE,
    MOVES,
    OUTCOMES,
    READY,
    RUNNING,
    SETTLED,
    STATUSES,
    Move,
)

README = Path(__file__).resolve().parent.parent / "README.md"

CHANGES = {"": "", "+1": "+1 (and claims +1)", "-1": "−1", "=0": "=0"}


def moves_table() -> str:
    """Return the moves as the README prints them."""
    head = ["| move | from → to | attempts | guard |", "|---|---|---|---|"]
    return "\n".join([*head, *map(row, MOVES.values())]) + "\n"


def row(move: Move) -> str:
    path = f"{' or '.join(move.sources)} → {' or '.join(move.targets)}"
    return f"| {move.name} | {path} | {CHANGES[move.attempts]} | {move.guard} |"


class MovesTests(SimpleTestCase):
    def test_the_readme_prints_the_table_of_the_code(self):
        section = README.read_text().partition("\n## The life of a job\n")[2].partition("\n## ")[0]
        self.assertIn(moves_table(), section)

    def test_a_status_is_either_live_or_settled(self):
        self.assertEqual(sorted(STATUSES), sorted({*LIVE, *SETTLED}))
        self.assertFalse(set(LIVE) & set(SETTLED))

    def test_moves_name_known_statuses_and_outcomes(self):
        for move in MOVES.values():
            with self.subTest(move.name):
                self.assertLessEqual({*move.sources, *move.targets}, set(STATUSES))
                self.assertIn(move.outcome, ("", *OUTCOMES))

    def test_only_a_claim_leads_from_ready_to_running(self):
        starting = [m.name for m in MOVES.values() if READY in m.sources and RUNNING in m.targets]
        # A cancelled job that runs stays running until it stops: its target from running.
        self.assertEqual(starting, ["claim", "cancel"])

    def test_only_requeue_leaves_a_settled_status(self):
        leaving = [move.name for move in MOVES.values() if set(move.sources) & set(SETTLED)]
        self.assertEqual(leaving, ["requeue"])

    def test_every_move_into_failed_needs_the_attempts_spent_or_the_claim(self):
        failing = {move.name for move in MOVES.values() if FAILED in move.targets}
        self.assertEqual(failing, {"abandon", "expire", "reset"})

    def test_every_status_can_be_reached_and_live_ones_left(self):
        reached = {target for move in MOVES.values() for target in move.targets}
        left = {source for move in MOVES.values() for source in move.sources}
        self.assertEqual(reached, set(STATUSES))
        self.assertLessEqual(set(LIVE), left)
