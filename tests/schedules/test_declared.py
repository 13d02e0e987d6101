"""Schedules that the settings and handlers declare: the sync, and the checks of what they say."""

import json
from typing import Any
from unittest import mock

import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import SimpleTestCase, TestCase, override_settings

from django_sqlqueue import handler, schedules
from django_sqlqueue.models import Job
from tests.handling import KIND, HandlingMixin
from tests.processes import ProcessTestCase, spawn, wait_until
from tests.schedules.base import DAY, HOUR, MINUTE, NOON

HOURLY = {"kind": "testapp.noop", "every": 3600}
NIGHTLY = {"kind": "testapp.noop", "cron": "30 2 * * *", "timezone": "Europe/Berlin"}


def declaring(**entries: Any) -> Any:
    return override_settings(SQLQUEUE={"SCHEDULES": entries})


def live() -> dict[str, Job]:
    return {
        job.name: job for job in Job.objects.filter(status__in=("ready", "running")) if job.name
    }


class SyncTests(HandlingMixin, TestCase):
    def test_what_the_settings_declare_is_there_after_a_sync(self):
        options = {"payload": {"a": 1}, "priority": 3, "deadline": 60, "run_at": NOON}
        with declaring(hourly={**HOURLY, **options}, nightly=NIGHTLY):
            schedules.sync()
        found = live()
        self.assertEqual(set(found), {"hourly", "nightly"})
        hourly = found["hourly"]
        self.assertEqual((hourly.interval, hourly.due_at), (HOUR, NOON))
        self.assertEqual((hourly.payload, hourly.priority), ({"a": 1}, 3))
        self.assertEqual(hourly.deadline, NOON + MINUTE)
        self.assertEqual((found["nightly"].cron, found["nightly"].declared), ("30 2 * * *", True))

    def test_syncing_again_changes_nothing(self):
        with declaring(hourly=HOURLY, nightly=NIGHTLY):
            schedules.sync()
            Job.objects.filter(name="hourly").update(attempts=2, last_error="timeout")
            before = list(Job.objects.order_by("pk").values())
            schedules.sync()
            after = list(Job.objects.order_by("pk").values())
        for row in (*before, *after):
            del row["updated_at"]
        self.assertEqual(after, before)

    def test_a_changed_entry_takes_effect(self):
        with declaring(hourly=HOURLY):
            schedules.sync()
        with declaring(hourly={**HOURLY, "kind": "testapp.record", "every": DAY}):
            schedules.sync()
        job = live()["hourly"]
        self.assertEqual((job.kind, job.interval), ("testapp.record", DAY))

    def test_an_entry_taken_out_ends_and_what_others_made_is_not_touched(self):
        Job.objects.schedule("in code", "testapp.noop", every=60)
        Job.objects.enqueue("testapp.noop")
        with declaring(hourly=HOURLY, nightly=NIGHTLY):
            schedules.sync()
        with declaring(nightly=NIGHTLY):
            schedules.sync()
        self.assertEqual(set(live()), {"in code", "nightly"})
        self.assertEqual(Job.objects.get(name="hourly").status, "cancelled")
        schedules.sync()
        self.assertEqual(set(live()), {"in code"})
        self.assertEqual(Job.objects.filter(name=None, status="ready").count(), 1)

    def test_one_that_runs_while_its_entry_is_taken_out_ends_with_its_run(self):
        with declaring(hourly=HOURLY):
            schedules.sync()
        (job,) = Job.objects.claim("runner")
        schedules.sync()
        self.assertEqual(Job.objects.get().status, "running")
        self.assertTrue(job.complete())
        self.assertEqual(Job.objects.get().status, "cancelled")

    def test_an_entry_put_back_begins_again(self):
        with declaring(hourly=HOURLY):
            schedules.sync()
            job = live()["hourly"]
            with override_settings(SQLQUEUE={}):
                schedules.sync()
            schedules.sync()
        self.assertEqual(live()["hourly"].pk, job.pk)

    def test_one_that_moves_from_the_settings_into_code_goes_on(self):
        for code_comes_first in (True, False):
            with self.subTest(code_comes_first=code_comes_first):
                Job.objects.all().delete()
                with declaring(hourly=HOURLY):
                    schedules.sync()
                if not code_comes_first:
                    schedules.sync()
                Job.objects.schedule("hourly", "testapp.noop", every=3600)
                schedules.sync()
                self.assertEqual(set(live()), {"hourly"})

    def test_one_that_moves_from_code_into_the_settings_ends_with_them(self):
        Job.objects.schedule("hourly", "testapp.noop", every=3600)
        with declaring(hourly=HOURLY):
            schedules.sync()
        schedules.sync()
        self.assertEqual(live(), {})

    def test_one_that_an_operator_ended_comes_back_with_the_next_sync(self):
        with declaring(hourly=HOURLY):
            schedules.sync()
            Job.objects.unschedule("hourly")
            schedules.sync()
        self.assertEqual(set(live()), {"hourly"})

    def test_a_handler_declares_one_beside_itself(self):
        self.handle(lambda job: None, cron="@daily", timezone="Europe/Berlin", missed="skip")
        schedules.sync()
        job = live()[KIND]
        self.assertEqual((job.kind, job.cron, job.timezone), (KIND, "0 0 * * *", "Europe/Berlin"))
        self.assertEqual(job.missed, "skip")
        self.handle(lambda job: None)
        schedules.sync()
        self.assertEqual(live(), {})

    def test_the_options_of_its_handler_are_those_of_its_schedule(self):
        self.handle(
            lambda job: None, every=HOUR, queue="mail", priority=4, max_attempts=2,
            payload={"a": 1}, ref="library:1", deadline=MINUTE,
        )  # fmt: skip
        schedules.sync()
        job = live()[KIND]
        self.assertEqual((job.queue, job.priority, job.max_attempts), ("mail", 4, 2))
        self.assertEqual((job.interval, job.payload, job.ref), (HOUR, {"a": 1}, "library:1"))
        self.assertEqual(job.deadline - job.due_at, MINUTE)

    def test_the_settings_rule_over_the_handler(self):
        self.handle(lambda job: None, every=60)
        with declaring(**{KIND: {"kind": KIND, "every": 3600}}):
            schedules.sync()
        self.assertEqual(live()[KIND].interval, HOUR)

    def test_an_entry_that_cannot_be_used_is_logged_and_keeps_no_other_from_being_synced(self):
        with declaring(hourly=HOURLY):
            schedules.sync()
        broken = {"kind": "testapp.noop", "cron": "0 0 30 2 *"}
        wrong = {"kind": "testapp.noop", "every": 60, "colour": "red"}
        with (
            declaring(broken=broken, wrong=wrong, hourly=HOURLY),
            self.assertLogs("django_sqlqueue", "ERROR") as logged,
        ):
            schedules.sync()
        self.assertEqual(len(logged.output), 2)
        self.assertEqual(set(live()), {"hourly"})

    def test_one_whose_entry_has_become_wrong_is_left_as_it_was(self):
        with declaring(hourly=HOURLY):
            schedules.sync()
        with declaring(hourly={**HOURLY, "every": -1}), self.assertLogs("django_sqlqueue"):
            schedules.sync()
        self.assertEqual(live()["hourly"].interval, HOUR)

    def test_migrating_syncs(self):
        with declaring(hourly=HOURLY):
            call_command("migrate", "django_sqlqueue", verbosity=0)
        self.assertEqual(set(live()), {"hourly"})

    def test_only_the_migration_of_the_queue_s_own_database_syncs(self):
        with declaring(hourly=HOURLY):
            schedules.sync_after_migrate("other")
            self.assertEqual(live(), {})
            schedules.sync_after_migrate("default")
        self.assertEqual(set(live()), {"hourly"})


@pytest.mark.processes
class WorkersTests(ProcessTestCase):
    def test_several_workers_that_start_at_once_make_one_row_for_each(self):
        Job.objects.schedule("in code", "testapp.noop", every=86_400)
        with declaring(old=HOURLY):
            schedules.sync()
        entries = {f"s{number}": {**HOURLY, "every": 3600 + number} for number in range(5)}
        entries["nightly"] = NIGHTLY
        workers = [
            spawn(
                "runjobs", "--queue", "none",
                env={"SQLQUEUE": json.dumps({"SCHEDULES": entries})},
                settings="tests.schedules.settings",
            )
            for _ in range(4)
        ]  # fmt: skip
        for worker in workers:
            wait_until(lambda worker=worker: " serves " in worker.output, 30)
        wait_until(lambda: Job.objects.get(name="old").status == "cancelled")
        for worker in workers:
            worker.terminate()
            self.assertEqual(worker.wait(), 0, worker.output)
            self.assertNotIn("cannot be declared", worker.output)
            self.assertNotIn("Traceback", worker.output)
        self.assertEqual(set(live()), {"in code", *entries})
        self.assertEqual(Job.objects.count(), len(entries) + 2)


class CheckTests(HandlingMixin, SimpleTestCase):
    def found(self, **entries: Any) -> list[tuple[str, str]]:
        with declaring(**entries):
            messages = checks.run_checks(tags=["sqlqueue"])
            return [(each.id or "", each.msg) for each in messages if not each.is_silenced()]

    def test_what_can_be_used_is_left_unmentioned(self):
        self.assertEqual(self.found(hourly=HOURLY, nightly={**NIGHTLY, "run_at": NOON}), [])

    def test_what_can_never_run_is_an_error_that_names_the_schedule(self):
        for options, says in (
            ({"kind": "testapp.noop", "cron": "0 0 30 2 *"}, "cron"),
            ({"kind": "testapp.noop", "cron": "0 0 */31 * mon#2"}, "never comes"),
            ({"kind": "testapp.noop", "cron": "at noon"}, "cron"),
            ({**NIGHTLY, "timezone": "Europe/Nowhere"}, "'Europe/Nowhere'"),
            ({"kind": "testapp.noop"}, "every"),
            ({"kind": "testapp.noop", "every": 60, "cron": "@daily"}, "not both"),
            ({"kind": "testapp.noop", "every": 0}, "every"),
            ({"every": 60}, "kind"),
            ({**HOURLY, "colour": "red"}, "colour"),
            ({**HOURLY, "missed": "never"}, "missed"),
            ({**HOURLY, "payload": {1, 2}}, "payload"),
            ({**HOURLY, "run_at": "noon"}, "run_at"),
            ({**HOURLY, "name": "other"}, "name"),
        ):
            with self.subTest(options=options):
                ((number, message),) = self.found(odd=options)
                self.assertEqual(number, "sqlqueue.E002")
                self.assertIn("'odd'", message)
                self.assertIn(says, message)

    def test_an_entry_that_is_no_dict_is_an_error_of_the_settings(self):
        for options in ("testapp.noop", None, ["testapp.noop"]):
            ((number, message),) = self.found(odd=options)
            self.assertEqual(number, "sqlqueue.E001")
            self.assertIn("SCHEDULES", message)

    def test_a_kind_that_no_handler_serves_is_a_warning(self):
        ((number, message),) = self.found(odd={**HOURLY, "kind": "testapp.nope"})
        self.assertEqual(number, "sqlqueue.W001")
        self.assertIn("'testapp.nope' of the schedule 'odd'", message)

    def test_what_a_handler_declares_is_checked_too(self):
        self.handle(lambda job: None, cron="0 0 31 2 *")
        ((number, message),) = self.found()
        self.assertEqual(number, "sqlqueue.E002")
        self.assertIn(KIND, message)

    def test_without_its_library_cron_is_an_error_that_names_the_extra(self):
        with mock.patch.dict("sys.modules", {"cronsim": None}):
            ((number, message),) = self.found(nightly=NIGHTLY)
        self.assertEqual(number, "sqlqueue.E002")
        self.assertIn("django-sqlqueue[cron]", message)

    def test_options_of_a_schedule_need_a_rhythm_beside_them(self):
        for options in ({"missed": "all"}, {"timezone": "UTC"}, {"evry": 60}):
            with self.assertRaises(ImproperlyConfigured):
                handler("test.declared", **options)(lambda job: None)
