"""Finding the handlers of kinds that nothing registered when the process started."""

from contextlib import contextmanager

from django.test import TestCase, override_settings

from django_sqlqueue import discovery, handlers
from django_sqlqueue.handlers import Handler
from django_sqlqueue.kinds import Options
from django_sqlqueue.models import Job, PausedQueue
from django_sqlqueue.testing import run_jobs

KIND = "found.when_met"


class DiscoveryTests(TestCase):
    def setUp(self):
        super().setUp()
        self.ran, self.asked = [], []
        discovery.add_resolver(self.resolve)
        self.addCleanup(discovery._resolvers.remove, self.resolve)
        self.addCleanup(handlers.unregister, KIND)
        self.addCleanup(discovery._refused.clear)

    def resolve(self, job, trusted):
        self.asked.append((job.kind, trusted))
        if job.kind == KIND and (trusted or job.payload.get("welcome")):
            return Handler(KIND, self.ran.append, Options(), {})
        return None

    def served(self, **options):
        return discovery.served_kinds(Job.objects.all(), **options)

    def test_the_kinds_of_waiting_jobs_are_looked_up(self):
        Job.objects.enqueue(KIND, {"welcome": True})
        assert KIND not in handlers.all_kinds()
        assert KIND in self.served(look_now=True)
        assert KIND in handlers.all_kinds()

    def test_what_no_resolver_knows_is_not_served(self):
        Job.objects.enqueue(KIND)
        assert KIND not in self.served(look_now=True)
        run_jobs()
        assert self.ran == []
        assert Job.objects.get().status == "ready"

    def test_a_job_that_tells_nothing_does_not_hide_one_that_does(self):
        Job.objects.enqueue(KIND)
        Job.objects.enqueue(KIND, {"welcome": True})
        run_jobs()
        assert len(self.ran) == 2

    def test_a_refused_kind_is_not_asked_about_at_every_look(self):
        Job.objects.enqueue(KIND)
        discovery._looked_at.clear()
        self.served()
        first = len(self.asked)
        assert first > 0
        discovery._looked_at.clear()
        self.served()
        assert len(self.asked) == first

    def test_looks_at_the_table_keep_their_distance(self):
        discovery._looked_at.clear()
        self.served()
        with self.assertNumQueries(0):
            self.served()

    def test_a_paused_queue_is_not_looked_into(self):
        Job.objects.enqueue(KIND, {"welcome": True})
        PausedQueue.objects.pause("default")
        assert KIND not in self.served(look_now=True)

    @override_settings(SQLQUEUE={"UNKNOWN_KINDS": "fail"})
    def test_a_resolver_is_asked_before_a_job_of_an_unknown_kind_fails(self):
        good = Job.objects.enqueue(KIND, {"welcome": True})
        bad = Job.objects.enqueue("of.nobody")
        run_jobs()
        good.refresh_from_db()
        bad.refresh_from_db()
        assert (good.status, bad.last_error) == ("done", "no_handler")

    def test_a_kind_that_the_operator_names_needs_no_job_that_vouches(self):
        assert discovery.resolve(Job(kind=KIND, payload={})) is None
        assert discovery.resolve(Job(kind=KIND, payload={}), trusted=True) is not None


@contextmanager
def without_resolvers():
    kept, discovery._resolvers[:] = discovery._resolvers[:], []
    try:
        yield
    finally:
        discovery._resolvers[:] = kept


class NoResolverTests(TestCase):
    def test_without_a_resolver_the_table_is_not_asked(self):
        with without_resolvers(), self.assertNumQueries(0):
            assert discovery.served_kinds(Job.objects.all(), look_now=True) == handlers.all_kinds()
