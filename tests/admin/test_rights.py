"""Who may not do a thing is not offered it, and is refused when asking for it by hand."""

from django.test import Client
from django.urls import reverse

from django_sqlqueue.admin.operations import OPERATIONS
from django_sqlqueue.models import Job, PausedQueue, Schedule

from .base import (
    JOBS,
    OVERVIEW,
    SCHEDULES,
    VIEWS,
    WORKERS,
    AdminTestCase,
    again,
    failed,
    job_url,
)

PAUSE = reverse("admin:django_sqlqueue_pausedqueue_pause")
RESUME = reverse("admin:django_sqlqueue_pausedqueue_resume")


class Viewer(AdminTestCase):
    def setUp(self):
        self.job = failed(payload={"token": "s3cret"})
        self.as_user_with(*VIEWS)

    def test_every_page_opens(self):
        for url in (JOBS, OVERVIEW, SCHEDULES, WORKERS, job_url(self.job)):
            self.assertEqual(self.client.get(url).status_code, 200, url)

    def test_no_act_is_offered(self):
        self.assertNotContains(self.client.get(JOBS), 'name="action"')
        self.assertEqual(self.client.get(job_url(self.job)).context["buttons"], [])
        self.assertNotContains(self.client.get(OVERVIEW), 'value="retry"')
        self.assertNotContains(self.client.get(OVERVIEW), PAUSE)

    def test_acts_posted_by_hand_change_nothing(self):
        for name in OPERATIONS:
            self.act(name, [self.job], confirmed="1", value="1")
            self.assertIn(self.operate(name, self.job).status_code, (403, 404), name)
        self.assertEqual(again(self.job).status, "failed")
        self.assertEqual(self.client.post(PAUSE, {"queue": "mail"}).status_code, 403)
        self.assertFalse(PausedQueue.objects.exists())

    def test_the_payload_is_not_shown(self):
        page = self.client.get(job_url(self.job))
        self.assertNotContains(page, "s3cret")
        self.assertContains(page, "no permission to see payloads")
        again_url = job_url(self.job, "again")
        self.assertEqual(self.client.get(again_url).status_code, 403)
        self.assertEqual(self.client.post(again_url, {"payload": "{}"}).status_code, 403)


class Nobody(AdminTestCase):
    def setUp(self):
        self.job = failed()
        self.as_user_with()

    def test_nothing_is_shown(self):
        for url in (JOBS, OVERVIEW, SCHEDULES, WORKERS, job_url(self.job)):
            self.assertEqual(self.client.get(url).status_code, 403, url)
        self.assertEqual(self.operate("retry", self.job).status_code, 403)

    def test_who_is_not_logged_in_is_sent_to_the_login(self):
        self.client.logout()
        for url in (OVERVIEW, job_url(self.job)):
            self.assertEqual(self.client.get(url).status_code, 302)
        self.operate("retry", self.job)
        self.assertEqual(again(self.job).status, "failed")


class PermissionsOfTheirOwn(AdminTestCase):
    def test_retrying_needs_change_or_its_own(self):
        jobs = [failed(), failed()]
        for job, codename in zip(jobs, ("retry_job", "change_job"), strict=True):
            self.as_user_with("view_job", codename)
            self.act("retry", [job])
            self.assertEqual(again(job).status, "ready", codename)

    def test_who_may_retry_may_not_cancel(self):
        job = Job.objects.enqueue("testapp.noop")
        self.as_user_with("view_job", "retry_job")
        actions = self.client.get(JOBS).context["action_form"].fields["action"].choices
        self.assertEqual([name for name, _label in actions], ["", "retry"])
        self.act("cancel", [job])
        self.assertEqual(self.operate("cancel", job).status_code, 403)
        self.assertEqual(again(job).status, "ready")

    def test_payloads_are_shown_to_who_may_see_them(self):
        job = failed(payload={"visible": 1})
        self.as_user_with("view_job", "view_payload")
        self.assertContains(self.client.get(job_url(job)), "&quot;visible&quot;: 1")

    def test_pausing_and_resuming_are_rights_of_their_own(self):
        self.as_user_with("view_job", "add_pausedqueue")
        self.client.post(PAUSE, {"queue": "mail"})
        self.assertEqual(PausedQueue.objects.paused(), {"mail"})
        self.assertEqual(self.client.post(RESUME, {"queue": "mail"}).status_code, 403)
        self.as_user_with("view_job", "delete_pausedqueue")
        self.client.post(RESUME, {"queue": "mail"})
        self.assertEqual(PausedQueue.objects.paused(), set())


class RowsAreNotForms(AdminTestCase):
    def test_nothing_can_be_added_or_edited_by_hand(self):
        job = failed()
        self.assertEqual(self.client.get(reverse("admin:django_sqlqueue_job_add")).status_code, 403)
        response = self.client.post(job_url(job), {"status": "done", "kind": "x"})
        self.assertEqual(response.status_code, 405)
        self.assertEqual(again(job).status, "failed")

    def test_looking_changes_nothing(self):
        job = failed()
        for url in (
            job_url(job, "operate") + "?operation=retry",
            PAUSE + "?queue=mail",
            RESUME + "?queue=mail",
        ):
            self.assertEqual(self.client.get(url).status_code, 405, url)
        self.client.get(f"{JOBS}?action=retry&_selected_action={job.pk}")
        self.client.get(job_url(job, "delete"))
        self.assertEqual(again(job).status, "failed")
        self.assertFalse(PausedQueue.objects.exists())

    def test_a_post_without_its_token_is_refused(self):
        job = failed()
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(self.user)
        data = {"operation": "retry", "action": "retry", "_selected_action": job.pk, "queue": "q"}
        for url in (job_url(job, "operate"), job_url(job, "again"), JOBS, PAUSE):
            self.assertEqual(strict.post(url, data).status_code, 403, url)
        self.assertEqual(again(job).status, "failed")

    def test_a_schedule_cannot_be_deleted_as_a_row(self):
        Job.objects.schedule("hourly", "testapp.noop", every=3600)
        url = reverse("admin:django_sqlqueue_schedule_delete", args=[Schedule.objects.get().pk])
        self.assertEqual(self.client.post(url, {"post": "yes"}).status_code, 403)
