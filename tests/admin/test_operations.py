"""What is done to selections of jobs and to one: what moves, what is skipped, what is told."""

from datetime import timedelta
from unittest import mock

from django.contrib.admin.models import LogEntry

from django_sqlqueue.admin import walks
from django_sqlqueue.models import Attempt, Job
from django_sqlqueue.newjob import NewJob

from .base import JOBS, AdminTestCase, again, failed, job_url, running


class Selections(AdminTestCase):
    def test_failed_jobs_are_retried(self):
        jobs = [failed(), failed()]
        response = self.act("retry", jobs)
        self.assertEqual(self.statuses(*jobs), ["ready", "ready"])
        self.assertEqual(self.messages(response), ["2 jobs retried."])

    def test_one_with_a_live_twin_is_skipped_and_told(self):
        Job.objects.enqueue_many([NewJob("testapp.fail", dedup_key=f"k{n:03}") for n in range(200)])
        Job.objects.update(status="failed", finished_at=Job.objects.all().engine.now())
        jobs = list(Job.objects.order_by("pk"))
        Job.objects.enqueue("testapp.fail", dedup_key=jobs[7].dedup_key)
        response = self.act("retry", jobs)
        self.assertEqual(
            self.messages(response), ["199 jobs retried; 1 skipped: an active twin exists."]
        )
        self.assertEqual(Job.objects.filter(status="ready").count(), 200)
        self.assertEqual(again(jobs[7]).status, "failed")

    def test_of_two_settled_twins_one_is_retried(self):
        jobs = [failed(dedup_key="k"), failed(dedup_key="k")]
        response = self.act("retry", jobs)
        self.assertEqual(
            self.messages(response), ["1 job retried; 1 skipped: an active twin exists."]
        )

    def test_jobs_that_still_wait_or_run_are_told_apart(self):
        response = self.act("retry", [failed(), Job.objects.enqueue("testapp.noop"), running()])
        self.assertEqual(
            self.messages(response),
            ["1 job retried; 2 skipped: they are still waiting or running."],
        )

    def test_ready_jobs_are_cancelled_and_running_ones_asked(self):
        runs, waits = running(), Job.objects.enqueue("testapp.noop")
        response = self.act("cancel", [runs, waits, failed()])
        self.assertEqual(self.statuses(runs, waits), ["running", "cancelled"])
        self.assertIsNotNone(again(runs).cancel_requested_at)
        self.assertEqual(
            self.messages(response),
            [
                "2 jobs cancelled or asked to stop; 1 skipped: it has ended, or was asked before.",
            ],
        )

    def test_waiting_jobs_are_made_due(self):
        job = Job.objects.enqueue("testapp.noop", delay=timedelta(hours=1))
        response = self.act("run_now", [job, running()])
        self.assertEqual(Job.objects.claim_next("host:1").pk, job.pk)
        self.assertEqual(
            self.messages(response),
            ["1 job is due now; 1 skipped: it is not waiting for its time."],
        )

    def test_a_paused_schedule_stays_paused(self):
        job = Job.objects.schedule("nightly", "testapp.noop", every=60)
        Job.objects.filter(pk=job.pk).pause_schedules()
        response = self.act("run_now", [job])
        self.assertEqual(
            self.messages(response),
            ["0 jobs are due now; 1 skipped: it is not waiting for its time."],
        )
        buttons = self.client.get(job_url(job)).context["buttons"]
        self.assertEqual([button.name for button in buttons], ["cancel", "remove"])

    def test_the_priority_is_asked_for_and_changed(self):
        job = Job.objects.enqueue("testapp.noop")
        asked = self.act("set_priority", [job])
        self.assertContains(asked, "Priority")
        self.assertEqual(again(job).priority, 0)
        wrong = self.act("set_priority", [job], confirmed="1", value="101")
        self.assertContains(wrong, "100")
        self.assertEqual(again(job).priority, 0)
        self.act("set_priority", [job], confirmed="1", value="7")
        self.assertEqual(again(job).priority, 7)

    def test_a_queue_that_is_not_listed_is_refused_in_the_form(self):
        job = Job.objects.enqueue("testapp.noop")
        with self.settings(SQLQUEUE={"QUEUES": ["default", "mail"]}):
            refused = self.act("move_to_queue", [job], confirmed="1", value="nowhere")
            self.assertContains(refused, "is not listed")
            self.act("move_to_queue", [job], confirmed="1", value="mail")
        self.assertEqual(again(job).queue, "mail")

    def test_deleting_asks_first_and_leaves_running_jobs(self):
        gone, runs = failed(), running()
        self.assertContains(self.act("remove", [gone, runs]), "cannot be undone")
        self.assertEqual(Job.objects.count(), 2)
        response = self.act("remove", [gone, runs], confirmed="1")
        self.assertEqual(self.messages(response), ["1 job deleted; 1 skipped: it is running."])
        self.assertEqual(list(Job.objects.values_list("pk", flat=True)), [runs.pk])
        self.assertFalse(Attempt.objects.exists())


class EverythingThatMatches(AdminTestCase):
    FAILED = JOBS + "?status=failed&reason=A"

    def setUp(self):
        super().setUp()
        self.wanted = [failed("A") for _ in range(7)]
        self.other = failed("B")

    def test_it_is_asked_first_with_the_number(self):
        self.assertContains(self.act("retry", "all", self.FAILED), "7 jobs are selected.")
        self.assertEqual(self.statuses(*self.wanted), ["failed"] * 7)

    def test_only_what_matches_the_filter_moves(self):
        response = self.act("retry", "all", self.FAILED, confirmed="1")
        self.assertEqual(self.messages(response), ["7 jobs retried."])
        self.assertEqual(self.statuses(*self.wanted, self.other), ["ready"] * 7 + ["failed"])

    def test_it_goes_on_over_requests_in_batches(self):
        with mock.patch.object(walks, "BATCH", 3), mock.patch.object(walks, "SECONDS", 0):
            page = self.act("retry", "all", self.FAILED, confirmed="1")
            self.assertContains(page, "3 jobs retried.")
            self.assertEqual(Job.objects.filter(status="ready").count(), 3)
            for _ in range(2):
                token = page.context["signed"]
                page = self.act("retry", "all", self.FAILED, confirmed="1", walk=token)
        self.assertEqual(self.messages(page), ["7 jobs retried."])

    def test_jobs_that_fail_again_meanwhile_are_not_walked_twice(self):
        with mock.patch.object(walks, "BATCH", 3), mock.patch.object(walks, "SECONDS", 0):
            page = self.act("retry", "all", self.FAILED, confirmed="1")
            while not self.messages(page):
                while job := Job.objects.claim_next("host:1"):
                    job.abandon("A")
                failed("A")
                token = page.context["signed"]
                page = self.act("retry", "all", self.FAILED, confirmed="1", walk=token)
        self.assertEqual(self.messages(page), ["7 jobs retried."])

    def test_a_forged_progress_is_refused(self):
        response = self.act("retry", "all", self.FAILED, confirmed="1", walk="WzEsMSwxXQ:x:y")
        self.assertEqual(response.status_code, 403)

    def test_the_log_has_one_entry_with_what_matched(self):
        self.act("retry", "all", self.FAILED, confirmed="1")
        entry = LogEntry.objects.get()
        self.assertIn("status=failed", entry.object_repr)
        self.assertIn("7 jobs retried.", entry.change_message)
        self.assertEqual(entry.user, self.user)


class OneJob(AdminTestCase):
    def test_the_buttons_are_those_that_its_status_allows(self):
        names = {
            "failed": ["retry", "remove"],
            "running": ["cancel"],
            "later": ["run_now", "cancel", "remove"],
        }
        jobs = {
            "failed": failed(),
            "running": running(),
            "later": Job.objects.enqueue("testapp.noop", delay=60),
        }
        for key, job in jobs.items():
            buttons = self.client.get(job_url(job)).context["buttons"]
            self.assertEqual([button.name for button in buttons], names[key], key)

    def test_a_failed_job_is_retried_and_its_page_names_who_did_it(self):
        job = failed()
        response = self.operate("retry", job)
        self.assertRedirects(response, job_url(job))
        self.assertEqual(again(job).status, "ready")
        self.assertContains(self.client.get(job_url(job)), "– chief")

    def test_retrying_beside_a_live_twin_is_told_and_links_to_the_twin(self):
        job = failed(dedup_key="k")
        twin = Job.objects.enqueue("testapp.fail", dedup_key="k")
        response = self.operate("retry", job)
        self.assertEqual(
            self.messages(response), ["0 jobs retried; 1 skipped: an active twin exists."]
        )
        self.assertContains(self.client.get(job_url(job)), f'<a href="{job_url(twin)}">')
        self.assertFalse(LogEntry.objects.exists())

    def test_a_running_job_is_not_deleted(self):
        job = running()
        self.operate("remove", job)
        self.assertEqual(again(job).status, "running")

    def test_a_deleted_job_leaves_a_line_in_the_log(self):
        job = failed()
        self.assertRedirects(self.operate("remove", job), JOBS)
        entry = LogEntry.objects.get()
        self.assertEqual((entry.object_id, entry.is_deletion()), (str(job.pk), True))

    def test_an_unknown_operation_or_job_is_not_found(self):
        job = failed()
        self.assertEqual(self.operate("explode", job).status_code, 404)
        Job.objects.filter(pk=job.pk).remove()
        self.assertEqual(self.operate("retry", job).status_code, 404)


class ChangedPayload(AdminTestCase):
    def post(self, job, text):
        return self.client.post(job_url(job, "again"), {"payload": text})

    def test_a_new_job_is_made_and_each_names_the_other(self):
        job = failed(payload={"broken": 1}, ref="order:42")
        self.assertContains(self.client.get(job_url(job, "again")), "&quot;broken&quot;: 1")
        self.post(job, '{"fixed": 1}')
        new = Job.objects.get(status="ready")
        self.assertEqual((new.payload, new.ref, new.kind), ({"fixed": 1}, "order:42", job.kind))
        self.assertEqual(again(job).payload, {"broken": 1})
        self.assertContains(self.client.get(job_url(new)), f'<a href="{job_url(job)}">#{job.pk}<')
        self.assertContains(self.client.get(job_url(job)), f'<a href="{job_url(new)}">#{new.pk}<')

    def test_what_is_no_payload_is_refused_in_the_form_and_kept(self):
        job = failed()
        for text in ('{"a": ', '{"a": NaN}', '"\\ud800"', "[" * 100 + "]" * 100):
            page = self.post(job, text)
            self.assertEqual(page.status_code, 200, text)
            self.assertTrue(page.context["form"].errors, text)
        self.assertEqual(Job.objects.count(), 1)

    def test_a_live_twin_is_told(self):
        job = failed(dedup_key="k")
        Job.objects.enqueue("testapp.fail", dedup_key="k")
        response = self.post(job, "{}")
        self.assertEqual(self.messages(response), ["Nothing was enqueued: an active twin exists."])
