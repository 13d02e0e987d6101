"""Benchmarks, each a module with a command of its own; importing one sets Django up.

make bench [BENCH=name]                               on each engine, in a throw-away database
DATABASE_URL=... python -m tests.benchmarks.name      on a database of yours, which it fills
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()
