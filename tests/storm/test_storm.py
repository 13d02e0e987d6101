"""A short storm over each engine, as part of every test run; `make storm` raises a long one."""

import pytest
from django.db import connection

from tests.processes import spawn_python

pytestmark = pytest.mark.processes

ENGINES = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mariadb"}


def raise_storm(*arguments: str, within: float) -> tuple[int, str]:
    """Return how a storm over the engine under test ended, and what it said."""
    engine = ENGINES[connection.vendor]
    storm = spawn_python("-m", "tests.storm", "--engine", engine, *arguments)
    try:
        code = storm.wait(within)
    finally:
        # It takes down what it has started, if it is asked to.
        storm.terminate()
        storm.popen.wait(30)
    if "skipped: " in storm.output:
        pytest.skip(storm.output)
    return code, storm.output


@pytest.mark.timeout(170)
def test_nothing_is_lost_in_a_short_storm():
    code, said = raise_storm(
        "--seed", "4", "--seconds", "12", "--jobs", "600", "--kills", "10", "--others", "0.5",
        "--lease", "2", within=130,
    )  # fmt: skip
    assert code == 0, said
    assert "\n10 kills" in said
