"""A short storm over each engine, as part of every test run; `make storm` raises a long one."""

import pytest
from django.db import connection

from tests.processes import spawn_python
from tests.storm.test_mutations import ENGINES

pytestmark = pytest.mark.processes


@pytest.mark.timeout(170)
def test_nothing_is_lost_in_a_short_storm():
    storm = spawn_python(
        "-m", "tests.storm", "--engine", ENGINES[connection.vendor], "--seed", "4",
        "--seconds", "12", "--jobs", "600", "--kills", "10", "--others", "0.5", "--lease", "2",
    )  # fmt: skip
    code, said = storm.wait(160), storm.output
    if "skipped: " in said:
        pytest.skip(said)
    assert code == 0, said
    assert " kills" in said
