"""The job list: pages, filters, search, and what it costs."""

from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_sqlqueue.models import Job

from .base import JOBS, AdminTestCase, failed, running

PER_PAGE = 50


class ListTestCase(AdminTestCase):
    def page(self, url=JOBS, **query):
        return self.client.get(url, query)

    def ids(self, page):
        return [job.pk for job in page.context["cl"].result_list]

    def queries(self, **query):
        self.page(**query)
        with CaptureQueriesContext(connection) as captured:
            self.page(**query)
        return [line["sql"] for line in captured.captured_queries]


class Pages(ListTestCase):
    def setUp(self):
        super().setUp()
        Job.objects.enqueue_many([("testapp.noop", {"n": n}) for n in range(120)])
        self.newest_first = list(Job.objects.order_by("-pk").values_list("pk", flat=True))

    def walk(self, link, page):
        urls = []
        while url := getattr(page.context["cl"], link):
            urls.append(url)
            page = self.client.get(JOBS + url)
            yield page

    def test_older_pages_follow_until_the_end_and_newer_ones_lead_back(self):
        first = self.page()
        pages = [first, *self.walk("older_url", first)]
        seen = [pk for page in pages for pk in self.ids(page)]
        self.assertEqual(seen, self.newest_first)
        back = [self.ids(page) for page in self.walk("newer_url", pages[-1])]
        self.assertEqual(back, [self.ids(pages[1]), self.ids(pages[0])])

    def test_jobs_enqueued_meanwhile_do_not_shift_the_next_page(self):
        first = self.page()
        Job.objects.enqueue_many([("testapp.noop", None)] * 7)
        second = self.client.get(JOBS + first.context["cl"].older_url)
        self.assertEqual(self.ids(second), self.newest_first[PER_PAGE : 2 * PER_PAGE])

    def test_settled_jobs_come_by_when_they_ended(self):
        for job in [Job.objects.claim_next("host:1") for _ in range(60)][::-1]:
            job.complete()
        first = self.page(status="done")
        second = self.client.get(JOBS + first.context["cl"].older_url)
        seen = self.ids(first) + self.ids(second)
        ended = Job.objects.filter(status="done").order_by("-finished_at", "-pk")
        self.assertEqual(seen, list(ended.values_list("pk", flat=True)))
        back = self.client.get(JOBS + second.context["cl"].newer_url)
        self.assertEqual(self.ids(back), self.ids(first))

    def test_a_page_that_is_no_page_is_the_first_one(self):
        for cursor in ("0", "-1", "x", "9" * 30, "²", "1;DROP"):
            self.assertEqual(self.ids(self.page(before=cursor)), self.newest_first[:PER_PAGE])

    def test_a_filter_leaves_the_page(self):
        second = self.client.get(JOBS + self.page().context["cl"].older_url)
        self.assertContains(second, 'href="?status=ready"')
        self.assertNotContains(second, 'name="before"')

    def test_show_all_shows_a_page(self):
        self.assertEqual(len(self.ids(self.page(all=""))), PER_PAGE)


class Cost(ListTestCase):
    def setUp(self):
        super().setUp()
        Job.objects.enqueue_many([("testapp.noop", {"big": "x" * 1000})] * 10)

    def test_the_number_of_queries_does_not_depend_on_the_rows(self):
        few = self.queries()
        Job.objects.enqueue_many([("testapp.record", {"n": n}) for n in range(200)])
        for n in range(5):
            failed(f"reason{n}")
        self.assertEqual(len(self.queries()), len(few))
        self.assertLess(len(few), 15)

    def test_nothing_is_counted_without_a_bound(self):
        for sql in self.queries() + self.queries(status="failed") + self.queries(q="x"):
            if "COUNT(" in sql:
                self.assertIn("LIMIT", sql)
            self.assertNotIn("DISTINCT", sql)

    def test_large_columns_are_not_read(self):
        for sql in self.queries():
            for column in ("payload", "result", "traceback"):
                self.assertNotIn(f"{column}`", sql.replace('"', "`"))


class Filters(ListTestCase):
    def test_each_filter_narrows(self):
        broken = failed("A", ref="r", queue="mail")
        runs = running()
        recurring = Job.objects.schedule("hourly", "testapp.record", every=3600)
        cases = {
            ("status", "failed"): [broken.pk],
            ("status", "running"): [runs.pk],
            ("kind", "testapp.record"): [recurring.pk],
            ("queue", "mail"): [broken.pk],
            ("reason", "A"): [broken.pk],
            ("reason", f"like:{broken.pk}"): [broken.pk],
            ("schedule", "yes"): [recurring.pk],
            ("ended", "hour"): [broken.pk],
            ("ended", "nonsense"): [],
            ("kind", "a\x00b"): [],
            ("status", "of-a-newer-version"): [],
        }
        for (name, value), expected in cases.items():
            page = self.page(**{name: value})
            self.assertEqual(self.ids(page), expected, (name, value))

    def test_a_status_of_a_newer_version_is_listed_and_can_be_filtered(self):
        job = Job.objects.enqueue("testapp.noop")
        Job.objects.filter(pk=job.pk).update(status="dreaming")
        self.assertContains(self.page(), "dreaming")
        self.assertEqual(self.ids(self.page(status="dreaming")), [job.pk])

    def test_ended_looks_at_when_it_ended(self):
        job = failed()
        old = Job.objects.all().engine.now() - timedelta(hours=2)
        Job.objects.filter(pk=job.pk).update(finished_at=old)
        self.assertEqual(self.ids(self.page(ended="hour")), [])
        self.assertEqual(self.ids(self.page(ended="day")), [job.pk])


class Search(ListTestCase):
    def setUp(self):
        super().setUp()
        self.one = Job.objects.enqueue("testapp.noop", ref="order:1", dedup_key="key-1")
        self.two = Job.objects.enqueue("testapp.record", ref=str(self.one.pk))

    def found(self, term):
        return set(self.ids(self.page(q=term)))

    def test_an_id_a_ref_and_a_key_are_found_in_full(self):
        self.assertEqual(self.found(str(self.two.pk)), {self.two.pk})
        self.assertEqual(self.found("order:1"), {self.one.pk})
        self.assertEqual(self.found(" key-1 "), {self.one.pk})
        self.assertEqual(self.found("order"), set())

    def test_all_jobs_of_a_key_are_found_settled_or_not(self):
        self.assertTrue(Job.objects.claim_next("host:1", kinds=["testapp.noop"]).complete())
        again = Job.objects.enqueue("testapp.noop", dedup_key="key-1")
        other = Job.objects.enqueue("testapp.record", dedup_key="key-1")
        self.assertEqual(self.found("key-1"), {self.one.pk, again.pk, other.pk})
        self.assertEqual(self.found("KEY-1"), set())

    def test_a_term_that_is_an_id_and_a_ref_finds_both(self):
        self.assertEqual(self.found(str(self.one.pk)), {self.one.pk, self.two.pk})

    def test_what_nothing_has_is_the_beginning_of_a_kind(self):
        self.assertEqual(self.found("testapp.re"), {self.two.pk})
        self.assertEqual(self.found("testapp"), {self.one.pk, self.two.pk})

    def test_odd_terms_find_nothing(self):
        for term in ("9" * 40, "%", "_", "a\x00b' OR 1=1", "²", "-1"):
            self.assertIn(self.page(q=term).status_code, (200,), term)
        self.assertEqual(self.found("%"), set())
