"""Arms what deadly.py holds, where the environment asks for it."""

from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    name = "tests.schedules"

    def ready(self):
        from tests.schedules import deadly

        deadly.arm()
