"""A module that must not be imported because some row names it."""

from tests.testapp.models import Effect

Effect.objects.create(name="the trap was sprung")


def spring():
    """No task."""
