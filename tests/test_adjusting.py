"""What an operator changes of jobs that do not run, and which jobs are left alone."""

from datetime import timedelta

from django.test import TestCase
from django.utils import timezone

from django_sqlqueue.exceptions import InvalidJob
from django_sqlqueue.models import Attempt, Job, PausedQueue

HOUR = timedelta(hours=1)


def enqueue(kind="testapp.noop", **options):
    return Job.objects.enqueue(kind, **options)


def running():
    job = enqueue()
    (claimed,) = Job.objects.claim("runner", kinds=[job.kind])
    return claimed


def settled():
    job = running()
    job.complete()
    return job


def again(job):
    return Job.objects.get(pk=job.pk)


class RunNow(TestCase):
    def test_a_job_that_waits_for_its_time_is_due_at_once(self):
        job = enqueue(delay=HOUR)
        self.assertEqual(Job.objects.filter(pk=job.pk).run_now(), 1)
        self.assertEqual([j.pk for j in Job.objects.claim("runner")], [job.pk])

    def test_jobs_that_are_due_run_or_have_ended_are_left_alone(self):
        jobs = [settled(), running(), enqueue()]
        before = {job.pk: again(job).run_at for job in jobs}
        self.assertEqual(Job.objects.all().run_now(), 0)
        self.assertEqual({job.pk: again(job).run_at for job in jobs}, before)

    def test_a_schedule_runs_one_extra_time_and_keeps_its_planned_time(self):
        planned = timezone.now() + 3 * HOUR
        job = Job.objects.schedule("nightly", "testapp.noop", every=HOUR, run_at=planned)
        self.assertEqual(Job.objects.filter(pk=job.pk).run_now(), 1)
        (claimed,) = Job.objects.claim("runner")
        self.assertTrue(claimed.complete())
        job = again(job)
        self.assertLessEqual(job.due_at, timezone.now() + HOUR)
        self.assertEqual((planned - job.due_at) % HOUR, timedelta(0))
        self.assertEqual(job.missed_count, 0)

    def test_an_extra_run_has_a_deadline_of_its_own_and_the_planned_one_keeps_its(self):
        planned = timezone.now() + timedelta(minutes=50)
        job = Job.objects.schedule(
            "nightly", "testapp.noop", every=HOUR, run_at=planned, deadline=timedelta(minutes=5)
        )
        for _ in range(3):
            Job.objects.filter(pk=job.pk).run_now()
            (extra,) = Job.objects.claim("runner")
            self.assertGreater(extra.deadline, timezone.now() + timedelta(minutes=4))
            self.assertTrue(extra.complete())
            later = again(job)
            self.assertEqual(later.due_at, job.due_at)
            self.assertEqual(later.deadline, job.deadline)

    def test_a_cron_schedule_goes_on_with_its_next_match(self):
        job = Job.objects.schedule("yearly", "testapp.noop", cron="0 0 1 1 *", timezone="UTC")
        planned = job.due_at
        Job.objects.filter(pk=job.pk).run_now()
        Job.objects.claim_next("runner").complete()
        self.assertEqual(again(job).due_at, planned)


class PriorityAndQueue(TestCase):
    def test_ready_jobs_get_the_new_priority_and_no_others(self):
        ended, runs, waits = settled(), running(), enqueue()
        self.assertEqual(Job.objects.all().set_priority(7), 1)
        self.assertEqual([again(job).priority for job in (ended, runs, waits)], [0, 0, 7])

    def test_ready_jobs_move_to_the_queue_and_no_others(self):
        runs, waits = running(), enqueue()
        self.assertEqual(Job.objects.all().move_to_queue("mail"), 1)
        self.assertEqual([again(job).queue for job in (runs, waits)], ["default", "mail"])

    def test_values_that_enqueue_refuses_are_refused(self):
        job = enqueue()
        for change in (
            lambda: Job.objects.all().set_priority(101),
            lambda: Job.objects.all().move_to_queue("q" * 101),
        ):
            with self.assertRaises(InvalidJob):
                change()
        self.assertEqual((again(job).priority, again(job).queue), (0, "default"))


class Remove(TestCase):
    def test_all_but_running_jobs_go_with_their_history(self):
        failed = running()
        failed.abandon("Broken")
        runs, waits = running(), enqueue()
        self.assertEqual(Job.objects.all().remove(), 2)
        self.assertEqual(list(Job.objects.values_list("pk", flat=True)), [runs.pk])
        self.assertFalse(Attempt.objects.exists())
        self.assertTrue(runs.complete())
        self.assertFalse(Job.objects.filter(pk=waits.pk).exists())


class PausedSchedules(TestCase):
    def setUp(self):
        self.job = Job.objects.schedule("hourly", "testapp.noop", every=HOUR)
        self.rows = Job.objects.filter(pk=self.job.pk)

    def test_a_paused_schedule_does_not_run(self):
        self.assertEqual(self.rows.pause_schedules(), 1)
        self.assertEqual(self.rows.pause_schedules(), 0)
        self.assertEqual(Job.objects.claim("runner"), [])

    def test_a_resumed_one_goes_on_at_its_due_time(self):
        self.rows.pause_schedules()
        self.assertEqual(self.rows.resume_schedules(), 1)
        self.assertEqual(again(self.job).run_at, self.job.due_at)
        self.assertEqual(self.rows.resume_schedules(), 0)
        self.assertEqual(len(Job.objects.claim("runner")), 1)

    def test_declaring_it_again_does_not_wake_it(self):
        self.rows.pause_schedules()
        Job.objects.schedule("hourly", "testapp.noop", every=HOUR, priority=3)
        self.assertEqual(Job.objects.claim("runner"), [])

    def test_running_it_now_does_not_resume_it(self):
        self.rows.pause_schedules()
        self.assertEqual(self.rows.run_now(), 0)
        self.assertEqual(Job.objects.claim("runner"), [])
        self.assertEqual(self.rows.resume_schedules(), 1)

    def test_plain_and_running_jobs_are_not_paused(self):
        Job.objects.claim_next("runner")
        enqueue()
        self.assertEqual(Job.objects.all().pause_schedules(), 0)


class EnqueueAgain(TestCase):
    def test_the_new_job_is_like_the_old_one_but_for_its_payload(self):
        old = enqueue(ref="library:42", queue="mail", priority=3, dedup_key="k", max_attempts=2)
        Job.objects.filter(pk=old.pk).cancel()
        new = Job.objects.enqueue_again(old, {"fixed": True})
        same = ("kind", "ref", "queue", "priority", "dedup_key", "max_attempts")
        self.assertEqual([getattr(new, f) for f in same], [getattr(old, f) for f in same])
        self.assertEqual((new.payload, new.status), ({"fixed": True}, "ready"))
        self.assertEqual(again(old).status, "cancelled")

    def test_nothing_is_made_while_a_live_job_holds_the_key(self):
        old = enqueue(dedup_key="k")
        self.assertIsNone(Job.objects.enqueue_again(old, {}))


class PausedQueues(TestCase):
    def test_nothing_is_claimed_from_a_paused_queue_until_it_is_resumed(self):
        job = enqueue(queue="mail")
        self.assertTrue(PausedQueue.objects.pause("mail"))
        self.assertEqual(PausedQueue.objects.paused(), {"mail"})
        self.assertEqual(Job.objects.claim("runner"), [])
        self.assertTrue(PausedQueue.objects.resume("mail"))
        self.assertEqual([j.pk for j in Job.objects.claim("runner")], [job.pk])

    def test_pausing_and_resuming_twice_is_told(self):
        PausedQueue.objects.pause("mail")
        self.assertFalse(PausedQueue.objects.pause("mail"))
        self.assertTrue(PausedQueue.objects.resume("mail"))
        self.assertFalse(PausedQueue.objects.resume("mail"))

    def test_a_name_that_no_queue_can_have_is_refused(self):
        with self.assertRaises(InvalidJob):
            PausedQueue.objects.pause("")
