"""Schedules in the admin: their rhythm in words, the form, and pausing."""

from datetime import timedelta

from django.contrib.admin.models import LogEntry
from django.urls import reverse

from django_sqlqueue.models import Job, Schedule

from .base import SCHEDULES, AdminTestCase

ADD = reverse("admin:django_sqlqueue_schedule_add")


class Schedules(AdminTestCase):
    def form(self, **values):
        return {
            "name": "nightly", "kind": "testapp.noop", "payload": "", "every_0": "",
            "every_1": "m", "cron": "", "timezone": "", "missed": "once", "first": "",
            "queue": "", "priority": "", "max_attempts": "", "ref": "", "lifetime_0": "",
            "lifetime_1": "m",
        } | values  # fmt: skip

    def change_url(self, job):
        return reverse("admin:django_sqlqueue_schedule_change", args=[job.pk])

    def errors(self, response):
        return response.context["adminform"].form.errors

    def test_one_is_added_with_an_interval(self):
        data = self.form(every_0="1.5", every_1="h", payload='{"a": 1}', priority="3")
        self.assertRedirects(self.client.post(ADD, data), SCHEDULES)
        job = Job.objects.get()
        self.assertEqual((job.name, job.interval), ("nightly", timedelta(hours=1.5)))
        self.assertEqual((job.payload, job.priority), ({"a": 1}, 3))
        self.assertEqual(LogEntry.objects.get().object_repr, "nightly")

    def test_what_schedule_refuses_is_told_at_the_field_and_nothing_is_written(self):
        cases = {
            "every": {},
            "cron": {"cron": "61 * * * *"},
            "timezone": {"cron": "0 0 * * *", "timezone": "Mars/Base"},
            "payload": {"every_0": "5", "payload": '{"a": NaN}'},
            "name": {"every_0": "5", "name": ""},
            "kind": {"every_0": "5", "kind": "k" * 201},
            "priority": {"every_0": "5", "priority": "101"},
        }
        for field, values in cases.items():
            response = self.client.post(ADD, self.form(**values))
            self.assertEqual(response.status_code, 200, field)
            self.assertIn(field, self.errors(response))
        self.assertFalse(Job.objects.exists())

    def test_a_changed_rhythm_takes_effect_and_the_name_stays(self):
        job = Job.objects.schedule("nightly", "testapp.noop", every=60)
        self.assertContains(self.client.get(self.change_url(job)), "nightly")
        data = self.form(name="other", cron="0 3 * * *", timezone="Europe/Berlin")
        self.assertRedirects(self.client.post(self.change_url(job), data), SCHEDULES)
        job = Job.objects.get()
        self.assertEqual(
            (job.name, job.cron, job.timezone), ("nightly", "0 3 * * *", "Europe/Berlin")
        )

    def test_saving_it_unchanged_keeps_its_due_time(self):
        job = Job.objects.schedule("nightly", "testapp.noop", every=3600, deadline=600)
        page = self.client.get(self.change_url(job)).context["adminform"].form
        self.assertEqual(page["lifetime"].value(), timedelta(minutes=10))
        data = self.form(every_0="1", every_1="h", lifetime_0="10")
        self.client.post(self.change_url(job), data)
        after = Job.objects.get()
        self.assertEqual((after.due_at, after.deadline), (job.due_at, job.deadline))

    def test_the_first_due_time_is_taken_in_the_projects_time_zone(self):
        self.client.post(ADD, self.form(every_0="5", first="2030-05-01T10:30"))
        self.assertEqual(str(Job.objects.get().due_at), "2030-05-01 10:30:00+00:00")

    def test_who_edits_a_declared_one_is_warned(self):
        job = Job.objects.declare("nightly", "testapp.noop", every=60)
        response = self.client.post(self.change_url(job), self.form(every_0="5"))
        self.assertIn("will put it back", self.messages(response)[0])

    def test_they_are_paused_resumed_run_and_ended(self):
        job = Job.objects.schedule("nightly", "testapp.noop", cron="0 3 1 1 *")
        self.act("pause", [job], SCHEDULES)
        self.assertContains(self.client.get(SCHEDULES), ">paused<")
        self.assertIsNone(Job.objects.claim_next("host:1"))
        self.act("resume", [job], SCHEDULES)
        self.act("run_now", [job], SCHEDULES)
        Job.objects.claim_next("host:1").complete()
        page = self.client.get(SCHEDULES)
        self.assertContains(page, "every year on January 1 at 03:00")
        self.assertContains(page, "sq-tone-done")
        response = self.act("end", [job], SCHEDULES)
        self.assertEqual(self.messages(response)[-1], "1 schedule has ended.")
        self.assertEqual(self.statuses(job), ["cancelled"])
        self.assertEqual(LogEntry.objects.count(), 4)

    def test_what_cannot_be_paused_is_told(self):
        job = Job.objects.schedule("nightly", "testapp.noop", every=60)
        Job.objects.claim_next("host:1")
        response = self.act("pause", [job], SCHEDULES)
        self.assertIn("1 skipped", self.messages(response)[0])

    def test_the_log_names_those_that_moved(self):
        running = Job.objects.schedule("running", "testapp.noop", every=60)
        Job.objects.claim_next("host:1")
        waiting = Job.objects.schedule("waiting", "testapp.noop", every=60)
        self.act("pause", [running, waiting], SCHEDULES)
        logged = LogEntry.objects.values_list("object_id", "change_message")
        self.assertEqual(list(logged), [(str(waiting.pk), "Paused.")])

    def test_a_viewer_looks_but_does_not_touch(self):
        job = Job.objects.schedule("nightly", "testapp.noop", every=60)
        self.as_user_with("view_schedule")
        self.assertEqual(self.client.get(self.change_url(job)).status_code, 200)
        self.act("end", [job], SCHEDULES)
        self.client.post(self.change_url(job), self.form(cron="0 3 * * *"))
        self.assertEqual(self.client.post(ADD, self.form(every_0="5", name="x")).status_code, 403)
        self.assertEqual(Schedule.objects.get().interval, timedelta(minutes=1))
        self.assertEqual(self.statuses(job), ["ready"])
