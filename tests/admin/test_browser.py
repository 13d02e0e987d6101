"""Walks through the admin in a real Chromium, as an operator takes them.

They need the playwright package and a Chromium of the system's; without they are skipped.
"""

import os
import shutil
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles.testing import StaticLiveServerTestCase
from django.db import connection

from django_sqlqueue.admin import walks
from django_sqlqueue.models import Job, PausedQueue
from django_sqlqueue.testing import run_jobs
from tests.testapp.models import Effect

from .base import JOBS, OVERVIEW, SCHEDULES, VIEWS, WORKERS, failed, job_url, running, user_with
from .test_pages import worker

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
EVIL = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\'"&{{x}}'

pytestmark = [
    pytest.mark.browser,
    # The threads of Django's live server leave their connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (chromium)"),
    pytest.mark.skipif(
        connection.vendor != "sqlite" and not os.environ.get("BROWSER_EVERYWHERE"),
        reason="the browser sees no difference between engines; BROWSER_EVERYWHERE=1 runs it",
    ),
]

NAMELESS = """() => [...document.querySelectorAll(
    "#content a, #content button, #content input:not([type=hidden]), #content select,"
    + " #content textarea, #content summary, #content progress, #content svg")]
  .filter(e => e.offsetParent !== null || e.tagName === "svg")
  .filter(e => !((e.labels && e.labels.length) || e.getAttribute("aria-label")
    || e.getAttribute("aria-labelledby") || e.textContent.trim() || e.value && e.type === "submit"))
  .map(e => e.outerHTML.slice(0, 200))"""

CONTRASTS = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(
      v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const ground = e => { for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(c)) return c; } return "rgb(255, 255, 255)" };
  return [...document.querySelectorAll(
      ".sq-status, .sq-quiet, .sq-count, .sq-tile b, .sq-tile span, .sq-tone-failed,"
      + " .sq-tone-done, .sq-page .button, .sq-steps small, .sq-card pre, .sq-age, .sq-why,"
      + " .sq-reason, .sq-legend span, .sq-ends span, .sq-table th, .sq-table td, .sq-table a,"
      + " .sq-facts dt, .sq-facts dd, .sq-lead, .sq-crumbs li, .sq-crumbs a")]
    .filter(e => e.offsetParent !== null)
    .map(e => { const a = light(getComputedStyle(e).color), b = light(ground(e));
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 120)] })
    .filter(([ratio]) => ratio < 4.5) }"""


class BrowserTestCase(StaticLiveServerTestCase):
    @classmethod
    def setUpClass(cls):
        # Playwright keeps an event loop in this thread, which Django takes for asynchronous code.
        cls.enterClassContext(mock.patch.dict(os.environ, {"DJANGO_ALLOW_ASYNC_UNSAFE": "1"}))
        super().setUpClass()
        playwright = cls.enterClassContext(sync_api.sync_playwright())
        cls.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.open_browser()

    def open_browser(self, **options):
        context = self.browser.new_context(**options)
        self.addCleanup(context.close)
        self.page = context.new_page()
        self.page.set_default_timeout(20_000)
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))
        self.log_in(User.objects.create_superuser(f"chief{User.objects.count()}"))

    def log_in(self, user):
        self.client.force_login(user)
        name, session = "sessionid", self.client.cookies["sessionid"].value
        cookie = {"name": name, "value": session, "url": self.live_server_url}
        self.page.context.add_cookies([cookie])

    def tearDown(self):
        self.assertEqual(self.faults, [])

    def open(self, path):
        response = self.page.goto(self.live_server_url + path)
        self.assertEqual(response.status, 200, path)

    def press(self, name, role="button"):
        with self.page.expect_navigation():
            self.page.get_by_role(role, name=name, exact=True).first.click()

    def sees(self, text):
        self.page.get_by_text(text).first.wait_for()


class Walks(BrowserTestCase):
    def test_a_failure_is_read_put_right_and_seen_done(self):
        Job.objects.enqueue("testapp.record", {"wrong": "key"}, ref="order:42", max_attempts=1)
        run_jobs()
        self.open(OVERVIEW)
        self.press("KeyError", "link")
        self.page.locator("#result_list .field-job a").click()
        self.sees("It failed for good")
        self.sees("tests/testapp/jobs.py")
        self.press("Retry with changed payload…", "link")
        self.page.get_by_label("Payload").fill('{"name": ')
        self.press("Enqueue the new job")
        self.sees("This is not JSON")
        self.page.get_by_label("Payload").fill('{"name": "put right"}')
        self.press("Enqueue the new job")
        self.sees("with a changed payload")
        run_jobs()
        self.page.reload()
        self.sees("It was done on")
        self.assertEqual(Effect.objects.get().name, "put right")

    def test_a_job_is_retried_by_the_keyboard_alone(self):
        job = failed()
        self.open(job_url(job))
        self.page.get_by_role("button", name="Retry", exact=True).focus()
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")
        self.sees("1 job retried.")
        self.assertEqual(Job.objects.get(pk=job.pk).status, "ready")

    def test_all_failed_for_one_reason_are_retried(self):
        jobs = [failed("timeout"), failed("timeout"), failed("other.Reason")]
        self.open(OVERVIEW)
        self.press("Retry all failed with timeout")
        self.sees("2 jobs are selected.")
        self.press("Retry")
        self.sees("2 jobs retried.")
        statuses = [Job.objects.get(pk=job.pk).status for job in jobs]
        self.assertEqual(statuses, ["ready", "ready", "failed"])

    def test_all_jobs_that_match_are_worked_through_by_themselves(self):
        Job.objects.enqueue_many([("testapp.noop", None)] * 130)
        self.open(JOBS + "?status=ready")
        self.page.get_by_label("Select all objects on this page for an action").check()
        self.page.get_by_role("button", name="Select all jobs that match, on every page").click()
        self.page.locator("select[name=action]").select_option("cancel")
        with self.page.expect_navigation():
            self.page.locator("button[name=index]").first.click()
        with mock.patch.object(walks, "BATCH", 50), mock.patch.object(walks, "SECONDS", 0):
            self.page.get_by_role("button", name="Cancel", exact=True).click()
            self.sees("130 jobs cancelled")
        self.assertEqual(Job.objects.stats()["cancelled"], 130)

    def test_a_queue_is_paused_and_resumed(self):
        Job.objects.enqueue("testapp.noop", queue="mail")
        self.open(OVERVIEW)
        self.press("Pause queue mail")
        self.sees("Queue “mail” is paused.")
        self.assertIsNone(Job.objects.claim_next("host:1"))
        self.press("Resume queue mail")
        self.assertEqual(PausedQueue.objects.paused(), set())

    def test_a_schedule_is_edited(self):
        Job.objects.schedule("nightly", "testapp.noop", every=3600)
        self.open(SCHEDULES)
        self.sees("every hour")
        self.press("nightly", "link")
        self.page.locator("[name=every_0]").fill("15")
        self.page.locator("[name=every_1]").select_option("m")
        self.press("Save")
        self.sees("every 15 minutes")

    def test_deleting_asks_on_the_page(self):
        job = failed()
        self.open(job_url(job))
        button = self.page.get_by_role("button", name=f"Delete job {job.pk}")
        self.assertFalse(button.is_visible())
        self.page.locator("summary", has_text="Delete…").click()
        self.press(f"Delete job {job.pk}")
        self.sees("1 job deleted.")
        self.assertFalse(Job.objects.exists())

    def test_a_viewer_finds_no_button(self):
        job = failed()
        self.log_in(user_with(*VIEWS))
        for url in (JOBS, OVERVIEW, job_url(job), SCHEDULES, WORKERS):
            self.open(url)
            content = self.page.locator("#content")
            self.assertEqual(content.locator("form[method=post] button").count(), 0, url)
            self.assertEqual(content.locator("select[name=action]").count(), 0, url)


class EveryPage(BrowserTestCase):
    def fill(self, text):
        worker(text, queues=[text], kinds=[text])
        Job.objects.enqueue("testapp.noop", {text: text}, ref=text, queue=text, dedup_key=text)
        running(ref=text).report_progress(40, text)
        job = failed(text, payload={text: text}, ref=text)
        Job.objects.schedule(text, text, every=60, payload={text: text}, queue=text)
        PausedQueue.objects.pause(text)
        views = [job_url(job), job_url(job, "again"), job_url(job, "history")]
        adds = [SCHEDULES + "add/", JOBS + "?status=failed"]
        return [JOBS, OVERVIEW, SCHEDULES, WORKERS, *adds, *views]

    def test_hostile_values_do_nothing(self):
        for url in self.fill(EVIL):
            self.open(url)
            self.assertIsNone(self.page.evaluate("window.hit ?? null"), url)

    def test_everything_has_a_name_and_can_be_read_in_light_and_dark(self):
        urls = self.fill("plain")
        for scheme in ("light", "dark"):
            self.open_browser(color_scheme=scheme)
            for url in urls:
                self.open(url)
                self.assertEqual(self.page.evaluate(NAMELESS), [], url)
                self.assertEqual(self.page.evaluate(CONTRASTS), [], (url, scheme))

    def test_nothing_is_wider_than_a_narrow_screen(self):
        self.open_browser(viewport={"width": 390, "height": 800})
        for url in self.fill("a.rather.long.name_of_something"):
            self.open(url)
            width = self.page.evaluate("document.documentElement.scrollWidth")
            self.assertLessEqual(width, 391, url)
