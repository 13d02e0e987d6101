"""What the tests of the admin share: users with rights, and the addresses of the pages."""

from django.contrib.auth.models import Permission, User
from django.test import TestCase
from django.urls import reverse

from django_sqlqueue.models import Job

JOBS = reverse("admin:django_sqlqueue_job_changelist")
OVERVIEW = reverse("admin:django_sqlqueue_job_overview")
SCHEDULES = reverse("admin:django_sqlqueue_schedule_changelist")
WORKERS = reverse("admin:django_sqlqueue_worker_changelist")
VIEWS = ("view_job", "view_schedule", "view_worker", "view_pausedqueue")


def user_with(*codenames):
    """Make a member of the staff with these permissions only."""
    user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


def job_url(job, view="change"):
    return reverse(f"admin:django_sqlqueue_job_{view}", args=[job.pk])


def failed(reason="testapp.Broken", **options):
    """Make a job that has failed for good."""
    job = Job.objects.enqueue("testapp.fail", priority=100, **options)
    claimed = Job.objects.claim_next("host:1")
    assert claimed.pk == job.pk
    Job.objects.all().settle(claimed, Job.objects.all().failure(claimed, reason, "  a.py:1 in f\n"))
    return again(job)


def running(**options):
    job = Job.objects.enqueue("testapp.noop", priority=100, **options)
    claimed = Job.objects.claim_next("host:1")
    assert claimed.pk == job.pk
    return claimed


def again(job):
    return Job.objects.get(pk=job.pk)


class AdminTestCase(TestCase):
    """Logged in as who may do everything, until as_user_with."""

    def setUp(self):
        self.user = User.objects.create_superuser("chief")
        self.client.force_login(self.user)

    def as_user_with(self, *codenames):
        self.user = user_with(*codenames)
        self.client.force_login(self.user)

    def act(self, action, jobs, url=JOBS, **fields):
        """Post an action of the list for these jobs; "all" is all that match."""
        across = jobs == "all"
        selected = ["0"] if across else [job.pk for job in jobs]
        data = {"action": action, "_selected_action": selected, "select_across": int(across)}
        return self.client.post(url, data | fields)

    def operate(self, operation, job):
        return self.client.post(job_url(job, "operate"), {"operation": operation})

    def messages(self, response):
        return [str(message) for message in response.wsgi_request._messages]

    def statuses(self, *jobs):
        return [again(job).status for job in jobs]
