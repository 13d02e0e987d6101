"""The app's tasks."""

import asyncio

from tests.tasks.post.framework import task, task_backends


@task
def weigh(parcels):
    return {"parcels": len(parcels), "grams": sum(parcels)}


@task(priority=10)
def frank(letter, *, stamp="blue"):
    return [letter, stamp]


@task()
async def deliver(street):
    await asyncio.sleep(0)
    return f"delivered to {street}"


@task(takes_context=True)
def number(context, offset):
    return [context.task_result.id, context.attempt + offset]


@task(takes_context=True)
async def number_on_loop(context):
    return [context.task_result.id, context.attempt]


@task
def lose(letter):
    raise LookupError(f"no trace of {letter}")


@task
def resign():
    raise SystemExit("enough")


@task
def look_for(result_id):
    """Fail with an exception of the framework."""
    return task_backends["default"].get_result(result_id).status


@task
def hurry(priority):
    """Fail with the exception whose name the framework has changed."""
    frank.using(priority=priority)


@task
def return_a_function():
    return lose


@task
def return_odd_things():
    return (1, b"two", range(3))


@task
def return_what_no_database_holds():
    return "nul \x00"
