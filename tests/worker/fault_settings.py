"""The worker's project with handlers that break connections, and with faults on demand."""

from tests.worker.settings import *  # noqa: F403
from tests.worker.settings import DATABASES, INSTALLED_APPS, env

INSTALLED_APPS = [*INSTALLED_APPS, "tests.worker.faults"]
DEBUG = env.bool("DEBUG", default=False)

# What is laid over each alias, like {"default": {"CONN_MAX_AGE": null}}.
for _alias, _changes in env.json("DATABASE_CHANGES", default={}).items():
    _options = {} if "ENGINE" in _changes else DATABASES[_alias].get("OPTIONS", {})
    DATABASES[_alias] |= {**_changes, "OPTIONS": {**_options, **_changes.get("OPTIONS", {})}}

# A fault that statements meet: see faults/apps.py.
FAULT = env.json("FAULT", default={})
