"""What job_settled tells those who listen, and that it costs nothing while nobody does."""

from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.test import TestCase, TransactionTestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_sqlqueue import execution, signals
from django_sqlqueue.managers import announcing
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs


class Listening:
    """Writes down what job_settled says."""

    def setUp(self):
        super().setUp()
        self.heard = []
        signals.job_settled.connect(self.hear)
        self.addCleanup(signals.job_settled.disconnect, self.hear)

    def hear(self, sender, job, outcome, status, **kwargs):
        self.heard.append((sender, job.kind, outcome.move, status))


class SettledTests(Listening, TestCase):
    def test_it_is_sent_for_each_end_of_a_claim(self):
        Job.objects.enqueue("testapp.noop")
        Job.objects.enqueue("testapp.fail", max_attempts=1)
        run_jobs()
        assert self.heard == [
            (Job, "testapp.noop", "complete", "done"),
            (Job, "testapp.fail", "abandon", "failed"),
        ]

    def test_a_receiver_that_would_end_the_process_ends_nothing(self):
        def leaves(**kwargs):
            raise SystemExit(3)

        signals.job_settled.connect(leaves)
        self.addCleanup(signals.job_settled.disconnect, leaves)
        Job.objects.enqueue("testapp.noop")
        with self.assertLogs("django_sqlqueue", "ERROR") as logged:
            assert run_jobs() == 1
        assert "raised SystemExit" in logged.output[0]
        assert Job.objects.get().status == "done"

    def test_it_is_sent_for_what_is_taken_from_lost_runners(self):
        for budget in (1, 2):
            Job.objects.enqueue("testapp.noop", max_attempts=budget)
        moment = timezone.now()
        Job.objects.claim("lost", limit=2, lease=1, now=moment)
        Job.objects.reclaim_expired(now=moment + timedelta(seconds=2))
        assert [(move, status) for _, _, move, status in self.heard] == [
            ("expire", "failed"), ("reclaim", "ready"),
        ]  # fmt: skip

    def test_it_is_sent_once_for_a_cancelled_job_that_waited(self):
        Job.objects.enqueue("testapp.noop")
        assert Job.objects.all().cancel() == 1
        assert Job.objects.all().cancel() == 0
        assert self.heard == [(Job, "testapp.noop", "cancel", "cancelled")]

    def test_a_running_job_that_is_cancelled_is_told_of_when_it_ends(self):
        Job.objects.enqueue("testapp.noop")
        job = Job.objects.claim_next("a runner")
        assert Job.objects.all().cancel() == 1
        assert self.heard == []
        execution.run(job)
        assert self.heard == [(Job, "testapp.noop", "complete", "cancelled")]

    def test_a_lost_claim_is_not_told_of(self):
        Job.objects.enqueue("testapp.noop")
        job = Job.objects.claim_next("a runner")
        Job.objects.reset_running()
        self.heard.clear()
        assert not job.complete()
        assert self.heard == []

    def test_a_broken_receiver_is_logged_and_changes_nothing(self):
        def break_down(sender, **kwargs):
            raise RuntimeError("a receiver broke")

        signals.job_settled.connect(break_down)
        self.addCleanup(signals.job_settled.disconnect, break_down)
        job = Job.objects.enqueue("testapp.noop")
        with self.assertLogs("django.dispatch", "ERROR"):
            run_jobs()
        job.refresh_from_db()
        assert job.status == "done"


class AtomicTests(Listening, TransactionTestCase):
    def test_an_atomic_handlers_end_is_told_of_when_it_commits(self):
        Job.objects.enqueue("testapp.noop")
        job = Job.objects.claim_next("a runner")
        job.__dict__["_in_atomic_handler"] = True
        with transaction.atomic():
            assert job.complete()
            transaction.set_rollback(True)
        assert self.heard == []
        with transaction.atomic():
            assert job.complete()
            assert self.heard == []
        assert self.heard == [(Job, "testapp.noop", "complete", "done")]


class NobodyListensTests(TestCase):
    def test_nothing_is_asked_for_nobody(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(signals.job_settled, "receivers", [])
            assert not announcing.somebody_listens(Job)
            Job.objects.enqueue("testapp.noop")
            waiting = Job.objects.all()
            with CaptureQueriesContext(connections[waiting.db]) as asked:
                assert waiting.cancel() == 1
            # Two looks for live jobs and the update between; some engines lock before them.
            assert len([query for query in asked if "id < 0" not in query["sql"]]) == 3
