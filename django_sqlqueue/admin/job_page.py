"""The page of one job: what happened to it, why it does not run, and what can be done."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from ..engines.instants import as_aware
from ..explanation import explain
from ..fields import DamagedJSON
from ..lifecycle import LIVE, READY, RUNNING, SETTLED
from ..managers.adjusting import is_paused
from ..managers.settling import KEPT_ATTEMPTS
from ..models import Attempt, Job
from ..runner_names import in_short
from . import log, shown
from .operations import OPERATIONS
from .rights import may

BUTTONS = ("retry", "run_now", "cancel", "remove")
HIDDEN = ("payload", "result")
FRAME = re.compile(r"  \S.*:\d+ in \S+|  File \".*\", line \d+, in \S+")


@dataclass(frozen=True, slots=True)
class Document:
    """A payload or a result as it is shown."""

    name: str
    title: str
    text: str
    rest: int
    """How many characters are left out."""
    damaged: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of the timeline."""

    at: datetime
    when: Any
    text: Any
    by: str = ""
    tone: str = ""


def job_url(pk: int) -> str:
    return reverse("admin:django_sqlqueue_job_change", args=[pk])


def context(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return what the page shows to this user."""
    now = Job.objects.all().engine.now()
    attempts = list(Attempt.objects.using(job._state.db).filter(job=job).order_by("-pk"))
    attempts = attempts[:KEPT_ATTEMPTS]
    return {
        "job": job,
        "status": shown.status(job),
        "reason": shown.breakable(shown.reason(job.last_error, job)),
        "explanation": explain(job),
        "twin": _twin(job),
        "facts": _facts(job, now),
        "columns": _columns(job),
        "documents": _documents(request, job),
        "attempts": [_attempt(one, job, may(request, "see_payload")) for one in attempts],
        "steps": _timeline(job, attempts, now),
        "buttons": [
            OPERATIONS[name]
            for name in BUTTONS
            if may(request, OPERATIONS[name].right) and _fits(name, job, now)
        ],
        "again_url": _again_url(request, job),
    }


def _fits(name: str, job: Job, now: datetime) -> bool:
    if name == "retry":
        return job.status in SETTLED
    if name == "cancel":
        return job.status in LIVE and job.cancel_requested_at is None
    if name == "run_now":
        waits = job.status == READY and as_aware(job.run_at) > now
        return waits and not is_paused(job)
    return job.status != RUNNING


def _again_url(request: HttpRequest, job: Job) -> str:
    if not may_again(request) or job.name is not None:
        return ""
    return reverse("admin:django_sqlqueue_job_again", args=[job.pk])


def may_again(request: HttpRequest) -> bool:
    """Say whether the user may enqueue a job with a payload of their own."""
    return may(request, "operate") and may(request, "see_payload")


def _twin(job: Job) -> tuple[int, str] | None:
    if job.dedup_key is None:
        return None
    twin = Job.objects.find_live(job.kind, job.dedup_key)
    return (twin.pk, job_url(twin.pk)) if twin is not None and twin.pk != job.pk else None


def _facts(job: Job, now: datetime) -> list[tuple[str, Any]]:
    values = {"used": job.attempts, "budget": job.max_attempts}
    facts = [
        (_("Queue"), job.queue),
        (_("About"), job.ref or "–"),
        (_("Attempts"), _("%(used)d of %(budget)d") % values),
        (_("Due"), shown.due(job, now)),
        (_("Enqueued"), shown.moment(job.created_at, now)),
    ]
    if job.started_at is not None:
        facts.append((_("Last started"), shown.moment(job.started_at, now)))
    if job.finished_at is not None:
        facts.append((_("Ended"), shown.moment(job.finished_at, now)))
    if job.deadline is not None:
        facts.append((_("Deadline"), shown.moment(job.deadline, now)))
    return facts


def _columns(job: Job) -> list[tuple[str, Any, Any]]:
    """Return every column with its value and its definition."""
    rows = []
    for field in job._meta.concrete_fields:
        if field.name in HIDDEN:
            continue
        value = getattr(job, field.attname)
        if field.name == "last_error":
            value = shown.reason(value, job)
        elif isinstance(value, datetime):
            value = shown.exact(value)
        rows.append((field.name, "–" if value in (None, "") else value, field.help_text))
    return rows


def _documents(request: HttpRequest, job: Job) -> list[Document]:
    if not may(request, "see_payload"):
        return []
    full = request.GET.get("show", "")
    found = [_document("payload", _("Payload"), job.payload, job, full)]
    if job.result is not None:
        found.append(_document("result", _("Result"), job.result, job, full))
    return found


def _document(name: str, title: str, value: Any, job: Job, full: str) -> Document:
    text = shown.as_json(shown.redacted(name, value, job))
    shortened = text if full == name else text[: shown.SHORT]
    damaged = isinstance(value, DamagedJSON)
    return Document(name, title, shortened, len(text) - len(shortened), damaged)


def _attempt(attempt: Attempt, job: Job, whole: bool) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "runner": shown.runner(attempt.runner),
        "started": shown.exact(attempt.started_at) if attempt.started_at else "–",
        "duration": shown.span(attempt.started_at, attempt.ended_at),
        "outcome": shown.OUTCOMES.get(attempt.outcome, attempt.outcome),
        "tone": "failed" if attempt.outcome in ("failed", "retried", "lost") else "",
        "reason": shown.breakable(shown.reason(attempt.reason, job)),
        "frames": attempt.traceback if whole else _frames(attempt.traceback),
    }


def _frames(traceback: str) -> str:
    """Return the frames alone: what is between them may hold messages, and these content."""
    return "\n".join(line for line in traceback.splitlines() if FRAME.fullmatch(line))


# The timeline


def _timeline(job: Job, attempts: list[Attempt], now: datetime) -> list[Step]:
    steps = [_step(job.created_at, now, _("Enqueued"))]
    for attempt in attempts:
        values = {"number": attempt.number, "runner": in_short(attempt.runner)}
        if attempt.started_at is not None:
            text = _("Attempt %(number)d started on %(runner)s") % values
            steps.append(_step(attempt.started_at, now, text))
        outcome = shown.OUTCOMES.get(attempt.outcome, attempt.outcome)
        text = _("Attempt %(number)d: %(outcome)s") % {"number": attempt.number, "outcome": outcome}
        if attempt.reason:
            text += f" ({shown.reason(attempt.reason, job)})"
        tone = "failed" if attempt.outcome in ("failed", "retried", "lost") else ""
        # The two may be written by clocks of different fineness.
        ended_at = max(as_aware(attempt.ended_at), as_aware(attempt.started_at or job.created_at))
        steps.append(_step(ended_at, now, text, tone=tone))
    if job.status == RUNNING and job.started_at is not None:
        text = _("Attempt %(number)d started on %(runner)s") % {
            "number": job.attempts, "runner": in_short(job.lease_owner),
        }  # fmt: skip
        steps.append(_step(job.started_at, now, text, tone="running"))
    if job.cancel_requested_at is not None:
        steps.append(_step(job.cancel_requested_at, now, _("Asked to stop")))
    if job.finished_at is not None:
        text = _("Ended: %s") % shown.WORDS.get(job.status, job.status)
        ended_at = max(as_aware(job.finished_at), *(step.at for step in steps))
        steps.append(_step(ended_at, now, text, tone=job.status))
    for entry in log.of(job):
        text = _linked(entry.get_change_message())
        steps.append(_step(entry.action_time, now, text, by=entry.user.get_username()))
    return sorted(steps, key=lambda step: step.at)


def _step(at: datetime, now: datetime, text: Any, by: str = "", tone: str = "") -> Step:
    return Step(as_aware(at), shown.moment(at, now), text, by, tone)


def _linked(message: str) -> SafeString:
    """Return a log message with "#41" as a link to job 41."""
    words = []
    # Escaped first, so that the links are the only markup.
    for word in str(escape(message)).split(" "):
        pk = word.strip(".,").removeprefix("#")
        if word.startswith("#") and pk.isascii() and pk.isdigit() and len(pk) < 19:
            word = word.replace(f"#{pk}", f'<a href="{job_url(int(pk))}">#{pk}</a>')
        words.append(word)
    return mark_safe(" ".join(words))
