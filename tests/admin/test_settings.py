"""The admin under settings that change where rows are and what instants look like."""

from django.contrib.admin.models import LogEntry
from django.test import override_settings

from django_sqlqueue.models import Job, PausedQueue

from .base import JOBS, OVERVIEW, SCHEDULES, WORKERS, AdminTestCase, failed, job_url, running
from .test_pages import worker
from .test_rights import PAUSE


class Everywhere(AdminTestCase):
    databases = {"default", "other"}

    def walk(self):
        worker()
        job = failed(deadline=None)
        running()
        schedule = Job.objects.schedule("hourly", "testapp.noop", every=3600)
        for url in (JOBS, JOBS + "?status=failed&ended=hour", OVERVIEW, SCHEDULES, WORKERS):
            self.assertEqual(self.client.get(url).status_code, 200, url)
        self.operate("retry", job)
        self.act("pause", [schedule], SCHEDULES)
        self.client.post(PAUSE, {"queue": "mail"})
        page = self.client.get(job_url(job))
        self.assertContains(page, "Retried.")
        self.assertEqual(self.statuses(job), ["ready"])
        self.assertEqual(PausedQueue.objects.paused(), {"mail"})
        self.assertEqual(LogEntry.objects.count(), 3)

    @override_settings(SQLQUEUE={"DATABASE": "other"})
    def test_the_jobs_are_in_another_database(self):
        self.walk()
        self.assertEqual(Job.objects.using("default").count(), 0)
        self.assertEqual(Job.objects.using("other").count(), 3)

    @override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin")
    def test_instants_are_naive(self):
        self.walk()

    @override_settings(TIME_ZONE="Asia/Kathmandu", LANGUAGE_CODE="de")
    def test_another_time_zone_and_language(self):
        worker()
        job = failed()
        for url in (JOBS, OVERVIEW, SCHEDULES, WORKERS, job_url(job)):
            self.assertEqual(self.client.get(url).status_code, 200, url)
