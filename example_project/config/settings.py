"""Settings of the example project: SQLite by default, any engine by DATABASE_URL."""

from datetime import timedelta
from pathlib import Path

import environ

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
env.read_env(BASE_DIR / ".env")

# What the project writes: the SQLite database and the demo's own notes.
VAR_DIR = Path(env.str("LIBRARY_VAR_DIR", default=str(BASE_DIR / "var")))
VAR_DIR.mkdir(parents=True, exist_ok=True)

DEBUG = env.bool("DEBUG", default=True)
SECRET_KEY = env.str("SECRET_KEY", default="only-for-the-example-project")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])

# A queue on SQLite wants four things. WAL lets readers and one writer work at the same time; NORMAL
# is as safe as FULL against a crash of the process under WAL, without a disk flush per commit;
# IMMEDIATE takes the write lock at BEGIN, where waiting for it is possible (a read lock cannot be
# upgraded: "database is locked" at once, whatever the timeout); the timeout is how long to wait.
SQLITE_OPTIONS = {
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
}


def database_from_environment() -> dict:
    """Return the database that DATABASE_URL names, or the SQLite file in VAR_DIR."""
    database = env.db("DATABASE_URL", default=f"sqlite:///{VAR_DIR / 'library.sqlite3'}")
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["OPTIONS"] = SQLITE_OPTIONS | database.get("OPTIONS", {})
    return database


DATABASES = {"default": database_from_environment()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_sqlqueue",
    "library",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
STATIC_URL = "static/"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

SQLQUEUE = {
    "RETENTION": {
        "done": timedelta(days=7),
        "failed": timedelta(days=30),
        "cancelled": timedelta(days=7),
    },
}

# A file that changed less than this many seconds ago may still be being written.
LIBRARY_QUIET_SECONDS = env.float("LIBRARY_QUIET_SECONDS", default=2.0)
# How often each folder is looked through again.
LIBRARY_RESCAN_SECONDS = env.float("LIBRARY_RESCAN_SECONDS", default=60.0)
