"""The project of a storm: short leases and delays, the handlers of jobs.py, the journal."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, MIGRATION_MODULES, env

INSTALLED_APPS = [*INSTALLED_APPS, "tests.storm"]
MIGRATION_MODULES = {**MIGRATION_MODULES, "storm": None}

SQLQUEUE = {
    "LEASE": env.float("STORM_LEASE", default=3.0),
    "POLL": 0.5,
    "GRACE": 4,
    "BACKOFF": {"base": 0.2, "factor": 1.5, "cap": 2, "jitter": 0.2},
    "HISTORY": env.str("STORM_HISTORY", default="failures"),
}

STORM_RELEASE = env.str("STORM_RELEASE", default="new")
"""The old release does not know the kind storm.new."""
STORM_BREAK = env.str("STORM_BREAK", default="")
"""Which guard of the queue is taken away, to see whether the audit sees it; see breaks.py."""
