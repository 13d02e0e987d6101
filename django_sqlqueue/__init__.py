"""A durable job queue in the tables of the database that a Django project already has."""

from .exceptions import Abandon, Defer, Retry
from .handlers import all_kinds, handler
from .newjob import NewJob
from .policy import Backoff

__version__ = "0.1.0"

__all__ = ["Abandon", "Backoff", "Defer", "NewJob", "Retry", "all_kinds", "handler"]
