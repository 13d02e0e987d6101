"""Wrong settings are told at start-up, and the framework is chosen by Django's version."""

import subprocess
import sys

import pytest
from django import VERSION
from django.core.checks import run_checks
from django.test import SimpleTestCase, TestCase, modify_settings, override_settings

from django_sqlqueue import checks
from django_sqlqueue.backend import SqlQueueBackend
from django_sqlqueue.backend.marks import holds, mark_of
from django_sqlqueue.models import Job
from django_sqlqueue.testing import run_jobs
from tests.processes import ROOT
from tests.tasks import work
from tests.tasks.post import tasks as post

BACKEND = "django_sqlqueue.backend.SqlQueueBackend"


def problems(**params):
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, **params}}):
        return SqlQueueBackend("default", params).check()


class CheckTests(SimpleTestCase):
    def test_good_settings_pass(self):
        good = {"max_attempts": 3, "backoff": "tests.tasks.work.soon", "store_messages": True}
        assert problems(OPTIONS=good, QUEUES=["a"]) == []
        assert problems() == []

    def test_wrong_options_are_told(self):
        for options, words in (
            ({"max_attemps": 3}, "'max_attemps' is not an option"),
            ({"max_attempts": 0}, "max_attempts must be from 1"),
            ({"backoff": "no.such.function"}, "No module named 'no'"),
            ({"store_messages": "yes"}, "store_messages must be True or False"),
            ([], "must be a dict"),
        ):
            with self.subTest(options=options):
                (problem,) = problems(OPTIONS=options)
                assert problem.id == "sqlqueue.E103"
                assert words in problem.msg

    def test_a_key_that_nothing_reads_is_told(self):
        (problem,) = problems(MAX_ATTEMPTS=3)
        assert problem.id == "sqlqueue.W102"
        assert "MAX_ATTEMPTS" in problem.msg

    @override_settings(SQLQUEUE={"QUEUES": ["default"]})
    def test_queues_that_the_job_queue_refuses_are_told(self):
        (problem,) = problems(QUEUES=["default", "letters"])
        assert problem.id == "sqlqueue.E104"

    @modify_settings(INSTALLED_APPS={"remove": "django_sqlqueue"})
    def test_a_missing_app_is_told(self):
        assert [problem.id for problem in problems()] == ["sqlqueue.E101"]

    def test_a_schedule_in_the_settings_may_name_a_task(self):
        schedule = {"kind": "tests.tasks.work.note", "every": 60, "payload": {"args": ["x"]}}
        with override_settings(SQLQUEUE={"SCHEDULES": {"notes": schedule}}):
            assert checks.check_schedules() == []


class FrameworksCheckTests(TestCase):
    databases = "__all__"

    def test_the_frameworks_check_asks_ours(self):
        wrong = {"default": {"BACKEND": BACKEND, "OPTIONS": {"colour": 1}}}
        with override_settings(TASKS=wrong):
            assert "sqlqueue.E103" in [problem.id for problem in run_checks()]


class MarkTests(TestCase):
    def test_a_mark_holds_for_its_own_path_and_key_only(self):
        mark = mark_of("a.b")
        assert holds("a.b", mark)
        assert not holds("a.c", mark)
        for wrong in (None, "", 5, mark.upper(), f"{mark}0", "é"):
            assert not holds("a.b", wrong)
        with override_settings(SECRET_KEY="another"):
            assert not holds("a.b", mark)
        with override_settings(SECRET_KEY="another", SECRET_KEY_FALLBACKS=["only for tests"]):
            assert holds("a.b", mark)

    def test_rows_of_a_registered_task_need_no_mark(self):
        Job.objects.enqueue(post.weigh.module_path, {"args": [[1]]})
        run_jobs()
        assert Job.objects.get().status == "done"


class ScheduleTests(TestCase):
    def test_a_task_with_a_key_cannot_be_scheduled(self):
        with pytest.raises(Exception, match="A schedule has a name"):
            work.alone.schedule("x", every=60)

    def test_a_schedule_takes_the_tasks_options_and_its_own(self):
        result = work.low.using(max_attempts=4, ref="r").schedule(
            "x", "name", cron="0 4 * * *", timezone="Europe/Berlin"
        )
        job = Job.objects.get(name="x")
        assert (job.queue, job.priority, job.max_attempts, job.ref) == ("letters", -5, 4, "r")
        assert (job.cron, job.timezone) == ("0 4 * * *", "Europe/Berlin")
        assert result.args == ["name"]
        assert work.low.get_result(result.id) == result


def python(code, **environ):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environ
    )
    return done.stdout + done.stderr


def test_the_package_loads_neither_framework():
    code = (
        "import sys, django_sqlqueue; "
        "print([name for name in ('django.tasks', 'django_tasks') if name in sys.modules])"
    )
    assert python(code) == "[]\n"


def test_a_project_without_tasks_loads_no_backend():
    code = (
        "import sys, django; from django.conf import settings; "
        "settings.configure(INSTALLED_APPS=['django_sqlqueue']); django.setup(); "
        "print('django_sqlqueue.backend' in sys.modules)"
    )
    assert python(code) == "False\n"


@pytest.mark.skipif(VERSION >= (6, 0), reason="from Django 6.0 on the framework is built in")
def test_a_missing_backport_is_named():
    code = (
        "import sys; sys.modules['django_tasks'] = None; "
        "from django.conf import settings; settings.configure(); "
        "import django_sqlqueue.backend"
    )
    assert "install django-sqlqueue[tasks]" in python(code)


@pytest.mark.skipif(VERSION < (6, 0), reason="there the backport is the framework")
def test_a_stray_backport_is_not_picked_up():
    code = (
        "import sys; sys.modules['django_tasks'] = sys; "
        "from django.conf import settings; settings.configure(); "
        "from django_sqlqueue.backend import QueueTask; print(QueueTask.__mro__[1].__module__)"
    )
    assert python(code) == "django.tasks.base\n"
