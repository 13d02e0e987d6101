"""Tables in which handlers under test leave their traces."""

from django.db import models


class Effect(models.Model):
    """One line of a ledger: something that a handler did, countable afterwards."""

    name = models.CharField(max_length=100)
    n = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} {self.n}"
