"""The tables."""

from .attempt import Attempt
from .job import Job
from .schedule import Schedule
from .worker import PausedQueue, Worker

__all__ = ["Attempt", "Job", "PausedQueue", "Schedule", "Worker"]
