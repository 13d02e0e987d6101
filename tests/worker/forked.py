"""A parent that uses its connection while workers that it forked run: python -m … METHOD."""

import multiprocessing
import sys
import time
from typing import Any

import django
from django.core.management import call_command
from django.db import connection


def work() -> None:
    django.setup()
    call_command("runjobs", drain=True)


def count_done() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM django_sqlqueue_job WHERE status = 'done'")
        return cursor.fetchone()[0]


def main(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    count_done()
    children = [context.Process(target=work) for _ in range(2)]
    for child in children:
        child.start()
    while any(child.is_alive() for child in children):
        count_done()
        time.sleep(0.005)
    for child in children:
        child.join()
        assert child.exitcode == 0, child.exitcode
    print("the parent counts", count_done())


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1])
