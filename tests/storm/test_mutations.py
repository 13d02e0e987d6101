"""The storm fails on a queue of which a guard was taken away, on every engine."""

import pytest
from django.db import connection

from tests.processes import forget_all, spawn_python
from tests.storm.shapes import SHAPES

pytestmark = [pytest.mark.slow, pytest.mark.processes]

ENGINES = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mariadb"}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.timeout(240)
def test_the_audit_sees_that_a_guard_is_gone(name):
    engine = ENGINES[connection.vendor]
    storm = spawn_python("-m", "tests.storm", "--engine", engine, "--seed", "1", "--break", name)
    try:
        code, said = storm.wait(200), storm.output
    finally:
        storm.terminate()
        forget_all()
    if "skipped: " in said:
        pytest.skip(said)
    assert code == 1, said
    broken = {rule for rule in SHAPES[name].seen_by if f"'{rule}': " in said}
    assert broken, said
