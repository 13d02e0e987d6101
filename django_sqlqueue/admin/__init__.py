"""The pages of the queue in Django's admin."""

from __future__ import annotations

from .jobs import JobAdmin

__all__ = ["JobAdmin"]
