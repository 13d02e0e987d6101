"""The tables of a storm: what handlers and producers wrote in the database beside the queue."""

from __future__ import annotations

from django.db import models


class Entry(models.Model):
    """A line of the ledger: the effect of one execution. Nothing keeps it from being doubled."""

    objects: models.Manager[Entry] = models.Manager()

    token = models.CharField(max_length=40)
    claims = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.token} {self.claims}"


class Marker(models.Model):
    """A business row that a producer's transaction wrote beside its jobs: did it commit?"""

    objects: models.Manager[Marker] = models.Manager()

    txn = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.txn


class Scratch(models.Model):
    """What handlers leave unfinished; a name twice breaks a transaction."""

    objects: models.Manager[Scratch] = models.Manager()

    name = models.CharField(max_length=100, unique=True)

    def __str__(self) -> str:
        return self.name
