"""The app of a storm: its processes keep a journal, and one guard may be broken in them."""

from django.apps import AppConfig


class StormConfig(AppConfig):
    name = "tests.storm"
    label = "storm"

    def ready(self) -> None:
        from tests.storm import breaks, clocks, recording
        from tests.storm.settings import STORM_BREAK

        if STORM_BREAK:
            breaks.install(STORM_BREAK)
        recording.install()
        clocks.mend_sleep()
