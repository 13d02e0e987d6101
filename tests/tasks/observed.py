"""Settings of worker processes whose signals are written down."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

# What a test chooses for its workers.
SQLQUEUE = json.loads(os.environ.get("TEST_SQLQUEUE", "{}"))
USE_TZ = os.environ.get("TEST_USE_TZ") != "no"
INSTALLED_APPS = [*INSTALLED_APPS, "tests.tasks.observer"]
