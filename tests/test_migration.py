"""The migration: complete, clean on every engine, and to be undone."""

import io

from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.test import TestCase, TransactionTestCase

from django_sqlqueue.models import Job

APP = "django_sqlqueue"


class MigrationTests(TestCase):
    def test_the_models_need_no_further_migration(self):
        out = io.StringIO()
        call_command("makemigrations", "--check", "--dry-run", stdout=out)
        self.assertIn("No changes detected", out.getvalue())

    def test_nothing_is_left_to_apply(self):
        executor = MigrationExecutor(connection)
        targets = executor.loader.graph.leaf_nodes(APP)
        self.assertEqual(executor.migration_plan(targets), [])

    def test_the_table_has_its_rules_on_every_engine(self):
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, Job._meta.db_table)
        self.assertTrue(found["sqlqueue_live_key"]["unique"])
        self.assertTrue(found["sqlqueue_schedule_name"]["unique"])
        self.assertLessEqual(
            {"sqlqueue_claim_idx", "sqlqueue_lease_idx", "sqlqueue_settled_idx"}, set(found)
        )
        checks = {name for name, rule in found.items() if rule["check"]}
        self.assertLessEqual({"sqlqueue_lease_if_running", "sqlqueue_finished_if_settled"}, checks)

    def test_the_rules_bind_a_row_that_sql_writes(self):
        for columns, values in (
            ("kind, status", "'k', 'running'"),
            ("kind, status", "'k', 'done'"),
            ("kind, lease_owner", "'k', 'runner'"),
            ("kind, finished_at", "'k', '2026-01-01 00:00:00'"),
        ):
            with (
                self.subTest(columns),
                self.assertRaises(IntegrityError),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(f"INSERT INTO {Job._meta.db_table} ({columns}) VALUES ({values})")

    def test_only_schedules_take_room_in_the_index_of_their_names_where_it_can_be_partial(self):
        rules = Job._meta.constraints
        (rule,) = (each for each in rules if each.name == "sqlqueue_schedule_name")
        sql = str(rule.create_sql(Job, connection.SchemaEditorClass(connection)))
        self.assertIn("UNIQUE", sql)
        self.assertEqual("WHERE" in sql, connection.features.supports_partial_indexes)

    def test_two_schedules_of_one_name_are_refused(self):
        insert = f"INSERT INTO {Job._meta.db_table} (kind, name) VALUES ('k', %s)"
        with connection.cursor() as cursor:
            for name in (None, None, "nightly"):
                cursor.execute(insert, [name])
            with self.assertRaises(IntegrityError), transaction.atomic():
                cursor.execute(insert, ["nightly"])

    def test_a_name_that_is_taken_is_told_of_in_a_form(self):
        Job.objects.create(kind="k", name="nightly")
        with self.assertRaises(ValidationError) as refused:
            Job(kind="k", name="nightly").full_clean()
        self.assertEqual(list(refused.exception.message_dict), ["name"])
        Job(kind="k").full_clean()
        Job.objects.get(name="nightly").full_clean()

    def test_the_rules_leave_a_status_of_a_newer_version_alone(self):
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {Job._meta.db_table} (kind, status, lease_owner, finished_at)"
                " VALUES ('k', 'paused', 'runner', '2026-01-01 00:00:00')"
            )
        self.assertEqual(Job.objects.get().status, "paused")


class UndoneTests(TransactionTestCase):
    def test_it_can_be_undone_and_done_again(self):
        self.addCleanup(call_command, "migrate", verbosity=0)
        call_command("migrate", APP, "zero", verbosity=0)
        tables = connection.introspection.table_names()
        self.assertFalse([table for table in tables if table.startswith(APP)])
        call_command("migrate", APP, verbosity=0)
        job = Job.objects.enqueue("test.migrated", dedup_key="one")
        self.assertIsNotNone(job)
        self.assertIsNone(Job.objects.enqueue("test.migrated", dedup_key="one"))

    def test_a_second_run_on_an_existing_table_changes_nothing(self):
        job = Job.objects.enqueue("test.migrated")
        assert job is not None
        out = io.StringIO()
        call_command("migrate", stdout=out)
        self.assertIn("No migrations to apply", out.getvalue())
        self.assertTrue(Job.objects.filter(pk=job.pk).exists())
