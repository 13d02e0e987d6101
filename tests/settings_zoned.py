"""The project under test whose database connection has a time zone of its own."""

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

TIME_ZONE = "Europe/Berlin"
# One engine has a zone for each session anyhow; the others keep what they store in this zone.
DATABASES["default"]["TIME_ZONE"] = "Asia/Kolkata"
