"""What the README shows of recurring jobs does what it says."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core import checks
from django.test import TestCase, override_settings

from django_sqlqueue import handler, schedules
from django_sqlqueue.handlers import unregister
from django_sqlqueue.models import Job

README = Path(__file__).resolve().parents[2] / "README.md"


class ReadmeTests(TestCase):
    def test_its_examples_make_these_schedules(self):
        section = README.read_text().partition("\n## Recurring jobs\n")[2].partition("\n## ")[0]
        (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        self.addCleanup(unregister, "shop.cleanup")
        said: dict[str, Any] = {"Job": Job, "handler": handler, "timedelta": timedelta}
        exec(example, said)
        with override_settings(SQLQUEUE=said["SQLQUEUE"]):
            schedules.sync()
            problems = checks.run_checks(tags=["sqlqueue"])
        told = [problem.id for problem in problems if not problem.is_silenced()]
        self.assertEqual(told, ["sqlqueue.W001"])
        self.assertEqual(
            sorted(Job.objects.values_list("name", "kind", "declared")),
            [
                ("library.rescan:books", "library.rescan", False),
                ("prices", "shop.fetch_prices", True),
                ("report", "shop.report", False),
                ("shop.cleanup", "shop.cleanup", True),
            ],
        )
