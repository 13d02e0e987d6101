"""The project under test with the handlers of jobs.py, as worker processes load it."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, env

INSTALLED_APPS = [*INSTALLED_APPS, "tests.schedules"]
SQLQUEUE = env.json("SQLQUEUE", default={})
