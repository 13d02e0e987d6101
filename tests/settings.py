"""The Django project under test; its database is DATABASE_URL, else a SQLite file."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import django
import environ

env = environ.Env()

SECRET_KEY = "only for tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django_sqlqueue",
    "tests.testapp",
]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")

# A task is tried once, as by the framework's own backends, unless a test says more.
TASKS = {
    "default": {
        "BACKEND": "django_sqlqueue.backend.SqlQueueBackend",
        "QUEUES": ["default", "letters"],
        "OPTIONS": {"max_attempts": 1},
    },
    "any_queue": {"BACKEND": "django_sqlqueue.backend.SqlQueueBackend", "QUEUES": []},
}

# Nothing may depend on how a project begins its transactions on SQLite; the check would say so
# at each start of a worker.
SILENCED_SYSTEM_CHECKS = ["sqlqueue.I001"]

# The test app's tables are made from its models.
MIGRATION_MODULES = {"testapp": None}

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def sqlite_file(path: Path) -> dict[str, Any]:
    """A SQLite database whose test database is a file too, so that processes can share it."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
        "TEST": {"NAME": str(path.with_name(f"{path.stem}-test-{os.getpid()}.sqlite3"))},
    }


def database(url: str) -> dict[str, Any]:
    """The Django database of a URL, with what its engine needs for tests."""
    config: dict[str, Any] = env.db_url_config(url)
    if config["ENGINE"].endswith("sqlite3"):
        return sqlite_file(Path(config["NAME"]))
    if config["ENGINE"].endswith("mysql"):
        config.setdefault("OPTIONS", {})["charset"] = "utf8mb4"
        config["TEST"] = {"CHARSET": "utf8mb4"}
    return config


_folder = Path(env.str("TEST_FOLDER", default=tempfile.gettempdir()))

DATABASES = {
    "default": database(
        env.str("DATABASE_URL", default=f"sqlite:///{_folder / 'sqlqueue.sqlite3'}")
    ),
    # For what must follow its alias: routers, SQLQUEUE["DATABASE"], db_manager().
    "other": sqlite_file(_folder / "sqlqueue-other.sqlite3"),
}

# Set by tests/processes.py: the test databases that a process started by a test must use.
for _alias, _name in json.loads(env.str("TEST_DATABASE_NAMES", default="{}")).items():
    DATABASES[_alias]["NAME"] = _name
