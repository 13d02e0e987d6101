"""The project under test with the handlers of jobs.py, as worker processes load it."""

from tests.settings import *  # noqa: F403
from tests.settings import env

# No more than a worker needs: hundreds of processes import it.
INSTALLED_APPS = [
    "django_sqlqueue",
    "tests.testapp",
    "tests.worker",
    *env.list("EXTRA_APPS", default=[]),
]
ROOT_URLCONF = ""
SQLQUEUE = env.json("SQLQUEUE", default={})
