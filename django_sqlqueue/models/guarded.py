"""A row that others write too: it is saved as a whole when it is new, and never again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models

from ..exceptions import UnguardedSave


class GuardedRow(models.Model):
    """Refuses the save() that would overwrite what happened to the row since it was read."""

    class Meta:
        abstract = True

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **options: Any) -> None:
        """Insert the row, or update the columns that `update_fields` names.

        Raises UnguardedSave for an existing row without them: a handler whose claim was lost
        would give the row back the status, the lease and the claims of then.
        """
        if not self._state.adding and update_fields is None and not options.get("force_insert"):
            raise UnguardedSave(self.pk)
        super().save(*args, update_fields=update_fields, **options)
