"""Handlers that leave their connections in every state but a good one."""

import threading
import time

from django.db import IntegrityError, connection, connections, transaction

from django_sqlqueue import handler
from tests.testapp.models import Effect

BEGIN = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN", "mysql": "START TRANSACTION"}


@handler("faults.noop")
def noop(job):
    return None


@handler("faults.record")
def record(job):
    Effect.objects.create(name=job.payload["name"], n=job.id)
    return {"recorded": True}


@handler("faults.sleep_between_queries", max_attempts=1)
def sleep_between_queries(job):
    Effect.objects.create(name="before", n=job.id)
    time.sleep(job.payload)
    Effect.objects.create(name="after", n=job.id)


@handler("faults.sleep_without_queries")
def sleep_without_queries(job):
    time.sleep(job.payload)


@handler("faults.wait_until_opened")
def wait_until_opened(job):
    """Wait for an Effect; not by time.sleep, which a faked clock breaks."""
    Effect.objects.create(name="started", n=job.id)
    while not Effect.objects.filter(name="open", n=job.id).exists():
        threading.Event().wait(0.05)


@handler("faults.hold_a_transaction", atomic=True)
def hold_a_transaction(job):
    Effect.objects.create(name="held", n=job.id)
    time.sleep(job.payload)


@handler("faults.state_of_connection", max_attempts=1)
def state_of_connection(job):
    """Tell how the connection was found, and use it."""
    found = {"autocommit": connection.get_autocommit(), "in_atomic": connection.in_atomic_block}
    Effect.objects.create(name="next", n=job.id)
    return found


@handler("faults.autocommit_off", max_attempts=1)
def autocommit_off(job):
    connection.set_autocommit(False)
    Effect.objects.create(name="left open", n=job.id)


@handler("faults.atomic_never_left", max_attempts=1)
def atomic_never_left(job):
    transaction.atomic().__enter__()
    transaction.atomic().__enter__()
    Effect.objects.create(name="left open", n=job.id)


@handler("faults.transaction_by_sql", max_attempts=1)
def transaction_by_sql(job):
    with connection.cursor() as cursor:
        cursor.execute(BEGIN[connection.vendor])
    Effect.objects.create(name="left open", n=job.id)


@handler("faults.swallowed_error", max_attempts=1)
def swallowed_error(job):
    transaction.atomic().__enter__()
    first = Effect.objects.create(name="left open", n=job.id)
    try:
        Effect.objects.bulk_create([Effect(pk=first.pk, name="twin")])
    except IntegrityError:
        return


@handler("faults.closed_by_django", max_attempts=1)
def closed_by_django(job):
    connection.ensure_connection()
    connections.close_all()


@handler("faults.closed_by_driver", max_attempts=1)
def closed_by_driver(job):
    connection.ensure_connection()
    connection.connection.close()


@handler("faults.closed_in_atomic", max_attempts=1)
def closed_in_atomic(job):
    transaction.atomic().__enter__()
    Effect.objects.create(name="left open", n=job.id)
    connection.close()


@handler("faults.use_all_aliases")
def use_all_aliases(job):
    for alias in connections:
        Effect.objects.using(alias).count()


@handler("faults.raise_a_reason", max_attempts=2)
def raise_a_reason(job):
    raise ValueError("never stored")


@handler("faults.query_the_payload")
def query_the_payload(job):
    for _ in range(10):
        Effect.objects.filter(name=job.payload).count()


@handler("faults.query_the_payload_later")
async def query_the_payload_later(job):
    await Effect.objects.filter(name=job.payload).acount()
