"""Settings for Django's own tests of its tasks: one attempt, and messages kept, as they expect."""

from tests.settings import *  # noqa: F403

SQLQUEUE = {"MAX_ATTEMPTS": 1, "STORE_MESSAGES": True}
TASKS = {"default": {"BACKEND": "django_sqlqueue.backend.SqlQueueBackend", "QUEUES": []}}
