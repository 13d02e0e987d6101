"""The lines of a group of attempts: each whole, in order, in few writes; nobody else waits."""

import contextlib
import io
import logging
import re
import select
import threading
from unittest import TestCase

from django_sqlqueue.models import Job
from django_sqlqueue.policy import Outcome
from django_sqlqueue.worker.lines import LineHandler, log_attempts

LOG = logging.getLogger("django_sqlqueue")


class Stream(io.StringIO):
    """Remembers what was written at once."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


class BrokenStream(Stream):
    def write(self, text: str) -> int:
        raise BrokenPipeError


class LineTests(TestCase):
    def setUp(self):
        self.stream = Stream()
        self.handler = self.listen(LineHandler(self.stream))

    def listen(self, handler: logging.Handler) -> logging.Handler:
        self.addCleanup(LOG.setLevel, LOG.level)
        self.addCleanup(setattr, LOG, "propagate", LOG.propagate)
        self.addCleanup(LOG.removeHandler, handler)
        LOG.addHandler(handler)
        LOG.setLevel(logging.INFO)
        LOG.propagate = False
        return handler

    def group(self, size: int) -> list[tuple[Job, Outcome]]:
        jobs = [
            Job(id=n, kind="test.line", queue="default", attempts=1, max_attempts=5)
            for n in range(size)
        ]
        return [(job, Outcome(move="complete")) for job in jobs]

    def test_a_short_group_is_one_write_of_a_line_each(self):
        log_attempts(self.group(3))
        self.assertEqual(len(self.stream.writes), 1)
        lines = self.stream.getvalue().splitlines()
        self.assertEqual(len(lines), 3)
        for n, line in enumerate(lines):
            self.assertRegex(
                line,
                rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d{{3}} INFO Job {n} \(test\.line, queue"
                r" default\) attempt 1 of 5: complete in 0\.000 s\.$",
            )
        self.assertTrue(self.stream.getvalue().endswith("\n"))

    def test_no_write_is_longer_than_a_pipe_takes_whole(self):
        log_attempts(self.group(300))
        self.assertGreater(len(self.stream.writes), 1)
        self.assertLess(len(self.stream.writes), 30)
        for text in self.stream.writes:
            self.assertLessEqual(len(text), select.PIPE_BUF)
            self.assertTrue(text.endswith("\n"))
        self.assertEqual(len(self.stream.getvalue().splitlines()), 300)

    def test_a_line_that_is_longer_than_that_is_written_alone(self):
        with self.handler.together():
            for text in ("short", "é" * select.PIPE_BUF, "short"):
                LOG.warning(text)
        self.assertEqual(len(self.stream.writes), 3)

    def test_other_lines_are_written_when_they_are_logged(self):
        LOG.warning("one")
        self.assertRegex(self.stream.getvalue(), r"WARNING one\n$")
        log_attempts(self.group(2))
        LOG.warning("two")
        ends = [line.rpartition(" ")[2] for line in self.stream.getvalue().splitlines()]
        self.assertEqual(ends, ["one", "s.", "s.", "two"])

    def test_another_thread_does_not_wait_for_the_group(self):
        with self.handler.together():
            LOG.warning("of the group")
            other = threading.Thread(target=LOG.warning, args=("of another",))
            other.start()
            other.join(10)
            self.assertRegex(self.stream.getvalue(), r"^\S+ \S+ WARNING of another\n$")
        self.assertRegex(self.stream.getvalue(), r"of another\n\S+ \S+ WARNING of the group\n$")

    def test_lines_are_written_also_where_the_group_breaks_off(self):
        with contextlib.suppress(RuntimeError), self.handler.together():
            LOG.warning("before")
            raise RuntimeError
        LOG.warning("after")
        self.assertEqual(re.findall("before|after", self.stream.getvalue()), ["before", "after"])

    def test_a_line_that_cannot_be_formatted_costs_no_other(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.handler.together():
            LOG.warning("%d", "no number")
            LOG.warning("good")
        self.assertIn("no number", errors.getvalue())
        self.assertRegex(self.stream.getvalue(), r"^\S+ \S+ WARNING good\n$")

    def test_a_stream_that_is_gone_stops_nothing(self):
        LOG.removeHandler(self.handler)
        self.listen(LineHandler(BrokenStream()))
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            log_attempts(self.group(2))
        self.assertIn("BrokenPipeError", errors.getvalue())

    def test_handlers_of_the_project_are_told_of_each(self):
        LOG.removeHandler(self.handler)
        with self.assertLogs("django_sqlqueue", "INFO") as logged:
            log_attempts(self.group(3))
        self.assertEqual([record.args[0] for record in logged.records], [0, 1, 2])

    def test_nothing_is_prepared_where_nobody_wants_it(self):
        LOG.setLevel(logging.WARNING)
        log_attempts(self.group(1))
        self.assertEqual(self.stream.writes, [])

    def test_an_empty_group_writes_nothing(self):
        log_attempts([])
        self.assertEqual(self.stream.writes, [])
