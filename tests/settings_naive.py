"""The project under test with USE_TZ = False, in a zone whose clocks change."""

from tests.settings import *  # noqa: F403

USE_TZ = False
TIME_ZONE = "America/New_York"
