"""The setting REDACT is checked at start-up like the other settings."""

from django.test import SimpleTestCase, override_settings

from django_sqlqueue import conf


def star(field, value, job):
    return "***"


class Setting(SimpleTestCase):
    def test_a_callable_or_its_dotted_path_is_loaded(self):
        for value in (star, "tests.admin.test_redact.star"):
            with override_settings(SQLQUEUE={"REDACT": value}):
                self.assertEqual(conf.problems(), [])
                self.assertEqual(conf.settings.REDACT("payload", 1, None), "***")

    def test_anything_else_is_told(self):
        for value in (5, "tests.admin.test_redact.missing", "nowhere"):
            with override_settings(SQLQUEUE={"REDACT": value}):
                (problem,) = conf.problems()
                self.assertEqual(problem.key, "REDACT")
