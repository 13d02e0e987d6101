"""Tables are emptied between tests as thoroughly as by Django itself."""

from unittest import mock

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase

from tests import emptying
from tests.testapp.models import Effect


class EmptyingTests(TransactionTestCase):
    def flush(self):
        call_command("flush", verbosity=0, interactive=False, reset_sequences=False)

    def test_rows_are_gone_and_permissions_are_the_same(self):
        before = set(Permission.objects.values_list("pk", "codename"))
        for rows in (3, 60_000):
            with self.subTest(rows=rows):
                Effect.objects.bulk_create(
                    [Effect(name=str(n)) for n in range(rows)], batch_size=5000
                )
                self.flush()
                self.assertEqual(Effect.objects.count(), 0)
                self.assertEqual(set(Permission.objects.values_list("pk", "codename")), before)
        self.assertTrue(before)

    @pytest.mark.skipif("connection.vendor != 'postgresql'", reason="others never waited")
    def test_a_transaction_that_a_test_left_open_is_an_error(self):
        other = connection.copy()
        self.addCleanup(other.close)
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT 1")
        with mock.patch.object(emptying, "PATIENCE", 0.1), self.assertRaises(Exception) as found:
            self.flush()
        self.assertIn("left a transaction open", str(found.exception.__cause__ or found.exception))
        other.rollback()
        self.flush()
