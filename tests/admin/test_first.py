"""What any user of the admin may count on: the pages open, and rights are asked for."""

from django.contrib.auth.models import Permission, User
from django.test import TestCase
from django.urls import reverse

from django_sqlqueue.models import Attempt, Job

LIST = reverse("admin:django_sqlqueue_job_changelist")


def user_with(*codenames):
    user = User.objects.create_user("someone", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


class FirstAdmin(TestCase):
    def setUp(self):
        self.job = Job.objects.enqueue("testapp.fail", ref="library:42")
        Job.objects.claim_next("runner").abandon("testapp.Broken")

    def act(self, action):
        return self.client.post(LIST, {"action": action, "_selected_action": [self.job.pk]})

    def test_a_viewer_sees_the_list_and_the_job(self):
        Attempt.objects.get(job=self.job)
        self.client.force_login(user_with("view_job"))
        self.assertContains(self.client.get(LIST), "library:42")
        page = self.client.get(reverse("admin:django_sqlqueue_job_change", args=[self.job.pk]))
        self.assertContains(page, "testapp.Broken")

    def test_a_viewer_cannot_retry(self):
        self.client.force_login(user_with("view_job"))
        self.assertNotContains(self.client.get(LIST), 'value="retry"')
        self.act("retry")
        self.job.refresh_from_db()
        self.assertEqual(self.job.status, "failed")

    def test_who_may_change_jobs_retries_and_cancels_them(self):
        self.client.force_login(user_with("view_job", "change_job"))
        self.act("retry")
        self.job.refresh_from_db()
        self.assertEqual(self.job.status, "ready")
        self.act("cancel")
        self.job.refresh_from_db()
        self.assertEqual(self.job.status, "cancelled")
