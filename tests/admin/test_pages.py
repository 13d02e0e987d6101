"""What the pages show: the overview, a job, workers, hostile and redacted values."""

from datetime import timedelta
from unittest import skipUnless
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_sqlqueue.models import Attempt, Job, PausedQueue, Worker

from .base import (
    JOBS,
    OVERVIEW,
    SCHEDULES,
    WORKERS,
    AdminTestCase,
    again,
    failed,
    job_url,
    running,
)
from .test_rights import PAUSE, RESUME

PAUSED = reverse("admin:django_sqlqueue_pausedqueue_changelist")
EVIL = "<script>alert(1)</script>'\"&%s{{x}}"


def worker(runner="host:1", **options):
    values = {"host": "host", "pid": 1, "kinds": ["testapp.noop"], "threads": 2} | options
    return Worker.objects.create(runner=runner, **values)


class Overview(AdminTestCase):
    def context(self):
        return self.client.get(OVERVIEW).context

    def test_it_opens_while_there_is_nothing(self):
        self.assertContains(self.client.get(OVERVIEW), "No job has failed for good.")

    def test_queues_show_what_waits_runs_and_failed_and_who_serves_them(self):
        failed(queue="mail")
        running(queue="mail")
        Job.objects.enqueue("testapp.noop", queue="mail")
        Job.objects.enqueue("testapp.noop", queue="idle")
        PausedQueue.objects.pause("idle")
        worker(queues=["mail"])
        lines = {line.name: line for line in self.context()["queues"]}
        mail, idle = lines["mail"], lines["idle"]
        self.assertEqual((mail.waiting, mail.running, mail.failed), ("1", 1, "1"))
        self.assertEqual((mail.workers, mail.paused_since), (1, None))
        self.assertEqual((idle.waiting, idle.workers), ("1", 0))
        self.assertIsNotNone(idle.paused_since)

    def test_failures_are_grouped_by_reason_and_lead_to_their_jobs(self):
        jobs = [failed("A"), failed("A"), failed("B & C?")]
        most, least = self.context()["reasons"]
        self.assertEqual((most.reason, most.count, least.reason), ("A", 2, "B &amp; C?"))
        for line, expected in ((most, jobs[:2]), (least, jobs[2:])):
            found = self.client.get(line.url).context["cl"].result_list
            self.assertEqual({job.pk for job in found}, {job.pk for job in expected})

    def test_a_reason_tells_when_it_was_seen_and_which_kinds_it_hit(self):
        first, last = failed("A"), failed("A")
        earlier = timezone.now() - timedelta(hours=3)
        Job.objects.filter(pk=first.pk).update(kind="shop.other", finished_at=earlier)
        (line,) = self.context()["reasons"]
        self.assertIn("3\xa0hours ago", line.when[0])
        self.assertNotIn("hour", line.when[1])
        self.assertEqual(
            [kind for kind, _url in line.kinds], ["shop.<wbr>other", "testapp.<wbr>fail"]
        )
        for (_kind, url), job in zip(line.kinds, (first, last), strict=True):
            found = self.client.get(url).context["cl"].result_list
            self.assertEqual([row.pk for row in found], [job.pk])

    def test_the_charts_count_what_ended(self):
        failed()
        running().complete()
        for chart in self.context()["charts"]:
            self.assertEqual((chart.done, chart.failed), ("1", "1"))

    def test_the_charts_lead_to_the_jobs_that_they_count(self):
        bad, good = failed(), running()
        good.complete()
        old = failed()
        Job.objects.filter(pk=old.pk).update(finished_at=timezone.now() - timedelta(hours=2))
        hour, day = self.context()["charts"]
        for url, jobs in (
            (hour.links["done"], [good]),
            (hour.links["failed"], [bad]),
            (day.links["failed"], [bad, old]),
        ):
            self.assertContains(self.client.get(OVERVIEW), url.replace("&", "&amp;"))
            found = self.client.get(url).context["cl"].result_list
            self.assertEqual([job.pk for job in found], [job.pk for job in jobs])

    def test_the_longest_waits_lead_to_the_jobs_that_wait(self):
        Job.objects.enqueue(
            "testapp.noop", queue="mail", run_at=timezone.now() - timedelta(hours=2)
        )
        page = self.client.get(OVERVIEW)
        tile = f'<a class="sq-tile" href="{JOBS}?status=ready">'
        self.assertContains(page, f"{tile}<b>2 h 0 min</b><span>longest wait</span></a>", html=True)
        line = f'<a href="{JOBS}?queue=mail&amp;status=ready">2 h 0 min</a>'
        self.assertContains(page, line, html=True)

    def test_a_queue_is_paused_and_resumed(self):
        self.assertRedirects(self.client.post(PAUSE, {"queue": "mail"}), OVERVIEW)
        self.assertEqual(PausedQueue.objects.paused(), {"mail"})
        self.assertContains(self.client.get(JOBS), "queue mail is paused")
        self.client.post(RESUME, {"queue": "mail"})
        self.assertEqual(PausedQueue.objects.paused(), set())
        self.assertEqual(self.client.post(PAUSE, {"queue": ""}).status_code, 302)

    @skipUnless(connection.vendor == "postgresql", "elsewhere nobody is told at the commit")
    def test_workers_are_woken_for_each_queue_that_is_resumed(self):
        for queue in ("mail", "slow"):
            PausedQueue.objects.pause(queue)
        paused = PausedQueue.objects.all()
        with self.captureOnCommitCallbacks() as callbacks:
            self.act("delete_selected", paused, PAUSED, post="yes")
        self.assertEqual((PausedQueue.objects.paused(), bool(callbacks)), (set(), True))

    def test_the_number_of_queries_does_not_depend_on_the_rows(self):
        failed()
        counted = []
        for _ in range(2):
            with CaptureQueriesContext(connection) as captured:
                self.client.get(OVERVIEW)
            counted.append(len(captured))
            for n in range(5):
                failed(f"r{n}")
        self.assertEqual(counted[0], counted[1])


class JobPage(AdminTestCase):
    def test_it_shows_reason_attempts_frames_and_explanation(self):
        job = Job.objects.enqueue("testapp.noop", {"a": 1}, ref="order:42")
        for _ in range(2):
            claimed = Job.objects.claim_next("host:1")
            outcome = Job.objects.all().failure(claimed, "testapp.Broken", "  jobs.py:7 in f\n")
            Job.objects.all().settle(claimed, outcome)
            Job.objects.filter(pk=job.pk).run_now()
        page = self.client.get(job_url(job))
        for text in ("Broken", "jobs.py:7 in f", "order:42", "2 of 5", "No worker is running"):
            self.assertContains(page, text)
        self.assertEqual([a["number"] for a in page.context["attempts"]], [2, 1])

    def test_the_timeline_is_in_order(self):
        job = failed()
        steps = [str(s.text) for s in self.client.get(job_url(job)).context["steps"]]
        self.assertEqual(steps, [
            "Enqueued", "Attempt 1 started on host:1",
            "Attempt 1: failed for good (testapp.Broken)", "Ended: failed",
        ])  # fmt: skip

    def test_a_long_payload_is_shortened_until_it_is_asked_for(self):
        job = Job.objects.enqueue("testapp.noop", ["x" * 10_000, "the-end"])
        self.assertNotContains(self.client.get(job_url(job)), "the-end")
        self.assertContains(self.client.get(job_url(job) + "?show=payload"), "the-end")

    def test_a_job_that_is_gone_leads_to_the_list(self):
        for pk in ("123456", "9" * 30, "x"):
            url = job_url(Job(pk=1)).replace("/1/", f"/{pk}/")
            self.assertRedirects(self.client.get(url), JOBS)

    def test_every_column_is_shown_with_its_definition(self):
        page = self.client.get(job_url(failed()))
        names = [name for name, _value, _help in page.context["columns"]]
        expected = {field.name for field in Job._meta.concrete_fields} - {"payload", "result"}
        self.assertEqual(set(names), expected)

    def test_the_history_of_django_opens(self):
        job = failed()
        self.operate("retry", job)
        self.assertContains(self.client.get(job_url(job, "history")), "Retried.")


class Workers(AdminTestCase):
    def test_they_show_whether_they_live_and_what_they_run(self):
        worker("host:1")
        worker("host:2", last_seen_at=Job.objects.all().engine.now() - timedelta(hours=1))
        job = running()
        page = self.client.get(WORKERS)
        self.assertContains(page, ">alive<")
        self.assertContains(page, ">silent<")
        self.assertContains(page, f'href="{job_url(job)}"')

    def test_the_number_of_queries_does_not_depend_on_the_rows(self):
        counted = []
        for number in range(2):
            worker(f"host:{number}")
            running(ref=str(number))
            with CaptureQueriesContext(connection) as captured:
                self.client.get(WORKERS)
            counted.append(len(captured))
        self.assertEqual(counted[0], counted[1])


class HostileValues(AdminTestCase):
    def test_they_are_escaped_on_every_page(self):
        job = Job.objects.enqueue(EVIL, {EVIL: EVIL}, ref=EVIL, queue=EVIL, dedup_key=EVIL)
        claimed = Job.objects.claim_next(EVIL, lease=600)
        claimed.report_progress(5, EVIL)
        worker(EVIL, queues=[EVIL], kinds=[EVIL], host=EVIL)
        pages = [self.client.get(url) for url in (JOBS, OVERVIEW, WORKERS, job_url(job))]
        claimed.set_result({EVIL: EVIL})
        outcome = Job.objects.all().failure(claimed, EVIL, EVIL)
        Job.objects.all().settle(claimed, outcome)
        Job.objects.filter(pk=job.pk).cancel()
        Job.objects.schedule(EVIL, EVIL, every=60, queue=EVIL, payload={EVIL: EVIL})
        PausedQueue.objects.pause(EVIL)
        User.objects.filter(pk=self.user.pk).update(username=EVIL[:100])
        self.operate("retry", job)
        urls = (JOBS, OVERVIEW, SCHEDULES, job_url(job), job_url(job, "again"))
        pages += [self.client.get(url) for url in urls]
        pages.append(self.client.get(JOBS, {"reason": EVIL, "kind": EVIL, "q": EVIL}))
        pages.append(self.act("retry", "all", f"{JOBS}?{urlencode({'kind': EVIL})}"))
        for page in pages:
            self.assertEqual(page.status_code, 200)
            self.assertNotContains(page, "<script>alert")
            self.assertContains(page, "&lt;script&gt;")

    def test_damaged_json_is_shown_as_it_is_stored(self):
        if connection.vendor != "sqlite":
            self.skipTest("this engine lets no damaged JSON in")
        job = Job.objects.enqueue("testapp.noop")
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = ON")
            cursor.execute("UPDATE django_sqlqueue_job SET payload = '{broken <b>'")
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
        page = self.client.get(job_url(job))
        self.assertContains(page, "{broken &lt;b&gt;")
        self.assertContains(page, "This is not JSON")


def hide(field, value, job):
    return {"payload": {"token": "***"}, "result": "***", "reason": "a reason"}[field]


def crash(field, value, job):
    raise RuntimeError("no")


class Redacted(AdminTestCase):
    def pages(self, job):
        urls = (JOBS, OVERVIEW, SCHEDULES, job_url(job), job_url(job, "again"))
        return [self.client.get(url) for url in urls]

    @override_settings(SQLQUEUE={"REDACT": hide})
    def test_payload_result_and_reason_are_shown_as_the_hook_says(self):
        job = failed("https://user:s3cret@host/", payload={"token": "s3cret"})
        Job.objects.filter(pk=job.pk).update(result={"token": "s3cret"})
        for page in self.pages(job):
            self.assertNotContains(page, "s3cret")
        page = self.client.get(job_url(job))
        self.assertContains(page, "***")
        self.assertContains(page, "a reason")

    @override_settings(SQLQUEUE={"REDACT": hide})
    def test_a_hidden_reason_can_still_be_retried_as_a_whole(self):
        job, other = failed("s3cret"), failed("other s3cret")
        lines = self.client.get(OVERVIEW).context["reasons"]
        (line,) = [line for line in lines if line.link == f"like:{job.pk}"]
        self.act("retry", "all", line.url, confirmed="1")
        self.assertEqual(self.statuses(job, other), ["ready", "failed"])

    @override_settings(SQLQUEUE={"REDACT": crash})
    def test_a_hook_that_fails_shows_nothing(self):
        job = failed("s3cret", payload={"token": "s3cret"})
        with self.assertLogs("django_sqlqueue", "ERROR"):
            for page in self.pages(job):
                self.assertNotContains(page, "s3cret")

    def test_a_stored_traceback_has_no_message(self):
        job = failed()
        self.assertEqual(Attempt.objects.get(job=job).traceback, "  a.py:1 in f\n")
        self.assertEqual(again(job).last_error, "testapp.Broken")
