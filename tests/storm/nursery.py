"""Forks the processes of a storm from one that has loaded everything: `python -m …nursery`.

A storm starts hundreds of processes; each would load Django for the better part of a second. The
nursery never opens a connection, so that none is shared. It reads what to start from its input, a
JSON line each, answers with the process id, and takes all down with it when its input ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import django
from django.core.management import execute_from_command_line

SETTINGS = "tests.storm.settings"


def runjobs(*arguments: str, release: str = "new") -> None:
    from tests.storm import jobs

    # What a worker starts, or becomes, in its place is started by this.
    os.environ["STORM_RELEASE"] = release
    sys.orig_argv = [sys.executable, "-m", "django", "runjobs", *arguments]
    jobs.be_release(release)
    execute_from_command_line(["django", "runjobs", *arguments])


def produce(**options: Any) -> None:
    from tests.storm import producers

    producers.produce(**options)


def operate(**options: Any) -> None:
    from tests.storm import operators

    operators.operate(**options)


def sample(**options: Any) -> None:
    from tests.storm import sampler

    sampler.sample(**options)


ROLES: dict[str, Callable[..., None]] = {
    "runjobs": runjobs, "produce": produce, "operate": operate, "sample": sample,
}  # fmt: skip


def main() -> None:
    django.setup()
    # Nobody waits for the children: the kernel buries them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        for line in sys.stdin:
            wanted = json.loads(line)
            pid = os.fork()
            if not pid:
                _be_child(wanted["role"], wanted["arguments"], wanted["options"])
            print(pid, flush=True)
    finally:
        # Also where nobody is there any more to hear an answer.
        os.killpg(0, signal.SIGKILL)


def _be_child(role: str, arguments: list[str], options: dict[str, Any]) -> None:
    code = 0
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # What the nursery reads and answers is not the child's.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        ROLES[role](*arguments, **options)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
