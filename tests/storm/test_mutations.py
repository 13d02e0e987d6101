"""The storm fails on a queue of which a guard was taken away, on every engine."""

import pytest

from tests.storm.shapes import SHAPES
from tests.storm.test_storm import raise_storm

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.timeout(300)
def test_the_audit_sees_that_a_guard_is_gone(name):
    code, said = raise_storm("--seed", "1", "--break", name, within=240)
    assert code == 1, said
    assert any(f"'{rule}': " in said for rule in SHAPES[name].seen_by), said
