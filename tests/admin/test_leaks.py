"""What someone tries who may look, but not at everything; and who tampers with what is posted."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from django.contrib.auth.models import User
from django.db import connections
from django.test import Client, TransactionTestCase, override_settings
from django.urls import reverse

from django_sqlqueue.admin import walks
from django_sqlqueue.models import Attempt, Job, PausedQueue, Schedule, Worker

from .base import JOBS, SCHEDULES, WORKERS, AdminTestCase, again, failed, job_url
from .test_pages import worker

SECRET = "s3cret"
PAUSED = reverse("admin:django_sqlqueue_pausedqueue_changelist")
LOOKUPS = (
    "payload__contains", "payload__icontains", "payload__token", "payload__token__startswith",
    "result__icontains", "result__isnull", "last_error__startswith", "dedup_key__startswith",
    "history__traceback__icontains", "history__reason", "payload", "status__in", "attempts__gt",
)  # fmt: skip


def schedule_url(job, view="change"):
    return reverse(f"admin:django_sqlqueue_schedule_{view}", args=[job.pk])


def hide(field, value, job):
    return "(hidden)"


class Lookups(AdminTestCase):
    def setUp(self):
        super().setUp()
        self.job = failed(payload={"token": SECRET})

    def test_no_column_is_asked_for_through_the_address(self):
        for url in (JOBS, SCHEDULES, WORKERS, PAUSED):
            for lookup in LOOKUPS:
                answer = self.client.get(url, {lookup: SECRET})
                self.assertEqual(answer.status_code, 400, (url, lookup))

    def test_nor_by_an_action_on_all_that_match(self):
        answer = self.act("retry", "all", f"{JOBS}?payload__token=x", confirmed="1")
        self.assertEqual(answer.status_code, 400)
        self.assertEqual(self.statuses(self.job), ["failed"])

    def test_what_django_adds_to_an_address_changes_nothing(self):
        for query in ("e=1", "o=1", "o=-3.2", "o=payload", "p=7", "all=", "_facets=True"):
            page = self.client.get(f"{JOBS}?{query}")
            self.assertEqual(page.status_code, 200, query)
            found = [job.pk for job in page.context["cl"].result_list]
            self.assertEqual(found, [self.job.pk], query)
        for query in ("_to_field=payload", "_to_field=dedup_key"):
            self.assertEqual(self.client.get(f"{JOBS}?{query}").status_code, 400, query)

    @override_settings(SQLQUEUE={"REDACT": hide})
    def test_a_hidden_reason_cannot_be_guessed(self):
        self.assertEqual(self.job.last_error, "testapp.Broken")
        page = self.client.get(JOBS, {"reason": "testapp.Broken"})
        self.assertEqual(list(page.context["cl"].result_list), [])


class WithoutThePayload(AdminTestCase):
    """Who may see, change and retry, but has no view_payload."""

    def setUp(self):
        super().setUp()
        self.job = failed(payload={"token": SECRET})
        Job.objects.filter(pk=self.job.pk).update(result={"token": SECRET})
        Attempt.objects.update(traceback=f"  a.py:1 in f\nValueError: {SECRET}\n{SECRET}\n")
        self.schedule = Job.objects.schedule(
            "hourly", "testapp.noop", every=3600, payload={"token": SECRET}
        )
        self.as_user_with(
            "view_job", "change_job", "delete_job", "view_schedule", "change_schedule"
        )

    def test_no_page_shows_it(self):
        self.operate("retry", self.job)
        job, schedule = self.job, self.schedule
        urls = [
            JOBS, f"{JOBS}?q={SECRET}", SCHEDULES, job_url(job), job_url(job) + "?show=payload",
            job_url(job, "history"), job_url(schedule), schedule_url(schedule),
            schedule_url(schedule, "history"),
        ]  # fmt: skip
        for url in urls:
            page = self.client.get(url)
            self.assertEqual(page.status_code, 200, url)
            for line in page.content.decode().splitlines():
                if f"q={SECRET}" not in url:
                    self.assertNotIn(SECRET, line, url)
        self.assertEqual(list(self.client.get(urls[1]).context["cl"].result_list), [])
        self.assertContains(self.client.get(job_url(job)), "a.py:1 in f")

    def test_who_changes_a_schedule_leaves_its_payload(self):
        data = {
            "kind": "testapp.noop", "payload": '{"mine": 1}', "every_0": "5", "every_1": "m",
            "missed": "once", "lifetime_1": "m",
        }  # fmt: skip
        answer = self.client.post(schedule_url(self.schedule), data)
        self.assertRedirects(answer, SCHEDULES)
        schedule = again(self.schedule)
        self.assertEqual(schedule.payload, {"token": SECRET})
        self.assertEqual(schedule.interval.total_seconds(), 300)

    def test_who_may_only_look_at_schedules_sees_none_either(self):
        self.as_user_with("view_schedule")
        page = self.client.get(schedule_url(self.schedule))
        self.assertContains(page, "every hour")
        self.assertNotContains(page, SECRET)


@override_settings(SQLQUEUE={"REDACT": hide})
class WhatIsShownOtherwise(AdminTestCase):
    def test_a_schedule_saved_as_it_is_shown_keeps_what_is_stored(self):
        job = Job.objects.schedule("hourly", "testapp.noop", every=3600, payload={"a": SECRET})
        form = self.client.get(schedule_url(job)).context["adminform"].form
        self.assertEqual(form["payload"].value(), '"(hidden)"')
        data = {
            "kind": "testapp.noop", "payload": ' "(hidden)"\r\n', "every_0": "1", "every_1": "h",
            "missed": "once", "lifetime_1": "m",
        }  # fmt: skip
        self.client.post(schedule_url(job), data)
        self.assertEqual(again(job).payload, {"a": SECRET})
        self.client.post(schedule_url(job), data | {"payload": '{"b": 1}'})
        self.assertEqual(again(job).payload, {"b": 1})

    def test_a_retry_with_the_payload_as_it_is_shown_has_what_is_stored(self):
        job = failed(payload={"a": SECRET})
        self.client.post(job_url(job, "again"), {"payload": '"(hidden)"'})
        self.assertEqual(Job.objects.get(status="ready").payload, {"a": SECRET})


class Tampered(AdminTestCase):
    def test_rows_that_are_none_are_refused(self):
        for url in (JOBS, SCHEDULES, PAUSED):
            for pk in ("x", "1 OR 1=1", "-1", "9" * 30, "1\x00", "²", ""):
                data = {"action": "retry", "_selected_action": pk}
                self.assertEqual(self.client.post(url, data).status_code, 400, (url, pk))

    def test_an_action_or_value_that_is_none_changes_nothing(self):
        job = Job.objects.enqueue("testapp.noop")
        for action, value in (
            ("explode", "1"), ("set_priority", "x"), ("set_priority", ""), ("set_priority", "1e9"),
            ("move_to_queue", ""), ("move_to_queue", "q" * 101), ("move_to_queue", "a\x00b"),
        ):  # fmt: skip
            answer = self.act(action, [job], confirmed="1", value=value)
            self.assertIn(answer.status_code, (200, 302), (action, value))
        after = again(job)
        self.assertEqual((after.priority, after.queue), (0, "default"))

    def test_a_progress_is_good_for_its_user_operation_and_selection_only(self):
        jobs = [failed("A") for _ in range(4)]
        url = f"{JOBS}?status=failed"
        with mock.patch.object(walks, "BATCH", 2), mock.patch.object(walks, "SECONDS", 0):
            signed = self.act("retry", "all", url, confirmed="1").context["signed"]
        post = {"confirmed": "1", "walk": signed}
        self.assertEqual(self.act("remove", "all", url, **post).status_code, 403)
        self.assertEqual(self.act("retry", "all", JOBS, **post).status_code, 403)
        self.as_user_with("view_job", "change_job")
        self.assertEqual(self.act("retry", "all", url, **post).status_code, 403)
        self.assertEqual(self.statuses(*jobs), ["ready"] * 2 + ["failed"] * 2)

    def test_every_address_refuses_who_has_no_right(self):
        """Posted to with all that could move something, by one who may look at everything."""
        job, ready = failed(payload={"a": 1}), Job.objects.enqueue("testapp.noop", delay=60)
        schedule = Job.objects.schedule("hourly", "testapp.noop", every=3600)
        shown = worker()
        PausedQueue.objects.pause("mail")
        paused = PausedQueue.objects.get()
        self.as_user_with(
            "view_job", "view_schedule", "view_worker", "view_pausedqueue", "view_payload"
        )
        before = self.everything()
        names = ("job", "schedule", "worker", "pausedqueue")
        rows = (job, schedule, shown, paused)
        urls = [reverse(f"admin:django_sqlqueue_{name}_changelist") for name in names]
        urls += [reverse(f"admin:django_sqlqueue_{name}_add") for name in names]
        for name, row in zip(names, rows, strict=True):
            for view in ("change", "delete", "history"):
                urls.append(reverse(f"admin:django_sqlqueue_{name}_{view}", args=[row.pk]))
        for one in (job, ready):
            urls += [job_url(one, "operate"), job_url(one, "again")]
        urls += [reverse(f"admin:django_sqlqueue_pausedqueue_{v}") for v in ("pause", "resume")]
        for url in urls:
            for verb in ("retry", "cancel", "run_now", "remove", "delete_selected", "end"):
                data = {
                    "action": verb, "operation": verb, "_selected_action": [row.pk for row in rows],
                    "select_across": "1", "confirmed": "1", "post": "yes", "queue": "mail",
                    "name": "mail2", "kind": "x", "payload": "{}", "status": "done", "value": "5",
                    "every_0": "1", "every_1": "m", "missed": "once", "lifetime_1": "m",
                }  # fmt: skip
                self.assertLess(self.client.post(url, data).status_code, 500, (url, verb))
        self.assertEqual(self.everything(), before)

    def everything(self):
        models = (Job, Schedule, Worker, PausedQueue, Attempt)
        return [list(model.objects.order_by("pk").values()) for model in models]


class Stale(AdminTestCase):
    """A page that was opened before the job moved."""

    def test_each_operation_tells_that_it_came_too_late(self):
        job = failed()
        self.operate("retry", job)
        told = self.messages(self.operate("retry", job))[-1]
        self.assertEqual(told, "0 jobs retried; 1 skipped: it is still waiting or running.")
        self.assertEqual(Job.objects.claim_next("host:1").pk, job.pk)
        for operation in ("retry", "run_now", "remove"):
            self.assertIn("1 skipped", self.messages(self.operate(operation, job))[-1])
        self.assertEqual(self.statuses(job), ["running"])

    def test_a_job_that_was_deleted_meanwhile_is_told(self):
        job = failed()
        Job.objects.filter(pk=job.pk).remove()
        self.assertEqual(self.operate("retry", job).status_code, 404)
        self.assertEqual(
            self.client.post(job_url(job, "again"), {"payload": "{}"}).status_code, 404
        )
        self.assertRedirects(self.act("retry", [job], confirmed="1"), JOBS)


class TwoOperators(TransactionTestCase):
    """They press the same button at the same time, each in a process of the web server."""

    JOBS = 120

    def setUp(self):
        Job.objects.enqueue_many([("testapp.noop", None)] * self.JOBS)
        Job.objects.update(status="failed", finished_at=Job.objects.all().engine.now())
        self.start = threading.Barrier(2, timeout=60)

    def retry_all(self, client):
        try:
            data = {"action": "retry", "_selected_action": "0", "select_across": "1"}
            self.start.wait()
            answer = client.post(f"{JOBS}?status=failed", data | {"confirmed": "1"})
            return [str(message) for message in answer.wsgi_request._messages]
        finally:
            connections.close_all()

    def test_each_job_moves_once_and_is_counted_once(self):
        clients = []
        for name in ("one", "two"):
            clients.append(Client())
            clients[-1].force_login(User.objects.create_superuser(name))
        with ThreadPoolExecutor(2) as operators:
            told = list(operators.map(self.retry_all, clients))
        moved = [int(re.match(r"(\d+) jobs? retried", message)[1]) for (message,) in told]
        self.assertEqual(sum(moved), self.JOBS, told)
        self.assertEqual(Job.objects.filter(status="ready").count(), self.JOBS)
