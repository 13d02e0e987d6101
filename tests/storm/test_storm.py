"""A short storm over each engine, as part of every test run; `make storm` raises a long one."""

import pytest
from django.db import connection

from tests.processes import spawn_python
from tests.storm.__main__ import SPOILT
from tests.storm.servers import StormMariaDB

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


@pytest.mark.timeout(300)
def test_nothing_is_lost_in_a_short_storm():
    for seed in ("4", "8"):
        code, said = raise_storm(
            "--seed", seed, "--seconds", "12", "--jobs", "600", "--kills", "10", "--others", "0.5",
            "--lease", "2", within=130,
        )  # fmt: skip
        if code != SPOILT:
            break
    assert code == 0, said
    assert "\n10 kills" in said


def test_a_server_that_destroys_its_own_table_spoils_the_storm(tmp_path):
    server = StormMariaDB.__new__(StormMariaDB)
    server._folder = tmp_path
    log = tmp_path / "log"
    log.write_text("ready for connections\n")
    assert server.damage() == ""
    with log.open("a") as more:
        more.write("[ERROR] mariadbd: Index for table 'django_sqlqueue_job' is corrupt\nmore\n")
    assert "django_sqlqueue_job" in server.damage()
    assert server.damage() == "", "it was told"
