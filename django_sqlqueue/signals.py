"""What the queue tells those who listen; it costs nothing while nobody does."""

from __future__ import annotations

from django.dispatch import Signal

job_settled = Signal()
"""A claim ended, or a waiting job was cancelled; sent after the write, sender Job.

`job` is the job as it was before, without its payload where it was taken from a lost runner.
`outcome` is the policy.Outcome that was written, `status` the job's status now. A schedule that
went on to its next occurrence is ready. What a receiver raises is logged and changes nothing.
"""
