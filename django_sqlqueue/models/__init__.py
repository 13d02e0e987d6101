"""The tables."""

from .attempt import Attempt
from .job import Job
from .worker import PausedQueue, Worker

__all__ = ["Attempt", "Job", "PausedQueue", "Worker"]
